"""Runs side by side do what each model alone does under the plan's parameter groups."""

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.numerics.seeds import generator
from deeplimits.transfer.anatomy.initial import materialised
from deeplimits.transfer.evidence.side_by_side import Training, side_by_side

LRS, SEEDS, ROWS = [2**-7, 2**-5, 2**-3], [3, 4], 40


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, h):
        return h + self.down(torch.relu(self.up(self.norm(h))))


def build(width, depth):
    return nn.Sequential(nn.Linear(5, width), nn.Sequential(*[Block(width) for _ in range(depth)]), nn.Linear(width, 3))


def loss(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def data():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 5, generator=rng, dtype=torch.float64)
    return x, torch.randint(3, (ROWS,), generator=rng)


def alone(plan, size, lr, seed, training):
    """Train one model with torch's own optimizer; returns its loss on all rows."""
    x, y = data()
    model = materialised(build, size, seed)
    if plan is not None:
        plan.apply(model, initial=True)
    model = model.double()
    adam = training.optimizer == "adam"
    options = {"betas": training.betas} if adam else {"momentum": training.momentum}
    kind = torch.optim.Adam if adam else torch.optim.SGD
    extra = {"eps": training.eps} if adam else {}
    groups = [{"params": list(model.parameters())}] if plan is None else plan.param_groups(model, lr, **extra)
    groups = [{k: v for k, v in group.items() if adam or k != "eps"} for group in groups]
    optimizer = kind(groups, lr=lr, **options, **(extra if plan is None else {}))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, training.schedule)
    draw = generator(seed, "side by side")
    for _ in range(training.steps):
        rows = slice(None) if training.batch is None else draw.choice(ROWS, training.batch, replace=False)
        optimizer.zero_grad()
        loss(model, x[rows], y[rows]).backward()
        optimizer.step()
        schedule.step()
    return loss(model, x, y).item()


@pytest.mark.parametrize(
    "training",
    [
        Training(steps=8, batch=16, warmup=2),
        Training(steps=8, batch=None, optimizer="sgd", momentum=0.9, decays=False),
    ],
    ids=["adam", "sgd"],
)
@pytest.mark.parametrize("rule", ["depth_mup", None])
def test_every_run_is_the_model_alone(rule, training):
    """Float64 rounding over 8 steps, amplified by the training: 1e-9 of the loss."""
    base, size = {"width": 32, "depth": 4}, {"width": 48, "depth": 8}
    plan = None if rule is None else dl.transfer(build, base, size, rule, training.optimizer)
    size = base if rule is None else size
    found = side_by_side(build, size, plan, LRS, SEEDS, loss, data(), training).losses(loss, *data())
    expected = [[alone(plan, size, lr, seed, training) for seed in SEEDS] for lr in LRS]
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.ptp(found) > 0.01


def test_a_run_that_diverges_leaves_the_others_alone():
    training = Training(steps=6, optimizer="sgd")
    size = {"width": 32, "depth": 2}
    both = side_by_side(build, size, None, [2**-5, 1e30], SEEDS, loss, data(), training).losses(loss, *data())
    one = side_by_side(build, size, None, [2**-5], SEEDS, loss, data(), training).losses(loss, *data())
    assert np.isinf(both[1]).all()
    np.testing.assert_allclose(both[0], one[0], rtol=1e-12)


def test_measures_are_means_over_rows():
    x, y = data()
    runs = side_by_side(build, {"width": 32, "depth": 2}, None, LRS, SEEDS, loss, (x, y), Training(steps=1))
    outputs = runs.measure(lambda model, x: model(x).mean(0), x, rows=7)
    assert outputs.shape == (3, 2, 3)
    np.testing.assert_allclose(outputs, runs.measure(lambda model, x: model(x).mean(0), x), rtol=1e-12)


@pytest.mark.parametrize(
    ("lrs", "seeds", "optimizer", "words"),
    [
        ([], [0], "adam", "lrs=\\[\\]"),
        ([0.1, -1.0], [0], "adam", "above zero"),
        ([0.1], [], "adam", "at least one seed"),
        ([0.1], [0], "muon", "optimizer='muon'"),
    ],
)
def test_refused(lrs, seeds, optimizer, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        side_by_side(build, {"width": 32, "depth": 2}, None, lrs, seeds, loss, data(), Training(1, optimizer=optimizer))
