"""What `--data` accepts: a bundled table of scikit-learn, or a .npy, .npz or .csv file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeplimits.errors import InputError, nearest

BUNDLED = {
    "digits": "load_digits",
    "wine": "load_wine",
    "breast-cancer": "load_breast_cancer",
    "diabetes": "load_diabetes",
}
SCALES = {
    "unit": "each row scaled to |x|²/d = 1",
    "standard": "columns standardised, then each row scaled to |x|²/d = 1",
    "none": "values as they stand",
}


@dataclass(frozen=True)
class Table:
    """Rows chosen from a data set, and in words what was done to them."""

    rows: Any
    description: str


def load(name: str, rows: int | None = None, scale: str = "unit") -> Table:
    """Read `name`, take `rows` of its rows spread evenly, and scale them.

    Shapes: the table has shape (rows, features), float64.

    Raises:
        InputError: an unknown name or scale, a file that is not a table of finite numbers, too few rows.
    """
    import numpy as np

    if scale not in SCALES:
        raise InputError("--scale", f"{scale!r} is not a scale", nearest(scale, SCALES))
    if rows is not None and rows < 1:
        raise InputError("--rows or --inputs", f"{rows} rows cannot be taken", "take at least 1")
    table = _bundled(name) if name in BUNDLED else _file(name)
    total = len(table)
    if rows is not None:
        if rows > total:
            raise InputError("--data", f"{rows} rows asked for, {name} has {total}", f"ask for at most {total}")
        table = table[np.unique(np.linspace(0, total - 1, rows).round().astype(int))]
    table = _scaled(table, scale, name)
    spread = "" if len(table) == total else ", spread evenly"
    words = f"{name}: {len(table)} of {total} rows{spread}; {table.shape[1]} features; {SCALES[scale]}"
    return Table(table, words)


def labels(name: str) -> Any:
    """Return the classes of a bundled table's rows, shape (rows,).

    Raises:
        InputError: a table without classes.
    """
    from sklearn import datasets

    if name not in BUNDLED or name == "diabetes":
        fix = "use digits, wine or breast-cancer"
        raise InputError("--estimators", f"--data {name} comes without classes", fix)
    return getattr(datasets, BUNDLED[name])().target


def _bundled(name: str) -> Any:
    from sklearn import datasets

    return getattr(datasets, BUNDLED[name])().data.astype(float)


def _file(name: str) -> Any:
    import numpy as np

    path = Path(name)
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv}
    if path.suffix.lower() not in readers:
        fix = f"{nearest(name, BUNDLED)}; or a .npy, .npz or .csv file"
        raise InputError("--data", f"{name!r} is neither a bundled data set nor a file of a known kind", fix)
    if not path.is_file():
        raise InputError("--data", f"there is no file {name!r}", f"give a path that exists from {Path.cwd()}")
    table = np.asarray(readers[path.suffix.lower()](path))
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(
            name, f"an array of shape {table.shape} is not a table", "give an array of shape (rows, features)"
        )
    if not np.issubdtype(table.dtype, np.number) or np.iscomplexobj(table):
        raise InputError(name, f"an array of {table.dtype} does not hold real numbers", "convert it to float64")
    table = table.astype(float)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise InputError(name, f"{table[row, column]} at row {row}, column {column}", "drop or impute that row")
    return table


def _npy(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(
            str(path), f"not an array of numbers ({error})", "save it with numpy.save from a float array"
        ) from None


def _npz(path: Path) -> Any:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except ValueError as error:
        raise InputError(
            str(path), f"not an archive of arrays of numbers ({error})", "save it with numpy.savez"
        ) from None
    if "X" in arrays:
        return arrays["X"]
    tables = [key for key, array in arrays.items() if array.ndim == 2]
    if len(tables) != 1:
        found = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise InputError(
            str(path), f"no array X and {len(tables)} tables (found {found})", "save the table under the name X"
        )
    return arrays[tables[0]]


def _csv(path: Path) -> Any:
    import numpy as np

    text = path.read_text(encoding="utf-8-sig")
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    lines = [line for line in csv.reader(text.splitlines(), delimiter=delimiter) if line]
    if not lines:
        raise InputError(str(path), "the file is empty", "give a table of numbers")
    names = [f"column {index}" for index in range(len(lines[0]))]
    if not any(_number(cell) is not None for cell in lines[0]):
        names, lines = [cell.strip() or name for cell, name in zip(lines[0], names, strict=True)], lines[1:]
    table = np.empty((len(lines), len(names)))
    for index, line in enumerate(lines):
        if len(line) != len(names):
            why = f"row {index} has {len(line)} cells, the first has {len(names)}"
            raise InputError(str(path), why, "give every row the same number of cells")
        for place, cell in enumerate(line):
            table[index, place] = _cell(path, names[place], index, cell)
    return table


def _cell(path: Path, column: str, row: int, cell: str) -> float:
    value = _number(cell)
    if value is not None:
        return value
    if not cell.strip():
        raise InputError(str(path), f"{column!r} has no value at row {row}", "drop or impute that row")
    why = f"{column!r} holds text ({cell.strip()!r} at row {row})"
    raise InputError(str(path), why, "drop that column or encode it as numbers")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _scaled(table: Any, scale: str, name: str) -> Any:
    import numpy as np

    if scale == "none":
        return table
    if scale == "standard":
        spread = table.std(axis=0)
        table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    size = np.sqrt((table**2).mean(axis=1, keepdims=True))
    if not size.all():
        row = int(np.argmin(size))
        raise InputError(name, f"row {row} is zero and cannot be scaled to |x|²/d = 1", "drop it or pass --scale none")
    return table / size
