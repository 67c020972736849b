"""Learning rates of groups under schedulers: which keep the planned ratios, and what is said of the others."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from tests.transfer.models import Mlp

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 128, "depth": 16}


@pytest.fixture(scope="module")
def plan():
    return dl.transfer(Mlp, base=BASE, target=TARGET)


def fresh():
    torch.manual_seed(0)
    return Mlp(**TARGET)


def test_schedulers_that_erase_ratios_are_caught(plan):
    model = fresh()
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=2e-3))
    plan.guard(optimizer)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    plan.guard(optimizer)
    one = torch.optim.AdamW(plan.param_groups(model, lr=2e-3))
    torch.optim.lr_scheduler.OneCycleLR(one, max_lr=2e-3, total_steps=10)
    with pytest.raises(dl.DeepLimitsError, match=r"plan\.scale"):
        plan.guard(one)
    listed = torch.optim.AdamW(plan.param_groups(model, lr=2e-3))
    torch.optim.lr_scheduler.OneCycleLR(listed, max_lr=plan.scale(2e-3, listed), total_steps=10)
    plan.guard(listed)


def lowest(optimizer, schedule, plan, steps=10):
    for _ in range(steps):
        optimizer.step()
        schedule.step(*([1.0] if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau) else []))
        plan.guard(optimizer)
    return max(group["lr"] for group in optimizer.param_groups)


def test_what_the_guard_advises_for_floors_works(plan):
    """torch's eta_min takes no list: a floor is a share of the peak, or a list of min_lr."""
    made = lambda: torch.optim.AdamW(plan.param_groups(fresh(), lr=2e-3))
    peak = max(group["lr"] for group in made().param_groups)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer := made(), 10, eta_min=2e-4)
    with pytest.raises(dl.DeepLimitsError, match=r"LambdaLR.*a floor \(eta_min\) included"):
        lowest(optimizer, cosine, plan)
    share = torch.optim.lr_scheduler.LambdaLR(optimizer := made(), lambda step: 0.1 + 0.9 * (1 - step / 10))
    assert lowest(optimizer, share, plan) == pytest.approx(0.1 * peak)
    floors = plan.scale(2e-4, optimizer := made())
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=floors)
    assert lowest(optimizer, plateau, plan) == pytest.approx(max(floors))


def test_groups_of_another_optimizers_plan_are_caught(plan):
    other = torch.optim.SGD(plan.param_groups(fresh(), lr=2e-3))
    with pytest.raises(
        dl.DeepLimitsError, match=r"for adamw, and the optimizer is sgd. Fix: plan with optimizer='sgd'"
    ):
        plan.guard(other)
    plan.guard(torch.optim.Adam(plan.param_groups(fresh(), lr=2e-3)))
