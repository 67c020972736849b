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


class Scored(nn.Module):
    """A readout to one number per input."""

    def __init__(self, width, how):
        super().__init__()
        self.inner, self.w, self.how = nn.Linear(12, width), nn.Parameter(torch.randn(width) * width**-0.5), how

    def forward(self, x):
        return self.how(torch.tanh(self.inner(x)), self.w)


VECTORS = {
    "matmul": lambda h, w: h @ w,
    "column": lambda h, w: h @ w[:, None],
    "inner": torch.inner,
    "einsum": lambda h, w: torch.einsum("bd,d->b", h, w),
    "sum": lambda h, w: (h * w).sum(-1),
    "sum of shifted": lambda h, w: torch.sum(w[None] * h + 1, dim=1),
}


@pytest.mark.parametrize("how", list(VECTORS))
def test_vectors_that_read_out(how):
    """A vector that is summed over the width is a readout: fan-in the width, as nn.Linear(width, 1)."""
    plan = dl.transfer(lambda width: Scored(width, VECTORS[how]), base={"width": 32}, target={"width": 128}, rule="mup")
    row = plan["w"]
    assert (row.role, row.fan_in, row.fan_in_ratio, row.fan_out_ratio) == ("output", 128, 4, 1)
    assert (row.init_ratio, row.init_mult, row.lr_mult) == (1 / 4, pytest.approx(1 / 2), 1 / 4)
    torch.manual_seed(0)
    plan.apply(Scored(128, VECTORS[how]), initial=True)


@pytest.mark.parametrize(
    "how",
    [lambda h, w: (h * w).mean(-1), lambda h, w: (h * w) @ h.T, lambda h, w: (h * w) / (h * w).square().sum(-1, True)],
)
def test_vectors_that_read_nothing_out(how):
    plan = dl.transfer(lambda width: Scored(width, how), base={"width": 32}, target={"width": 128}, rule="mup")
    assert (plan["w"].role, plan["w"].lr_mult, plan["w"].init_mult) == ("gain or bias", 1, pytest.approx(2))
    assert not any("summed over" in note and "weighs" in note for note in plan.notes)


def test_matrices_by_sums():
    """(h_i w_oi) summed over i is a layer: the fan-in is seen."""

    def build(width):
        model = Scored(width, lambda h, w: (h[:, None] * w).sum(-1))
        model.w = nn.Parameter(torch.randn(7, width) * width**-0.5)
        return model

    row = dl.transfer(build, base={"width": 32}, target={"width": 128}, rule="mup")["w"]
    assert (row.role, row.fan_in, row.fan_out, row.lr_mult) == ("output", 128, 7, 1 / 4)


def test_sums_that_nothing_weighs_are_told():
    plan = dl.transfer(
        lambda width: Scored(width, lambda h, w: h.sum(-1)), base={"width": 32}, target={"width": 128}, rule="mup"
    )
    [note] = [note for note in plan.notes if "no parameter weighs them" in note]
    assert "activations after inner.bias are summed over 32 entries in the base, 128 in the target" in note


class Computed(Scored):
    """A layer whose weight is computed from others."""

    def __init__(self, width, how):
        super().__init__(width, how)
        self.w, self.g = nn.Parameter(torch.randn(width, width)), nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.how(torch.tanh(self.inner(x)), self.w, self.g)


WEIGHTS = {
    "weight norm": lambda h, w, g: nn.functional.linear(h, w / w.norm(dim=1, keepdim=True) * g[:, None]),
    "by matmul": lambda h, w, g: h @ (w / w.norm(dim=1, keepdim=True) * g[:, None]).T,
    "cosine": lambda h, w, g: nn.functional.linear(h, nn.functional.normalize(w, dim=-1)) * g,
    "modulated": lambda h, w, g: nn.functional.linear(h, w * h.mean(0)) * g,
}


@pytest.mark.parametrize("how", list(WEIGHTS))
def test_weights_that_are_computed_are_refused(how):
    words = r"the weight of a layer is computed from w of shape \(64, 64\)"
    with pytest.raises(dl.DeepLimitsError, match=words) as caught:
        dl.transfer(lambda width: Computed(width, WEIGHTS[how]), base={"width": 32}, target={"width": 64}, rule="mup")
    assert "as nn.Linear does" in caught.value.fix


def test_a_weight_times_a_number_is_that_weight():
    """Equalized rates: N(0, 1) entries over sqrt(fan-in) in the forward pass; the number counts once."""

    def build(width):
        model = Scored(width, lambda h, w: nn.functional.linear(h, w * width**-0.5))
        model.w = nn.Parameter(torch.randn(7, width))
        return model

    row = dl.transfer(build, base={"width": 32}, target={"width": 128}, rule="mup")["w"]
    assert (row.role, row.fan_in_ratio, row.width_factor) == ("output", 4, 1 / 2)
    assert (row.init_mult, row.lr_mult) == (pytest.approx(1 / 2), 1 / 2)
