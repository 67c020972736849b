"""`deeplimits kernel`: the kernels of a network of infinite width, at any depth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

JSON_ROWS = 512


def kernel(
    network: str,
    /,
    *,
    activation: str = "relu",
    depth: str = "64",
    data: str = "digits",
    get: str = "nngp,ntk",
    rows: int | None = None,
    scale: str = "unit",
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Compute NNGP and NTK of a network of infinite width on a data set.

    Parameters
    ----------
    network
        A family (resnet, mlp, stable-resnet), with options as in resnet:weight_std=1.2,scale=depth^-0.5,
        or module:attribute of a description of your own.
    activation
        Activation of the family: relu, erf, tanh, gelu and others.
    depth
        Depth of the network, a whole number or inf.
    data
        digits, wine, breast-cancer, diabetes, or a .npy, .npz or .csv file.
    get
        Kernels to compute: nngp, ntk or both.
    rows
        Take this many rows, spread evenly over the data; all by default.
    scale
        unit (each row to |x|²/d = 1), standard (columns standardised, then unit) or none.
    out
        Write the matrices to this .npz file.
    json
        Print one JSON document on stdout and nothing else.
    """
    import numpy as np

    import deeplimits as dl
    from deeplimits.cli import console, read
    from deeplimits.cli.data import load
    from deeplimits.errors import InputError

    net = read.network(network, activation)
    depths = read.numbers("--depth", depth, infinite=True)
    if len(depths) != 1:
        raise InputError("--depth", f"{len(depths)} depths", "give one")
    kernels = read.names("--get", get, ("nngp", "ntk"))
    if out is not None and out.suffix != ".npz":
        raise InputError("--out", f"{str(out)!r} is not a .npz file", "name a file that ends in .npz")
    table = load(data, rows, scale)
    if json and out is None and len(table.rows) > JSON_ROWS:
        why = f"{len(table.rows)} rows make a document too large to read"
        raise InputError("--json", why, f"pass --out file.npz or --rows {JSON_ROWS}")
    found = dl.kernel(net, table.rows, depth=depths[0], get=kernels)
    matrices = {name: np.asarray(getattr(found, name)) for name in kernels}
    words = found.describe()
    if out is not None:
        _save(out, matrices)
    if json:
        content = {"network": repr(net), "depth": str(depths[0]), "data": table.description, "limit": words}
        values = {"out": str(out)} if out is not None else {name: m.tolist() for name, m in matrices.items()}
        console.document({**content, **values, "summary": {name: summary(m) for name, m in matrices.items()}})
        return
    print(f"{net!r}\ndepth {depth}: {words}\n{table.description}\n")
    lines = [[name.upper(), *(f"{value:.6g}" for value in summary(m).values())] for name, m in matrices.items()]
    console.table(["kernel", "smallest diagonal", "largest diagonal", "mean off the diagonal"], lines)
    print(f"\nwritten to {out}" if out is not None else "\n--out file.npz writes the matrices")


def _save(path: Path, matrices: dict[str, Any]) -> None:
    import numpy as np

    from deeplimits.errors import InputError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **matrices)
    except OSError as error:
        fix = "name a file in a folder you can write to"
        raise InputError("--out", f"{str(path)!r} cannot be written ({error})", fix) from None


def summary(matrix: Any) -> dict[str, float]:
    """Range of the diagonal and mean of the other entries."""
    diagonal = matrix.diagonal()
    count = len(matrix)
    others = (matrix.sum() - diagonal.sum()) / max(count * (count - 1), 1)
    return {"smallest": float(diagonal.min()), "largest": float(diagonal.max()), "others": float(others)}
