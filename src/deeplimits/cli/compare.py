"""`deeplimits compare`: prediction and measurement on the (width, depth) plane, and a report."""

from __future__ import annotations

import shlex
import sys
from math import inf
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

DEPTHS = "8,16,32,64,128"


def compare(
    network: str,
    /,
    *,
    activation: str = "relu",
    against: str | None = None,
    data: str = "digits",
    inputs: int | None = None,
    scale: str = "unit",
    widths: str = "16,32,64,128,256",
    depths: str | None = None,
    ratio: float | None = None,
    networks: int | None = None,
    get: str = "nngp,ntk",
    seed: int = 0,
    out: Path = Path("out/compare"),
    store: Path | None = None,
    estimators: Annotated[bool, Parameter(negative="")] = False,
    html: bool = True,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare sampled networks with theory on a grid of widths and depths, and tell whether the two limits commute.

    With --ratio, or inf among the depths, the limit is random: laws over networks are compared with the predicted one.

    Every place finished is stored at once; after an interruption the same command goes on where it stopped.

    Parameters
    ----------
    network
        A family (resnet, mlp, stable-resnet, shaped-mlp), with options as in resnet:weight_std=1.2,scale=depth^-0.5,
        or module:attribute of a description of your own.
    activation
        Activation of the named families: relu, erf, tanh, gelu and others.
    against
        A second family to set beside the first, on the same data and grid.
    data
        digits, wine, breast-cancer, diabetes, or a .npy, .npz or .csv file.
    inputs
        Take this many rows, spread evenly over the data: 16, or 2 where laws are compared.
    scale
        unit (each row to |x|²/d = 1), standard (columns standardised, then unit) or none.
    widths
        Widths of the grid; three places with the same depth / width are needed for a verdict.
    depths
        Depths of the grid, 8,16,32,64,128 by default; 16,64,inf sets networks of fixed width beside infinite depth.
    ratio
        Depth over width, in place of depths: networks beside the limit in which both grow together.
    networks
        Random networks at each place: 200, or 2000 where laws are compared.
    get
        Kernels to compare: nngp, ntk or both.
    seed
        Seed of the random networks.
    out
        Folder of the report, its figures and the record.
    store
        Folder of the finished places; OUT/places by default.
    estimators
        Add a table of classifiers on the data: NNGP and NTK of the families beside RBF kernels.
    html
        Write the report and its figures.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console, read
    from deeplimits.cli.data import labels, load

    nets = [read.network(spec, activation) for spec in (network, against) if spec is not None]
    grid, laws = _grid(widths, depths, ratio, estimators)
    kernels = read.names("--get", get, ("nngp", "ntk"))
    table = load(data, (2 if laws else 16) if inputs is None else inputs, scale)
    classes = labels(data) if estimators else None
    places = store or out / "places"
    _folder(out)
    networks = (2000 if laws else 200) if networks is None else networks
    console.say(f"{table.description}\n{len(nets)} x {_count(grid)} places, {networks} networks each")
    try:
        options: dict[str, Any] = {"networks": networks, "seed": seed, "store": places}
        options |= {"ratio": ratio} if laws else {"get": kernels}
        records = _compared(nets, table.rows, grid, options | {"progress": not json})
        entered = None if classes is None else _contest(records, nets, load(data, None, scale), classes, seed)
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; finished places are kept in {places}: the same command goes on from there")
        return 130
    written = _write(records, out, table.description, html, entered)
    _show(records, written, table.description, entered, json)
    return 0


def _show(records: list[Any], written: dict[str, Path], data: str, entered: Any, json: bool) -> None:
    """Print what was found: one JSON document, or every verdict and where the files lie."""
    from deeplimits.cli import console

    if json:
        paths = {name: str(path) for name, path in written.items()}
        console.document(_document(records, data, entered) | paths)
        return
    for record in records:
        console.comparison(record)
    if entered is not None:
        console.contest(entered)
    print("\n".join(f"{name}: {path}" for name, path in written.items()))


def _folder(path: Path) -> Path:
    """The folder, made if need be: a name that cannot be one is refused before any work."""
    from deeplimits.errors import InputError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "name a folder you can write to"
        raise InputError("--out", f"{str(path)!r} cannot be written ({error})", fix) from None
    return path


def _grid(
    widths: str, depths: str | None, ratio: float | None, estimators: bool
) -> tuple[tuple[list[int], list[Any] | None], bool]:  # fmt: skip
    """The widths, the depths (none beside a ratio), and whether laws are compared."""
    from deeplimits.cli import read
    from deeplimits.errors import InputError

    if ratio is not None and depths is not None:
        raise InputError("--ratio", "--depths and --ratio both say how deep the networks are", "give one of them")
    wide = read.numbers("--widths", widths)
    deep = None if ratio is not None else read.numbers("--depths", depths or DEPTHS, infinite=True)
    laws = deep is None or inf in deep
    if laws and estimators:
        raise InputError(
            "--estimators", "kernels of infinite width are no part of a comparison of laws", "leave it out"
        )
    return (wide, deep), laws


def _count(grid: tuple[list[int], list[Any] | None]) -> int:
    return len(grid[0]) * (1 if grid[1] is None else sum(depth < inf for depth in grid[1]))


def _compared(nets: list[Any], rows: Any, grid: tuple[list[int], Any], options: dict[str, Any]) -> list[Any]:
    """One comparison for each family."""
    import deeplimits as dl
    from deeplimits.cli import imports

    imports.whole("deeplimits.plane.compare", "deeplimits.finite.sample", "deeplimits.limits.kernel.tile.engine")
    return [dl.compare(net, rows, *grid, **options) for net in nets]


def _contest(records: list[Any], nets: list[Any], table: Any, classes: Any, seed: int) -> Any:
    """The table of estimators on every row of the data."""
    from deeplimits.cli import console
    from deeplimits.inference.contest import contest
    from deeplimits.report.words import family_name

    named = [(family_name(record), net) for record, net in zip(records, nets, strict=True)]
    return contest(named, table.rows, classes, table.description, seed, progress=console.say)


def _document(records: list[Any], data: str, entered: Any) -> dict[str, Any]:
    """The record of a run, as plain numbers and words."""
    found = {"data": data, "comparisons": [_plain(record) for record in records]}
    return found if entered is None else found | {"estimators": _plain(entered)}


def _write(records: list[Any], out: Path, data: str, html: bool, entered: Any) -> dict[str, Path]:
    """Write the record, and the report where it is wanted; return what lies where."""
    import json

    import deeplimits as dl

    record = out / "record.json"
    record.write_text(json.dumps(_document(records, data, entered), allow_nan=False))
    written = {"record": record.resolve()}
    if html:
        command = "deeplimits " + shlex.join(sys.argv[1:])
        page = dl.html(records, out / "plane.html", command=command, data=data, estimators=entered)
        written["report"] = page.resolve()
    return written


def _plain(record: Any) -> Any:
    import json

    return json.loads(record.to_json())
