"""The table of a plan in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deeplimits.transfer import budget
from deeplimits.transfer.anatomy.names import stacks
from deeplimits.transfer.numbers import Row, perturbations
from deeplimits.transfer.rule import Powers, family

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan

INIT = (
    "init multiplies the model's own initial values; the init in why is the rule's: sizes of the target over the base's"
)


def explain(plan: Plan, every: bool) -> str:
    """Return what a plan says: its rule, what is on and off, notes, and a line for every parameter.

    Args:
        plan: of the target.
        every: whether blocks of equal numbers have lines of their own.
    """
    rule = plan.parametrization
    sam = rule.perturbation != Powers()
    counted = [(row, 1) for row in plan.rows] if every else merged(plan.rows)
    head = ("name", "shape", "role", "init", *columns(plan.optimizer), *(["SAM"] if sam else []), "why", "source")
    lines: list[tuple[str, ...]] = [head]
    for row, count in counted:
        extra = [f"{scale:.4g}" for scale in perturbations([row], rule).values()] if sam else []
        lines.append((*cells(row, count, multipliers(row, plan.optimizer)), *extra, row.reason, row.source))
    widths = [max(len(line[n]) for line in lines) for n in range(len(head) - 1)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)) for line in lines]
    decay = f"decay {plan.decay}: {budget.decay(plan.decay).words}"
    return "\n".join([f"{plan.rule}, {plan.optimizer}", decay, plan.budget.words(), *plan.notes, INIT, *table])


def columns(optimizer: str) -> list[str]:
    """Return what an optimizer takes for each parameter: learning rate, decay, and epsilon where its family has one.

    Example:
        >>> columns("adamw"), columns("sgd")
        (['LR', 'decay', 'eps'], ['LR', 'decay'])
    """
    return ["LR", "decay", *(["eps"] if family(optimizer) == "entrywise" else [])]


def multipliers(row: Row, optimizer: str) -> list[float]:
    """Return the numbers of a row that stand in `columns`."""
    every = {"LR": row.lr_mult, "decay": row.decay_mult, "eps": row.eps_mult}
    return [every[name] for name in columns(optimizer)]


def cells(row: Row, count: int, numbers: Iterable[float]) -> list[str]:
    """Return a line of the table: name, shape, role, init, and the numbers of the optimizer.

    Args:
        row: of the plan.
        count: of parameters that share the line.
        numbers: its `multipliers`, or what they multiply as well.
    """
    init = "at apply" if row.init_mult is None else f"{row.init_mult:.4g}"
    name = row.name if count == 1 else f"{row.name} ({count})"
    return [name, "x".join(map(str, row.shape)) or "1", row.role, init, *(f"{value:.4g}" for value in numbers)]


def merged(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Return rows of a plan with blocks of equal numbers as one, named "blocks.*.weight", and how many they are."""
    lists = {prefix: of for prefix, of in stacks(row.name for row in rows).items() if len(of) > 1}
    found: dict[tuple[Any, ...], tuple[Row, int]] = {}
    for row in rows:
        named = replace(row, name=_template(row.name, lists))
        key = tuple(vars(named).values())
        found[key] = named, found.get(key, (named, 0))[1] + 1
    return list(found.values())


def _template(name: str, lists: Any) -> str:
    parts = name.split(".")
    for place in range(1, len(parts)):
        if parts[place].isdigit() and ".".join(name.split(".")[:place]) in lists:
            parts[place] = "*"
    return ".".join(parts)
