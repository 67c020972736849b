"""The table of a plan in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deeplimits.transfer import budget
from deeplimits.transfer.numbers import Row
from deeplimits.transfer.rule import Powers

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan


def explain(plan: Plan) -> str:
    """Return what a plan says: its rule, what is on and off, notes, and a line for every parameter.

    Args:
        plan: of the target.
    """
    rule = plan.parametrization
    sam = {} if rule.perturbation == Powers() else plan.perturbations()
    head = ("name", "shape", "role", "init", "LR", "decay", "eps", *(["SAM"] if sam else []), "why", "source")
    extra = {name: [f"{scale:.4g}"] for name, scale in sam.items()}
    lines = [head, *((*_cells(row), *extra.get(row.name, []), row.reason, row.source) for row in plan.rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head) - 1)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)) for line in lines]
    decay = f"decay {plan.decay}: {budget.decay(plan.decay).words}"
    return "\n".join([f"{plan.rule}, {plan.optimizer}", decay, plan.budget.words(), *plan.notes, *table])


def _cells(row: Row) -> Iterable[str]:
    init = "at apply" if row.init_mult is None else f"{row.init_mult:.4g}"
    shape = "x".join(map(str, row.shape)) or "1"
    return (row.name, shape, row.role, init, *(f"{value:.4g}" for value in (row.lr_mult, row.decay_mult, row.eps_mult)))
