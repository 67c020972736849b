"""Parameter groups before and after a framework has had them in hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deeplimits.errors import InputError
from deeplimits.transfer.plan import Plan

Numbers = dict[str, tuple[float, float, float]]
"""{name: (learning rate, weight decay, epsilon)}."""


def numbers(groups: Iterable[Mapping[str, Any]]) -> Numbers:
    """Return {name: (learning rate, weight decay, epsilon)} of groups that carry names; epsilon 0 where there is none.

    Example:
        >>> numbers([{"lr": 0.5, "weight_decay": 0.1, "param_names": ["a", "b"]}])["b"]
        (0.5, 0.1, 0.0)
    """
    return {
        name: (float(group["lr"]), float(group.get("weight_decay", 0.0)), float(group.get("eps", 0.0)))
        for group in groups
        for name in group.get("param_names", ())
    }


def check(plan: Plan, optimizer: Any, given: Numbers | None = None, where: str = "integrations") -> None:
    """Check that groups name every parameter, stand in the planned ratios, and kept the decays and epsilons they had.

    Args:
        plan: of the target.
        optimizer: what a framework made of one with the plan's groups.
        given: the numbers that its groups started with; learning rates may follow a schedule since.
        where: the framework's file here.

    Raises:
        InputError: names are gone, or ratios, decays or epsilons have changed.
    """
    found = numbers(optimizer.param_groups)
    lost = sorted({row.name for row in plan.rows} - set(found))
    if lost:
        why = f"parameter groups were built anew: {lost[0]} and {len(lost) - 1} others are in none by name"
        fix = "make the optimizer from plan.param_groups(model, lr=...), and let the framework make none of its own"
        raise InputError(where, why, fix)
    plan.guard(optimizer)
    for name, (_, *before) in (given or {}).items():
        for word, was, now in zip(("weight decay", "epsilon"), before, found[name][1:], strict=True):
            if was != now:
                why = f"the {word} of {name} was {was:.4g} and is {now:.4g} now"
                raise InputError(where, why, "leave decays and epsilons to the plan's groups")
