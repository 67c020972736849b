"""Models and sizes that no plan is made for, or only with a word: each error says where, why and how to mend it."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import deeplimits as dl
from deeplimits.errors import BaseWarning
from tests.transfer.models import Block, Mlp

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 64, "depth": 8}
WIDE = {"base": {"width": 32}, "target": {"width": 64}, "rule": "mup"}


def refused(words, *args, **settings):
    with pytest.raises(dl.DeepLimitsError, match=words) as caught:
        dl.transfer(*args, **settings)
    error = caught.value
    assert error.where == "transfer" and error.why and error.fix
    return error


class Lazy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(12, width), nn.LazyLinear(3)

    def forward(self, x):
        return self.outer(self.inner(x))


def named(**extra):
    """A network with other names beside its blocks at one size."""

    def build(width, depth):
        model = Mlp(width, depth)
        for name, at in extra.items():
            if width == at:
                model.register_module(name, nn.Linear(3, 3))
        return model

    return build


def test_names_on_one_side():
    error = refused("only in the target: extra.weight, extra.bias", named(extra=64), base=BASE, target=TARGET)
    assert "same function" in error.fix
    refused("only in the base: extra.bias, extra.weight", named(extra=32), base=BASE, target=TARGET)
    refused("has 1 dimensions in the target and 2 in the base", Flat(True), base=Flat(False), inputs=torch.ones(2, 12))


class Flat(nn.Module):
    def __init__(self, flat):
        super().__init__()
        self.w = nn.Parameter(torch.randn(64) if flat else torch.randn(12, 32))

    def forward(self, x):
        return x @ self.w


def test_equal_in_every_dimension():
    refused("same width in every dimension and the same depth", Mlp, base=BASE, target=BASE)
    refused("same width in every dimension", Mlp(32, 4), base=Mlp(32, 4))


def test_a_build_function_that_ignores_its_arguments():
    refused("same width in every dimension", lambda width, depth: Mlp(32, 4), base=BASE, target=TARGET)
    refused("doubling width changes nothing", lambda width, depth: Mlp(32, depth), base=BASE, target=TARGET)
    refused("doubling depth changes nothing", lambda width, depth: Mlp(width, 4), base=BASE, target=TARGET)


def test_sizes_that_are_none():
    refused(
        r"the build function takes \(width, depth, scale, readout, block\), and was given wide, depth",
        Mlp,
        base={"wide": 32, "depth": 4},
        target={"wide": 64, "depth": 4},
    )
    for size in ("32", 0, 32.5):
        refused(f"width={size!r} is no size", Mlp, base={**BASE, "width": size}, target=TARGET)
    error = refused(
        "raised TypeError for .*'depth': 4.5", Mlp, base={**BASE, "depth": 4.5}, target={**TARGET, "depth": 4.5}
    )
    assert isinstance(error.__cause__, TypeError)


class Recurrent(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()
        self.read_in, self.head = nn.Linear(12, width), nn.Linear(width, 3)
        self.core = nn.LSTM(width, width, depth, batch_first=True)

    def forward(self, x):
        return self.head(self.core(self.read_in(x)[None])[0][0])


def test_layers_inside_one_module():
    """The layers of nn.LSTM are no blocks: their number stays, the width may grow."""
    words = "core.weight_ih_l0 and its like hold several layers in one module"
    assert "num_layers" in refused(words, Recurrent, base=BASE, target=TARGET).fix
    plan = dl.transfer(Recurrent, **WIDE)
    assert plan["core.weight_hh_l1"].lr_mult == 1 / 2
    same = dl.transfer(Recurrent, base=BASE, target={**TARGET, "depth": 4})
    assert same["core.weight_hh_l3"].lr_mult == 1 / 2


def test_a_build_function_that_builds_no_model():
    refused("the build function returns int", lambda width: width, **WIDE)


def test_a_parameter_on_no_device():
    error = refused("outer.weight stands on no device and has no shape yet", Lazy, **WIDE)
    assert "LazyLinear" in error.fix
    with torch.device("meta"):
        small, large = Mlp(**BASE), Mlp(**TARGET)
    refused("the base is on the meta device", large, base=small)


def test_optimizers_of_unknown_family():
    error = refused_by_name("sophia")
    assert "name the family" in error.fix
    assert "did you mean 'adamw'" in refused_by_name("adamww").fix


def refused_by_name(optimizer):
    with pytest.raises(dl.DeepLimitsError, match="of no known family") as caught:
        dl.transfer(Mlp, base=BASE, target=TARGET, optimizer=optimizer)
    return caught.value


@pytest.mark.parametrize("rule", ["mup", "spectral", "sp_layerwise", "ntp", "mean_field"])
def test_width_rules_at_another_depth(rule):
    error = refused("blocks is 2 times as long.* has no depth part", Mlp, base=BASE, target=TARGET, rule=rule)
    assert "completep" in error.fix


def test_a_base_that_is_too_small_is_a_warning():
    for base, words in (({"width": 16, "depth": 4}, "16 wide"), ({"width": 32, "depth": 2}, "2 blocks")):
        with pytest.warns(BaseWarning, match=words):
            plan = dl.transfer(Mlp, base=base, target=TARGET)
        assert any(words in note for note in plan.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dl.transfer(Mlp, base=BASE, target=TARGET)


class Weighted(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.inner, self.outer = norm(nn.Linear(12, width)), nn.Linear(width, 3)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


@pytest.mark.parametrize("norm", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_computed_weights(norm):
    error = refused(
        "the weight of inner is computed from other parameters", lambda width: Weighted(width, norm), **WIDE
    )
    assert "remove_parametrizations" in error.fix


class Shared(nn.Module):
    """One block used many times, as in ALBERT."""

    def __init__(self, width, depth):
        super().__init__()
        self.read_in, self.block, self.depth, self.head = nn.Linear(12, width), Block(width), depth, nn.Linear(width, 3)

    def forward(self, x):
        h = self.read_in(x)
        for _ in range(self.depth):
            h = self.block(h)
        return self.head(h)


class Listed(Shared):
    def __init__(self, width, depth):
        super().__init__(width, depth)
        self.blocks = nn.ModuleList([self.block] * depth)


@pytest.mark.parametrize("model", [Shared, Listed])
def test_weights_shared_between_blocks(model):
    error = refused(
        "used 4 times by the base and 8 times by the target: blocks share weights", model, base=BASE, target=TARGET
    )
    assert "keep the depth" in error.fix
    assert "share weights" in refused("the same depth", model, base=BASE, target={**BASE, "depth": 8}).fix
    assert dl.transfer(model, base=BASE, target={**BASE, "width": 64})["block.up.weight"].lr_mult == 1 / 2


class LowRank(nn.Module):
    """W h + B A h with W frozen."""

    def __init__(self, width):
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.lora_a, self.lora_b = nn.Linear(width, 4, bias=False), nn.Linear(4, width, bias=False)

    def forward(self, h):
        return self.frozen(h) + self.lora_b(self.lora_a(h))


class Adapted(nn.Module):
    def __init__(self, width, depth=4):
        super().__init__()
        self.read_in, self.head = nn.Linear(12, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList([LowRank(width) for _ in range(depth)])

    def forward(self, x):
        h = self.read_in(x)
        for block in self.blocks:
            h = h + block(torch.relu(h))
        return self.head(h)


def test_low_rank_adapters():
    error = refused("adapts frozen weights through a low rank", Adapted, **WIDE)
    assert "merge the adapters" in error.fix


class Bottleneck(nn.Module):
    """A branch through a matrix that never grows."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.down, self.core, self.up = nn.Linear(width, 8), nn.Linear(8, 8), nn.Linear(8, width)

    def forward(self, h):
        return h + self.up(torch.relu(self.core(torch.relu(self.down(h)))))


def bottlenecks(width, depth=4):
    return Mlp(width, depth, block=Bottleneck)


def test_matrices_inside_blocks_that_do_not_grow():
    error = refused("do not grow while the model does: blocks.0.core.weight, blocks.1.core.weight", bottlenecks, **WIDE)
    assert "fixed=" in error.fix
    refused(r"fixed: '\*.nope.weight' matches no parameter", bottlenecks, **WIDE, fixed=["*.nope.weight"])
    plan = dl.transfer(bottlenecks, **WIDE, fixed=["*.core.weight"])
    assert plan["blocks.0.core.weight"].role == "fixed matrix" and plan["blocks.0.core.weight"].lr_mult == 1
    assert plan["blocks.0.down.weight"].role == "output" and plan["blocks.0.up.weight"].role == "input"
    assert 0 < float(plan.notes[0].split()[0]) < 100
    deeper = dl.transfer(bottlenecks, base=BASE, target={**BASE, "depth": 8})  # nothing grows in width
    assert deeper["blocks.7.core.weight"].depth_ratio == 2


def test_one_inner_width_alone_may_grow():
    """The expansion of the perceptron is a width of its own: d_ff grows, the stream does not."""

    class Wide(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.read_in, self.head = nn.Linear(12, 32), nn.Linear(32, 3)
            self.blocks = nn.ModuleList([Expanded(inner) for _ in range(4)])

        def forward(self, x):
            h = self.read_in(x)
            for block in self.blocks:
                h = block(h)
            return self.head(h)

    class Expanded(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.mix, self.up, self.down = nn.Linear(32, 32), nn.Linear(32, inner), nn.Linear(inner, 32)

        def forward(self, h):
            return h + self.down(torch.relu(self.up(self.mix(h))))

    plan = dl.transfer(Wide, base={"inner": 64}, target={"inner": 256}, rule="mup")
    found = {name: plan[f"blocks.1.{name}.weight"] for name in ("mix", "up", "down")}
    assert [row.role for row in found.values()] == ["fixed matrix", "input", "output"]
    assert [row.lr_mult for row in found.values()] == [1, 1, 1 / 4]


def test_inputs_that_the_model_does_not_take():
    class Two(Mlp):
        def forward(self, x, y):
            return super().forward(x + y)

    error = refused("the forward pass fails on the inputs that were tried", Two, base=BASE, target=TARGET)
    assert "pass inputs=" in error.fix
    x = torch.randn(2, 12)
    assert dl.transfer(Two, base=BASE, target=TARGET, inputs=(x, x))["head.weight"].role == "output"
