"""The rule and its limit meet: models that a CompleteP plan carries to larger depths train towards the mean ODE."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.training import MeanResNet, mean_ode

WIDTH, DEPTH, RATE, STEPS = 4, 4, 0.15, 8
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, WIDTH)), np.array([1.0, -1.0, 0.5])


class Block(nn.Module):
    """h + W2 tanh(W1 h) / (4 sqrt(M)), entries of both of variance 1/M: at M = D the mean over units at depth 4."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        for layer in (self.up, self.down):
            nn.init.normal_(layer.weight, std=width**-0.5)

    def forward(self, h):
        return h + self.down(torch.tanh(self.up(h))) / (DEPTH * WIDTH**0.5)


class Model(nn.Module):
    """Blocks between the inputs and a fixed readout."""

    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.register_buffer("out", torch.full((width,), width**-0.5))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x @ self.out


def trained(plan, depth, seed):
    """Outputs over plain SGD at the base's learning rate, RATE times its depth."""
    torch.manual_seed(seed)
    model = Model(WIDTH, depth).double()
    plan.apply(model, initial=True)
    optimizer = torch.optim.SGD(plan.param_groups(model, lr=RATE * DEPTH))
    x, y, outputs = torch.from_numpy(X), torch.from_numpy(Y), []
    for _ in range(STEPS + 1):
        f = model(x)
        outputs.append(f.detach().numpy())
        optimizer.zero_grad()
        (((f - y) ** 2).sum() / 2).backward()
        optimizer.step()
    return outputs


def test_plans_tend_to_the_mean_ode():
    """The distance halves from depth 8 to 32: 1/sqrt(L), of 6 models each, 4 standard errors are 50 %."""
    out = np.full((WIDTH, 1), WIDTH**-0.5)
    limit = mean_ode(MeanResNet("tanh"), X, Y, steps=STEPS, rate=RATE, units=2048, unembedding=out).outputs
    apart = []
    for depth in (8, 32):
        sizes = {"base": {"width": WIDTH, "depth": DEPTH}, "target": {"width": WIDTH, "depth": depth}}
        plan = dl.transfer(Model, **sizes, rule="completep", optimizer="sgd")
        models = np.array([trained(plan, depth, seed) for seed in range(6)])
        apart.append(np.sqrt(np.mean((models - limit) ** 2)))
    assert apart[0] / apart[1] == pytest.approx(2, rel=0.5)
    assert apart[1] * (32 * WIDTH) ** 0.5 < 1
