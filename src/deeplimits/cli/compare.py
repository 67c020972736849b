"""`deeplimits compare`: prediction and measurement on the (width, depth) plane, and a report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def compare(
    network: str,
    /,
    *,
    activation: str = "relu",
    against: str | None = None,
    data: str = "digits",
    inputs: int = 16,
    scale: str = "unit",
    widths: str = "16,32,64,128,256",
    depths: str = "8,16,32,64,128",
    networks: int = 200,
    get: str = "nngp,ntk",
    seed: int = 0,
    out: Path = Path("out/compare"),
    store: Path | None = None,
    html: bool = True,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare sampled networks with theory on a grid of widths and depths, and tell whether the two limits commute.

    Every place finished is stored at once; after an interruption the same command goes on where it stopped.

    Parameters
    ----------
    network
        A family (resnet, mlp, stable-resnet), with options as in resnet:weight_std=1.2,scale=depth^-0.5,
        or module:attribute of a description of your own.
    activation
        Activation of the named families: relu, erf, tanh, gelu and others.
    against
        A second family to set beside the first, on the same data and grid.
    data
        digits, wine, breast-cancer, diabetes, or a .npy, .npz or .csv file.
    inputs
        Take this many rows, spread evenly over the data.
    scale
        unit (each row to |x|²/d = 1), standard (columns standardised, then unit) or none.
    widths
        Widths of the grid; three places with the same depth / width are needed for a verdict.
    depths
        Depths of the grid.
    networks
        Random networks at each place.
    get
        Kernels to compare: nngp, ntk or both.
    seed
        Seed of the random networks.
    out
        Folder of the report, its figures and the record.
    store
        Folder of the finished places; OUT/places by default.
    html
        Write the report and its figures.
    json
        Print one JSON document on stdout and nothing else.
    """
    import deeplimits as dl
    from deeplimits.cli import console, imports, read
    from deeplimits.cli.data import load

    nets = [read.network(spec, activation) for spec in (network, against) if spec is not None]
    grid = read.numbers("--widths", widths), read.numbers("--depths", depths)
    kernels = read.names("--get", get, ("nngp", "ntk"))
    table = load(data, inputs, scale)
    places = store or out / "places"
    _folder(out)
    console.say(f"{table.description}\n{len(nets)} x {len(grid[0]) * len(grid[1])} places, {networks} networks each")
    records = []
    try:
        imports.whole("deeplimits.plane.compare", "deeplimits.finite.sample", "deeplimits.limits.kernel.tile.engine")
        for net in nets:
            options: dict[str, Any] = {"networks": networks, "seed": seed, "get": kernels, "store": places}
            records.append(dl.compare(net, table.rows, *grid, **options, progress=not json))
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; finished places are kept in {places}: the same command goes on from there")
        return 130
    written = _write(records, out, table.description, html)
    if json:
        paths = {name: str(path) for name, path in written.items()}
        console.document({"data": table.description, "comparisons": [_plain(record) for record in records], **paths})
        return 0
    for record in records:
        console.comparison(record)
    print("\n".join(f"{name}: {path}" for name, path in written.items()))
    return 0


def _folder(path: Path) -> Path:
    """The folder, made if need be: a name that cannot be one is refused before any work."""
    from deeplimits.errors import InputError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "name a folder you can write to"
        raise InputError("--out", f"{str(path)!r} cannot be written ({error})", fix) from None
    return path


def _write(records: list[Any], out: Path, data: str, html: bool) -> dict[str, Path]:
    """Write the record, and the report where it is wanted; return what lies where."""
    import json

    import deeplimits as dl

    record = out / "record.json"
    record.write_text(json.dumps({"data": data, "comparisons": [_plain(one) for one in records]}, allow_nan=False))
    written = {"record": record.resolve()}
    if html:
        command = "deeplimits " + shlex.join(sys.argv[1:])
        written["report"] = dl.html(records, out / "plane.html", command=command, data=data).resolve()
    return written


def _plain(record: Any) -> Any:
    import json

    return json.loads(record.to_json())
