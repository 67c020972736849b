"""Clipping by a norm weighted by roles: torch's at the base, the same at every width and depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.steps.clip import weight
from tests.transfer.models import Mlp

BASE = {"width": 32, "depth": 4}
WIDER = dl.transfer(Mlp, base=BASE, target={"width": 64, "depth": 4})


def gradients(plan, place, seed, steps=0):
    """A planned model with the gradients of a batch, after a few steps."""
    torch.manual_seed(seed)
    model = Mlp(**place)
    if plan is not None:
        plan.apply(model, initial=True)
    x, y = torch.randn(64, 12), torch.randint(3, (64,))
    groups = model.parameters() if plan is None else plan.param_groups(model, lr=1e-3)
    optimizer = torch.optim.Adam(groups, lr=1e-3)
    for _ in range(steps + 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        if _ < steps:
            optimizer.step()
    return model


def unchanged(plan):
    """The plan with target and base of one size: every ratio 1."""
    ones = {"fan_in_ratio": 1.0, "fan_out_ratio": 1.0, "depth_ratio": 1.0, "branch_output": False}
    return replace(plan, rows=tuple(replace(row, **ones) for row in plan.rows))


@pytest.mark.parametrize("limit", [0.1, 100.0])
def test_torchs_at_the_base(limit):
    plan = unchanged(WIDER)
    ours, theirs = gradients(None, {"width": 64, "depth": 4}, 0), gradients(None, {"width": 64, "depth": 4}, 0)
    norm = plan.clip_grad_norm(ours, limit)
    assert float(norm) == pytest.approx(float(nn.utils.clip_grad_norm_(theirs.parameters(), limit)), rel=1e-6)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=0)


SIZES = {
    "width": [{"width": n, "depth": 4} for n in (32, 64, 128, 256)],
    "depth": [{"width": 32, "depth": n} for n in (4, 8, 16, 32)],
}


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("axis", SIZES)
def test_the_clipped_fraction_stays(axis, steps):
    """|exponent| of the weighted norm at most 0.2, at the start and after steps."""
    norms, sizes = [], [place[axis] for place in SIZES[axis]]
    for place in SIZES[axis]:
        plan = unchanged(WIDER) if place == BASE else dl.transfer(Mlp, base=BASE, target=place)
        found = [
            plan.clip_grad_norm(gradients(None if place == BASE else plan, place, s, steps), 1e9) for s in range(3)
        ]
        norms.append(np.log(found).mean())
    assert abs(np.polyfit(np.log(sizes), norms, 1)[0]) <= 0.2


def test_the_plain_norm_grows_as_the_weights_say():
    """Every parameter's share of torch's norm grows by 1 / s^2, up to 8^0.15 (the margin of gradient exponents)."""
    plan = dl.transfer(Mlp, base=BASE, target={"width": 256, "depth": 4})
    base, wide = ([gradients(p, place, seed) for seed in range(3)] for p, place in ((None, BASE), (plan, plan.target)))
    plain = np.mean([float(nn.utils.get_total_norm([p.grad for p in model.parameters()])) for model in wide])
    square = 0.0
    for row in plan.rows:
        shares = [float(dict(model.named_parameters())[row.name].grad.square().sum()) for model in base]
        square += np.mean(shares) / weight(row, plan.parametrization) ** 2
    assert abs(np.log(square**0.5 / plain)) <= 0.15 * np.log(8)
    assert weight(plan["head.weight"], plan.parametrization) == pytest.approx(8**-0.5)
    assert weight(plan["read_in.weight"], plan.parametrization) == pytest.approx(8**0.5)


def test_clipped_to_the_norm():
    plan = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 8})
    model = gradients(plan, {"width": 128, "depth": 8}, 0)
    before = float(plan.clip_grad_norm(model, 0.01))
    optimizer = torch.optim.SGD(plan.param_groups(model, lr=1.0))
    assert before > 0.01
    assert float(plan.clip_grad_norm(optimizer, 1.0)) == pytest.approx(0.01, rel=1e-3)


def test_refused():
    plan = WIDER
    model = gradients(plan, {"width": 64, "depth": 4}, 0)
    for limit in (0, -1.0, float("nan"), "a"):
        with pytest.raises(dl.DeepLimitsError, match="max_norm="):
            plan.clip_grad_norm(model, limit)
    with pytest.raises(dl.DeepLimitsError, match="no parameter names"):
        plan.clip_grad_norm(torch.optim.SGD(model.parameters(), lr=1.0), 1.0)
    with pytest.raises(dl.DeepLimitsError, match="says nothing of the size of gradients"):
        dl.transfer(Mlp, base=BASE, target={"width": 64, "depth": 4}, rule="ntp").clip_grad_norm(model, 1.0)
    model.head.weight.grad[0, 0] = float("inf")
    with pytest.raises(dl.DeepLimitsError, match="norm of the gradients is inf"):
        plan.clip_grad_norm(model, 1.0, error_if_nonfinite=True)
