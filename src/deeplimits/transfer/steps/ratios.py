"""Ratios of learning rates between groups: the lists that schedulers need, and whether the ratios still stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from deeplimits.errors import InputError

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan


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
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    planned = scale(plan, 1.0, optimizer)
    top = max(range(len(rates)), key=lambda n: rates[n])
    for group, rate, ratio in zip(optimizer.param_groups, rates, planned, strict=True):
        expected = rates[top] * ratio / planned[top]
        if abs(rate - expected) > tolerance * abs(expected):
            why = f"the learning rate of {group['param_names'][0]} is {rate:.4g}, the plan says {expected:.4g}"
            fix = "give the scheduler plan.scale(value, optimizer) in place of one number (max_lr, eta_min, min_lr)"
            raise InputError("plan.guard", why, fix)
