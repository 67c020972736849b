"""Ratios of learning rates between groups: the lists that schedulers need, and whether the ratios still stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from deeplimits.errors import InputError

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan

FIX = (
    "schedule with factors of the peak (LambdaLR with one function of the step), a floor (eta_min) included; "
    "max_lr and min_lr may be plan.scale(value, optimizer), a list"
)
"""How a schedule keeps the ratios."""


def scale(plan: Plan, value: float, optimizer: torch.optim.Optimizer) -> list[float]:
    """Return the value for each group of an optimizer.

    Args:
        plan: of the target.
        value: for the base.
        optimizer: made from the plan's groups, one of a hybrid included.

    Raises:
        InputError: groups without names.
    """
    if any("param_names" not in group for group in optimizer.param_groups):
        why = "the optimizer's groups carry no parameter names"
        raise InputError("plan", why, "make the optimizer from plan.param_groups(model, lr=...)")
    own = plan.of(optimizer)
    return [value * own[group["param_names"][0]].lr_mult for group in optimizer.param_groups]


def guard(plan: Plan, optimizer: torch.optim.Optimizer, tolerance: float) -> None:
    """Check that the groups' learning rates stand in the planned ratios.

    Args:
        plan: of the target.
        optimizer: made from the plan's groups.
        tolerance: of the ratios, relative.

    Raises:
        InputError: something erased them; names the group.
    """
    odd = _odd(optimizer, scale(plan, 1.0, optimizer), tolerance)
    if odd is None:
        return
    used, first = plan.of(optimizer), [group["param_names"][0] for group in optimizer.param_groups]
    if used is not plan and _odd(optimizer, [plan[name].lr_mult for name in first], tolerance) is None:
        why = f"the groups have the plan's learning rates for {plan.optimizer}, and the optimizer is {used.optimizer}"
        raise InputError(
            "plan.guard", why, f"plan with optimizer={used.optimizer!r}: its learning rates scale otherwise"
        )
    place, rate, expected = odd
    why = f"the learning rate of {first[place]} is {rate:.4g}, the plan says {expected:.4g}"
    raise InputError("plan.guard", why, FIX)


def _odd(optimizer: torch.optim.Optimizer, planned: list[float], tolerance: float) -> tuple[int, float, float] | None:
    """Return (place, learning rate, expected) of the first group out of the planned ratios; None where they stand."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    top = max(range(len(rates)), key=lambda n: rates[n])
    for place, (rate, ratio) in enumerate(zip(rates, planned, strict=True)):
        expected = rates[top] * ratio / planned[top]
        if abs(rate - expected) > tolerance * abs(expected):
            return place, rate, expected
    return None
