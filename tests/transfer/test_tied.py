"""Tied readouts of two kinds: with a factor of the width before them, and of tables that do not grow."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import Gpt

WIDE = {"base": {"width": 32}, "target": {"width": 128}, "rule": "mup"}
M = 4.0


@pytest.mark.parametrize("turned", [False, True])
def test_a_factor_between_the_last_norm_and_a_tied_readout(turned):
    """T5 multiplies with width^-1/2 there: of the readout's 1/m the gain takes what is left, m^-1/2."""

    class Divided(Gpt):
        def forward(self, x):
            h = self.words(x) + self.places[:, : x.shape[1]]
            for layer in self.layers:
                h = layer(h)
            h = self.norm(h) * h.shape[-1] ** -0.5
            return torch.einsum("btd,vd->btv", h, self.words.weight) if turned else self.head(h)

    plan = dl.transfer(lambda width: Divided(width, 1, tied=True), **WIDE)
    for name in ("norm.weight", "norm.bias"):
        row = plan[name]
        assert row.width_factor == pytest.approx(M**-0.5)
        assert (row.init_ratio, row.lr_mult) == pytest.approx((M**-0.5, M**-0.5))
    assert plan["words.weight"].lr_mult == plan["words.weight"].init_ratio == 1


def test_a_tied_table_that_does_not_grow_has_no_factor():
    """The readout sums over 16 entries at every width: the plan is that of a readout of its own."""

    class Factorised(nn.Module):
        def __init__(self, width, tied):
            super().__init__()
            self.words, self.rise, self.middle = nn.Embedding(17, 16), nn.Linear(16, width), nn.Linear(width, width)
            self.fall, self.head = nn.Linear(width, 16), nn.Linear(16, 17, bias=False)
            self.head.weight = self.words.weight if tied else self.head.weight

        def forward(self, x):
            return self.head(self.fall(torch.tanh(self.middle(torch.tanh(self.rise(self.words(x)))))))

    own, tied = (dl.transfer(lambda width, tied=tied: Factorised(width, tied), **WIDE) for tied in (False, True))
    numbers = lambda row: (row.init_ratio, row.lr_mult, row.eps_mult, row.decay_mult, row.tied_width)
    assert {row.name: numbers(row) for row in tied.rows} == {
        row.name: numbers(row) for row in own.rows if row.name != "head.weight"
    }
