"""Factors of the width that a model's forward pass brings itself: measured on copies, and counted once."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimits as dl
from tests.transfer.models import Gpt, Mlp

WIDE = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
M = 4.0
OPTIMIZERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups),
    "sgd": lambda groups: torch.optim.SGD(groups),
}


class Read(Mlp):
    """Divides its logits by the width to a power, relative to 32."""

    def __init__(self, width, depth, power=0.0):
        super().__init__(width, depth)
        self.factor = (width / 32) ** -power

    def forward(self, x):
        return super().forward(x) * self.factor


class Words(Gpt):
    """Multiplies embeddings with the root of the width, as a buffer or a number."""

    def __init__(self, width, depth, power=0.5, buffer=False, tied=False, unit=1.0):
        super().__init__(width, depth, tied=tied)
        factor = (width / unit) ** power
        self.words.register_buffer("factor", torch.tensor(factor) if buffer else None)
        self.words.register_forward_hook(lambda m, given, made: made * (m.factor if buffer else factor))


def losses(model, optimizer, x, classes):
    y, found = torch.arange(len(x)) % classes, []
    for _ in range(10):
        optimizer.zero_grad()
        made = model(x)
        loss = F.cross_entropy(made.mean(1) if made.dim() == 3 else made, y)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("rule", ["mup", "sp"])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_readout_that_the_forward_pass_divides(power, rule):
    """Tensor Programs V, Table 8 has 1/m in the forward pass: the readout then keeps its initial values and rate."""
    plain, own = (dl.transfer(lambda w, depth, p=p: Read(w, depth, p), **_args(), rule=rule) for p in (0.0, power))
    row, bare = own["head.weight"], plain["head.weight"]
    assert row.width_factor == pytest.approx(M**-power) and bare.width_factor == 1
    assert row.init_ratio == pytest.approx(bare.init_ratio * M**power)
    assert row.lr_mult == pytest.approx(bare.lr_mult * M**power)
    assert row.eps_mult == pytest.approx(bare.eps_mult * M**-power)
    assert row.decay_mult == pytest.approx(bare.decay_mult * M**-power)
    assert own["blocks.1.up.weight"] == plain["blocks.1.up.weight"]
    assert "of the width" in row.reason


def _args():
    return {"base": {"w": 32, "depth": 4}, "target": {"w": 128, "depth": 4}}


@pytest.mark.parametrize("buffer", [False, True])
def test_embeddings_that_the_forward_pass_multiplies(buffer):
    """Their effective size is that of muP, and their own falls with the root; SGD's rate with the square."""
    build = lambda width, depth: Words(width, depth, buffer=buffer)
    adam, sgd = (dl.transfer(build, **WIDE, rule="mup", optimizer=name)["words.weight"] for name in ("adamw", "sgd"))
    assert (adam.init_ratio, adam.lr_mult, adam.eps_mult) == pytest.approx((0.5, 0.5, 2 / M))
    assert sgd.lr_mult == pytest.approx(M / 4)
    plan = dl.transfer(build, **WIDE, rule="mup")
    assert plan["head.weight"].lr_mult == 1 / M and not any("not counted" in note for note in plan.notes)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("where", ["readout", "embedding", "tied"])
def test_both_ways_train_alike(where, optimizer):
    """(width / 32)^p in the forward pass or not at all: the same base, and the same losses under the plans."""
    powers = (0.0, 1.0) if where == "readout" else (0.0, 0.5)
    found = []
    for power in powers:
        build = lambda width, depth, p=power: (
            Read(width, depth, p) if where == "readout" else Words(width, depth, p, tied=where == "tied", unit=32)
        )
        torch.manual_seed(0)
        plan, model = dl.transfer(build, **WIDE, rule="mup", optimizer=optimizer), build(128, 4).double()
        plan.apply(model, initial=True)
        groups = plan.param_groups(model, lr=1e-2, weight_decay=0.1)
        x = torch.linspace(-1, 1, 120, dtype=torch.float64).reshape(10, 12)
        x = x if where == "readout" else torch.arange(60).reshape(10, 6) % 17
        found.append(losses(model, OPTIMIZERS[optimizer](groups), x, 3 if where == "readout" else 17))
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0][-1] < found[0][0]


class ByHand(nn.Module):
    """Norms written by hand divide a sum by the width: that is no factor."""

    def __init__(self, width, kind):
        super().__init__()
        self.kind, self.gain = kind, nn.Parameter(torch.ones(width))

    def forward(self, h):
        width = h.shape[-1]
        if self.kind == "sum":
            return self.gain * h * torch.rsqrt(h.square().sum(-1, keepdim=True) / width + 1e-6)
        return F.normalize(h, dim=-1) * width**0.5 * self.gain


@pytest.mark.parametrize("kind", ["sum", "normalize"])
def test_norms_written_by_hand_are_no_factors(kind):
    def build(width, depth):
        model = Mlp(width, depth)
        for block in model.blocks:
            block.norm = ByHand(width, kind)
        return model

    rows = dl.transfer(build, **WIDE, rule="mup").rows
    assert {row.width_factor for row in rows} == {1.0}


def test_a_sum_of_embeddings_shares_a_factor():
    class Both(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.words, self.places = nn.Embedding(17, width), nn.Embedding(6, width)
            self.rest = Mlp(width, depth)
            self.rest.read_in = nn.Identity()

        def forward(self, x):
            h = self.words(x) + self.places(torch.arange(x.shape[1]))
            return self.rest(h * h.shape[-1] ** 0.5)

    plan = dl.transfer(Both, **WIDE, rule="mup")
    assert [plan[f"{name}.weight"].width_factor for name in ("words", "places")] == [2, 2]


def test_what_no_parameter_carries_is_refused():
    def build(width, depth):
        body = [nn.Linear(12, width), nn.Tanh(), Scale(width), nn.Tanh(), nn.Linear(width, 3)]
        return nn.Sequential(*body[: depth + 1])

    with pytest.raises(dl.DeepLimitsError, match=r"changes with the width after 0\.bias, and no parameter carries"):
        dl.transfer(build, **WIDE, rule="mup")


class Scale(nn.Module):
    def __init__(self, width, offset=0):
        super().__init__()
        self.width, self.offset = width, offset

    def forward(self, h):
        return h * (self.offset + self.width) ** 0.5


def test_what_is_no_power_of_the_width_is_refused():
    class Shifted(Mlp):
        def __init__(self, width, depth):
            super().__init__(width, depth)
            self.scale = Scale(width, 64)

        def forward(self, x):
            return self.scale(super().forward(x))

    with pytest.raises(dl.DeepLimitsError, match="it is no power of the width"):
        dl.transfer(Shifted, **WIDE, rule="mup")


def test_two_instances_are_compared_with_each_other():
    rows = dl.transfer(Read(128, 4, 1.0), base=Read(32, 4, 1.0), rule="mup")
    assert rows["head.weight"].width_factor == pytest.approx(1 / 4)
    with torch.device("meta"):
        large = Read(128, 4, 1.0)
    notes = dl.transfer(large, base=Read(32, 4, 1.0), rule="mup").notes
    assert any("two instances: a factor of the width" in note for note in notes)
