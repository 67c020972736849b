"""`deeplimits criticality`: the edge of chaos of an activation, or the phase of a point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def criticality(
    activation: str,
    /,
    *,
    bias_std: float = 0.0,
    weight_std: float | None = None,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Find the edge of chaos of an activation, with its correlation lengths, or the phase of a point.

    Parameters
    ----------
    activation
        tanh, erf, relu, gelu and others.
    bias_std
        Standard deviation of the biases.
    weight_std
        Standard deviation of the weights, times the square root of the number of inputs; by default the edge's own.
    out
        Draw the phase diagram around the point in this .png, .svg or .pdf file.
    json
        Print one JSON document on stdout and nothing else.
    """
    import deeplimits as dl
    from deeplimits.cli import console
    from deeplimits.errors import InputError

    if out is not None and out.suffix not in (".png", ".svg", ".pdf"):
        raise InputError("--out", f"{str(out)!r} is not a figure", "name a file that ends in .png, .svg or .pdf")
    found = dl.criticality(activation, bias_std, weight_std)
    if out is not None:
        _draw(found, out)
    if json:
        console.document({**numbers(found), "out": None if out is None else str(out), "words": found.describe()})
        return
    print(f"{found}\n")
    rows = [[name, "-" if value is None else str(value)] for name, value in _shown(numbers(found)).items()]
    console.table(["quantity", "value"], rows)
    print(f"\nphase diagram in {out}" if out is not None else "\n--out figure.png draws the phase diagram")


def numbers(found: object) -> dict[str, object]:
    """Return the fields of the record as JSON can hold them: infinity as "inf", nothing for what is undefined."""
    from dataclasses import fields
    from math import isinf, isnan

    values: dict[str, object] = {}
    for entry in fields(found):  # type: ignore[arg-type]
        value = getattr(found, entry.name)
        if isinstance(value, float):
            value = None if isnan(value) else "inf" if isinf(value) else value
        values[entry.name] = repr(value) if entry.name == "activation" else value
    return values


def _shown(values: dict[str, object]) -> dict[str, object]:
    kept = {name: value for name, value in values.items() if name not in ("activation", "others")}
    return {name: f"{value:.12g}" if isinstance(value, float) else value for name, value in kept.items()}


def _draw(found: object, path: Path) -> None:
    import deeplimits as dl
    from deeplimits.errors import InputError

    figure = dl.plot(found)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200)
    except OSError as error:
        fix = "name a file in a folder you can write to"
        raise InputError("--out", f"{str(path)!r} cannot be written ({error})", fix) from None
