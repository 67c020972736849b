"""`deeplimits transfer plan`: what every parameter of the large model gets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def plan(
    target: str,
    /,
    *,
    width: str | None = None,
    depth: str | None = None,
    rule: str = "completep",
    optimizer: str = "adamw",
    alpha: float | None = None,
    lr: float | None = None,
    weight_decay: float = 0.0,
    every: Annotated[bool, Parameter(negative="")] = False,
    save: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Plan how to train a large model with the settings tuned on a small one.

    Parameters
    ----------
    target
        module:function or file.py:function that builds the model from width and depth; or mlp, resnet, vit, gpt.
    width
        Of the base, and of the target: 256,4096. Numbers between are passed over.
    depth
        Of the base, and of the target: 6,48; one number is kept.
    rule
        Parametrization: sp, ntp, mup, depth_mup, completep and others (deeplimits transfer rules).
    optimizer
        Name or family: adamw, adam, sgd, lion, muon and others.
    alpha
        Another exponent of residual branches, which are scaled by depth^-alpha.
    lr
        The base's learning rate: print those of the target instead of multipliers.
    weight_decay
        The base's weight decay, printed likewise.
    every
        Print every parameter; by default blocks of equal numbers share a line.
    save
        Write the plan to this file, which Plan.load reads.
    json
        Print one JSON document on stdout and nothing else.
    """
    from deeplimits.cli import console
    from deeplimits.cli.transfer import options
    from deeplimits.cli.transfer import target as found
    from deeplimits.transfer.evidence.audit import audit
    from deeplimits.transfer.make import transfer
    from deeplimits.transfer.plan_table import INIT, columns, merged
    from deeplimits.transfer.steps.optimizer import usable

    usable("transfer plan", 1.0 if lr is None else lr, weight_decay)
    model = found.read(target)
    grid = model.grid(width, depth, options.deep(rule, alpha))
    base, large = ({name: values[place] for name, values in grid.items()} for place in (0, -1))
    model.check([base, large])
    with options.told():
        made = transfer(model.build, base, large, rule, optimizer, alpha, inputs=model.inputs)
    if save is not None:
        _save(made, save)
    if json:
        from deeplimits.transfer.evidence.proof import plain

        console.document(plain(made))
        return
    print(f"{audit(made)}\n{INIT}\n")
    rows = [(row, 1) for row in made.rows] if every else merged(made.rows)
    header = ("parameter", "shape", "role", "init", *columns(optimizer), "why")
    console.table(header, [_cells(row, count, optimizer, lr, weight_decay) for row, count in rows])
    print(f"\nsource: {', '.join(sorted({row.source for row in made.rows}))}")
    print(f"written to {save}" if save is not None else "--save plan.json writes the plan")


def _cells(row: Any, count: int, optimizer: str, lr: float | None, weight_decay: float) -> list[str]:
    from deeplimits.transfer.plan import EPSILON
    from deeplimits.transfer.plan_table import cells, multipliers

    base = (1.0, 1.0, 1.0) if lr is None else (lr, weight_decay * (len(row.shape) > 1), EPSILON)
    numbers = [mult * value for mult, value in zip(multipliers(row, optimizer), base, strict=False)]
    return [*cells(row, count, numbers), row.reason]


def _save(made: Any, path: Path) -> None:
    from deeplimits.errors import InputError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    except OSError as error:
        fix = "name a file in a folder you can write to"
        raise InputError("--save", f"{str(path)!r} cannot be written ({error})", fix) from None
