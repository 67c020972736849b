"""What is read off a forward pass, where names and shapes alone would mislead."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import Block, Mlp

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 128, "depth": 16}


def test_a_tied_readout_after_a_linear_layer_with_a_bias():
    """The bias of the last branch stands after all matrices, and is not what carries the readout's factor."""

    class Tied(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.words, self.norm = nn.Embedding(11, width), nn.LayerNorm(width)
            self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
            self.head = nn.Linear(width, 11, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x):
            h = self.words(x)
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    found = dl.transfer(Tied, base=BASE, target=TARGET)
    assert {row.name for row in found.rows if row.tied_width != 1} == {"norm.weight", "norm.bias"}
    assert found["blocks.3.down.bias"].branch_output


def test_biases_keep_their_own_power():
    """A weight divided by sqrt(2 depth) by hand leaves the bias as it was; the plan applies to a fresh model."""

    def build(width, depth):
        model = Mlp(width, depth)
        with torch.no_grad():
            for block in model.blocks:
                block.down.weight.mul_((2 * depth) ** -0.5)
        return model

    found = dl.transfer(build, base=BASE, target=TARGET, rule="depth_mup")
    assert found["blocks.2.down.weight"].init_mult == pytest.approx(1)
    assert found["blocks.2.down.bias"].init_mult == pytest.approx(1)
    torch.manual_seed(0)
    found.apply(build(**TARGET), initial=True)


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell, self.out = nn.LSTM(12, width, batch_first=True), nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.cell(x[:, None])[0])


class Product(nn.Module):
    """X @ (a @ b): what a is summed over is not seen."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(12, width)
        self.a, self.b = nn.Parameter(torch.randn(width, 4)), nn.Parameter(torch.randn(4, width))

    def forward(self, x):
        return self.inner(x) @ (self.a @ self.b)


def test_recurrent_weights():
    row = dl.transfer(Recurrent, base={"width": 64}, target={"width": 256}, rule="mup", inputs=torch.zeros(3, 12))
    hidden = row["cell.weight_hh_l0"]
    assert (hidden.role, hidden.fan_in_ratio, hidden.fan_out_ratio, hidden.lr_mult) == ("hidden", 4, 4, 1 / 4)


def test_products_of_parameters_are_refused():
    with pytest.raises(dl.DeepLimitsError, match="it stays open what it is summed over"):
        dl.transfer(Product, base={"width": 32}, target={"width": 64}, rule="mup")
