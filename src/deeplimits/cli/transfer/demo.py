"""`deeplimits transfer demo`: what drifts without a rule, and what does not, on scikit-learn's digits."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def demo(
    *,
    row: Literal["width", "depth", "joint"] = "joint",
    seeds: int | None = None,
    out: Path = Path("out/transfer-demo"),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train residual perceptrons on digits at every learning rate, under several rules, and write a page.

    Exit code 1: under the rule in question the best learning rate drifts.

    Parameters
    ----------
    row
        What grows: width (32 to 256) or depth (4 to 64), a minute of processor time each, or joint
        (32 x 4 to 128 x 32; two to three minutes).
    seeds
        Of initial values and data; by default 3, in width 8, where the optima are flat.
    out
        Folder of the page and its figures.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console, imports
    from deeplimits.cli.transfer import options
    from deeplimits.errors import InputError

    if seeds is not None and seeds < 2:
        raise InputError("--seeds", f"{seeds} seeds", "give two or more: the intervals come from them")
    imports.whole("deeplimits.claims.dey_2025_completep", "deeplimits.report")
    from dataclasses import replace

    from deeplimits import html
    from deeplimits.claims.dey_2025_completep import FULL, transfers
    from deeplimits.transfer.evidence.proof import Proof

    asked = getattr(FULL, row)
    asked = asked if seeds is None else replace(asked, seeds=seeds)
    found = transfers(asked, lambda name: console.say(f"{name} done"))
    first, *others = reversed(found.values())
    made = Proof("Residual perceptrons on digits", None, (), (first, *others))
    page = html(made, out / "transfer.html", command="deeplimits " + shlex.join(sys.argv[1:])).resolve()
    if json:
        console.document({"report": str(page), "transfers": options.plain([first, *others])})
    else:
        print("\n\n".join(map(str, (first, *others))))
        print(f"\nreport: {page}")
    return int(first.verdict == "drifts")
