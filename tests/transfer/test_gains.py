"""Factors that a gain or a query carries train exactly as the same factors in the forward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.attention_models import build
from tests.transfer.models import Mlp
from tests.transfer.test_folding import OPTIMIZERS, losses

RATES = {"adamw": (2e-3, 0.1), "sgd": (0.05, 1e-3), "lion": (3e-4, 0.1)}
DEEP = {"base": {"width": 32, "depth": 2}, "target": {"width": 32, "depth": 8}}


class ShiftedNorm(nn.Module):
    """(1 + w) x / rms(x), w from 0, as in Gemma; `plain`: w x / rms(x), w from 1, as in OLMo 2."""

    def __init__(self, width, plain):
        super().__init__()
        self.weight, self.plain = nn.Parameter((torch.ones if plain else torch.zeros)(width)), plain

    def forward(self, x):
        return (self.weight if self.plain else 1 + self.weight) * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


class Sandwich(nn.Module):
    """h + scale * norm(W2 relu(W1 norm(h)))."""

    def __init__(self, width, scale, plain):
        super().__init__()
        self.before, self.after = ShiftedNorm(width, plain), ShiftedNorm(width, plain)
        self.up, self.down, self.scale = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), scale

    def forward(self, h):
        return h + self.scale * self.after(self.down(torch.relu(self.up(self.before(h)))))


def sandwiches(plain, scale=1.0):
    return lambda width, depth: Mlp(width, depth, scale, block=lambda width, scale: Sandwich(width, scale, plain))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_norms_that_end_branches(name, plain):
    """The branch's 1/4 is in the gain: w from 1 to 1/4, or from 0 to -3/4; matrices before it are left alone."""
    plan = dl.transfer(sandwiches(plain), **DEEP, optimizer=name)
    assert {row.name for row in plan.rows if row.branch_output} == {f"blocks.{n}.after.weight" for n in range(8)}
    row = plan["blocks.7.after.weight"]
    assert (row.init_mult, row.init_shift) == (1 / 4, 0 if plain else -3 / 4)
    assert (row.decay_mult == 0) == (not plain)
    torch.manual_seed(0)
    folded, explicit = sandwiches(plain)(32, 8).double(), sandwiches(plain, 1 / 4)(32, 8).double()
    explicit.load_state_dict(folded.state_dict())
    plan.apply(folded, initial=True)
    assert folded.blocks[7].after.weight.detach().unique().tolist() == [1 / 4 if plain else -3 / 4]
    rate, decay = RATES[name]
    groups = []
    for key, p in explicit.named_parameters():
        block = key.startswith("blocks.")
        group = {"params": [p], "lr": rate * (4 if block and name == "sgd" else 1)}
        group["weight_decay"] = 0.0 if p.dim() < 2 else decay
        groups.append(group | ({"eps": 1e-8 * (1 / 4 if block else 1)} if name == "adamw" else {}))
    one = losses(folded, OPTIMIZERS[name](plan.param_groups(folded, lr=rate, weight_decay=decay)))
    other = losses(explicit, OPTIMIZERS[name](groups))
    assert one[-1] < 0.9 * one[0]
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def words(model):
    """A classifier of words for `losses`: the first entries of its inputs pick them."""
    return lambda x: model((x[:, :6].abs() * 5).long() % 17)[:, -1, :3]


@pytest.mark.parametrize("settings", [{}, {"norms": True}])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_queries_that_carry_the_factor_of_logits(name, settings):
    """Heads of 8 to 32: sqrt(8 / 32) = 1/2 in the queries or their norms, or in the forward pass."""
    make = lambda width: build(heads=4, **settings)(width, depth=1)
    plan = dl.transfer(make, base={"width": 32}, target={"width": 128}, rule="mup", optimizer=name)
    factor, c = {row.name: row.logits_factor for row in plan.rows}, 2 if name == "sgd" else 1
    assert set(factor.values()) == {1 / 2, 1}
    left = replace(
        plan,
        rows=tuple(
            replace(
                row,
                init_mult=row.init_mult / factor[row.name],
                init_ratio=row.init_ratio / factor[row.name],
                lr_mult=row.lr_mult / factor[row.name] ** c,
                eps_mult=row.eps_mult * (factor[row.name] if name == "adamw" else 1),
                decay_mult=row.decay_mult * factor[row.name] ** c,
            )
            for row in plan.rows
        ),
    )
    torch.manual_seed(0)
    folded, explicit = make(128).double(), make(128).double()
    explicit.load_state_dict(folded.state_dict())
    for layer in explicit.layers:
        layer.attention.scale /= 2
    found = []
    for chosen, model in ((plan, folded), (left, explicit)):
        chosen.apply(model, initial=True)
        rate, decay = RATES[name]
        found.append(losses(words(model), OPTIMIZERS[name](chosen.param_groups(model, lr=rate, weight_decay=decay))))
    assert found[0][-1] < 0.9 * found[0][0]
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)
