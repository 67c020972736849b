"""`deeplimits transfer report`: plan, coordinate check and sweep as one page."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from deeplimits.transfer.evidence.proof import Proof


def report(
    target: str,
    /,
    *,
    width: str | None = None,
    depth: str | None = None,
    lr: str = "2^-12..2^-4",
    rule: str = "completep",
    against: str | None = None,
    train: str | None = None,
    optimizer: str = "adamw",
    alpha: float | None = None,
    check_lr: float = 4e-3,
    steps: int = 4,
    seeds: int = 5,
    store: str | None = None,
    out: Path = Path("out/transfer"),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Plan, check and sweep a model, and write one page with the audit, exponents and learning-rate curves.

    Every run finished is stored at once; after an interruption the same command goes on where it stopped. Exit code
    1: an exponent of the rule fails, or its best learning rate drifts.

    Parameters
    ----------
    target
        module:function or file.py:function that builds the model from width and depth; or mlp, resnet, vit, gpt.
    width
        Widths, the base's first; 32,64,128 by default.
    depth
        Depths, the base's first; 4,8,16 by default for rules with a depth part. The sweep takes the two side by side.
    lr
        Learning rates of the base: 2^-12..2^-4 doubles from one to the other; or a list as 0.001,0.003,0.01.
    rule
        Parametrization: sp, ntp, mup, depth_mup, completep and others (deeplimits transfer rules).
    against
        Rules to set beside it, as sp,mup.
    train
        module:function that trains, train(model, groups, seed); by default the one beside TARGET.
    optimizer
        A name of torch.optim.
    alpha
        Another exponent of residual branches, which are scaled by depth^-alpha.
    check_lr
        Learning rate of the base in the coordinate check.
    steps
        Of the coordinate check.
    seeds
        Of initial values and data.
    store
        An SQLite file, or a database URL; OUT/sweep.sqlite by default.
    out
        Folder of the page, its figures and the record.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console, read
    from deeplimits.cli.transfer import check, options, sweep
    from deeplimits.cli.transfer import target as found
    from deeplimits.transfer.evidence.proof import Proof
    from deeplimits.transfer.evidence.sweep import suffices
    from deeplimits.transfer.make import transfer

    model = found.read(target, train, optimizer)
    rules = options.chosen(rule, against, alpha)
    grid = model.grid(width, depth, options.deep(rule, alpha))
    sizes, rates = options.joined(grid), read.rates("--lr", lr)
    kept = store or str(out / "sweep.sqlite")
    settings = {"optimizer": optimizer, "seeds": seeds}
    checked = settings | {"lr": check_lr, "steps": steps}
    check.axes(grid, checked)
    suffices(sizes, rates, seeds)
    try:
        with options.told():
            model.check(sizes)
            plan = transfer(model.build, sizes[0], sizes[-1], rule, optimizer, alpha, inputs=model.inputs)
            checks = check.measured(model, grid, rules, checked)
            console.say(f"checked; training {len(sizes) * len(rates) * seeds * len(rules)} small models")
            transfers = sweep.measured(model, sizes, rates, rules, kept, settings | {"progress": not json})
    except KeyboardInterrupt:
        console.say(f"\ninterrupted; finished runs are kept in {kept}: the same command goes on from there")
        return 130
    _told(Proof(target, plan, tuple(checks), tuple(transfers)), out, json)
    return int(checks[0].verdict == "fail" or transfers[0].verdict == "drifts")


def _told(made: Proof, out: Path, json: bool) -> None:
    import deeplimits as dl
    from deeplimits.cli import console
    from deeplimits.cli.transfer import options

    page = dl.html(made, out / "transfer.html", command="deeplimits " + shlex.join(sys.argv[1:])).resolve()
    if json:
        records = {"checks": options.plain(made.checks), "transfers": options.plain(made.transfers)}
        console.document({"target": made.name, "report": str(page), **records})
    else:
        print("\n\n".join(map(str, (*made.checks, *made.transfers))))
        print(f"\nreport: {page}")
