"""Factors of the depth that a model brings itself: in its forward pass or in its initial values, counted once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import Block, Mlp

DEEP = {"base": {"width": 32, "depth": 4}, "target": {"width": 32, "depth": 16}}
ALPHAS = {"depth_mup": 0.5, "completep": 1.0}


def inside(power):
    """The block scales its own branch."""
    return lambda width, depth: Mlp(width, depth, scale=depth**-power)


class Outside(nn.Module):
    """The model scales and adds what its blocks return; `place` scales by the block's place as well."""

    def __init__(self, width, depth, power=0.0, place=0.0):
        super().__init__()
        self.read_in, self.norm, self.head = nn.Linear(12, width), nn.LayerNorm(width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) for _ in range(depth)])
        self.power, self.place = power, place

    def forward(self, x):
        h = self.read_in(x)
        for place, block in enumerate(self.blocks):
            h = h + len(self.blocks) ** -self.power * (place + 1) ** -self.place * block(h)
        return self.head(self.norm(h))


def outside(power):
    return lambda width, depth: Outside(width, depth, power)


@pytest.mark.parametrize("rule", ALPHAS)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("where", "end"), [(inside, "down.weight"), (outside, "1.weight")])
def test_only_what_the_forward_pass_lacks_is_folded_in(where, end, power, rule):
    """M_L^-alpha in all, m_L^-power of it in the forward pass; the rate inside blocks is that of the whole."""
    alpha, m = ALPHAS[rule], 4.0
    plan = dl.transfer(where(power), **DEEP, rule=rule)
    row = plan[f"blocks.9.{end}"]
    assert row.branch_output and row.forward_alpha == pytest.approx(power)
    assert row.init_ratio == pytest.approx(m ** (power - alpha))
    assert row.lr_mult == pytest.approx(m ** (alpha - 1) * m ** (power - alpha))
    assert row.eps_mult == pytest.approx(m**-alpha / m ** (power - alpha))
    if where is inside:
        assert plan["blocks.9.up.weight"].lr_mult == pytest.approx(m ** (alpha - 1))
    for place in (0, 12, 15):  # no block follows the last one, in the base and in its copies
        other = plan[f"blocks.{place}.{end}"]
        assert (other.forward_alpha, other.lr_mult, other.eps_mult) == (row.forward_alpha, row.lr_mult, row.eps_mult)


def test_both_ways_train_alike():
    """(depth / 4)^-1/2 in the forward pass or not at all: the same base, and the same losses under the plans."""
    losses = []
    for power in (0.0, 0.5):
        build = lambda width, depth, power=power: Mlp(width, depth, scale=(depth / 4) ** -power)
        torch.manual_seed(0)
        plan, model = dl.transfer(build, **DEEP), build(32, 16).double()
        plan.apply(model, initial=True)
        optimizer = torch.optim.AdamW(plan.param_groups(model, lr=1e-3, weight_decay=0.1))
        x, y = torch.linspace(-1, 1, 120, dtype=torch.float64).reshape(10, 12), torch.arange(10) % 3
        for _ in range(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert losses[0] < 1.0  # from log 3


class Returned(Outside):
    """The blocks return their branch with its factor, and the model adds it; `factor` is a number that it holds."""

    def __init__(self, width, depth, factor=1.0):
        super().__init__(width, depth)
        self.factor = factor
        for block in self.blocks:
            block.register_forward_hook(lambda module, given, made: made * len(self.blocks) ** -0.5)

    def forward(self, x):
        h = self.read_in(x)
        for block in self.blocks:
            h = h + block(h) * self.factor
        return self.head(self.norm(h))


def test_branches_that_blocks_return_with_their_factor():
    rows = dl.transfer(Returned, **DEEP).rows
    assert {row.forward_alpha for row in rows if row.branch_output} == {0.5}
    rows = dl.transfer(Returned(32, 16, 0.25), base=Returned(32, 4)).rows  # of two instances numbers alone are seen
    assert [row.forward_alpha for row in rows if row.branch_output] == [1.0] * 32


def test_what_is_not_measured_is_told():
    """One size that changes width and depth at once shows no factor of the depth alone."""
    plan = dl.transfer(lambda size: Outside(8 * size, size, 0.5), {"size": 4}, {"size": 16})
    assert any(note.startswith("not counted: a factor of the depth") for note in plan.notes)


def test_factors_by_place_are_refused():
    with pytest.raises(dl.DeepLimitsError, match="scales the blocks of blocks by their place"):
        dl.transfer(lambda width, depth: Outside(width, depth, place=0.5), **DEEP)


class Two(nn.Module):
    """A block of two branches, each with a factor."""

    def __init__(self, width, first, second):
        super().__init__()
        self.first, self.second, self.factors = Block(width), Block(width), (first, second)

    def forward(self, h):
        for part, factor in zip((self.first, self.second), self.factors, strict=True):
            h = h + factor * part.down(torch.relu(part.up(part.norm(h))))
        return h


def twice(first, second):
    """Blocks of two branches, each scaled by a function of (place, depth)."""

    def build(width, depth):
        model = Mlp(width, depth)
        model.blocks = nn.ModuleList([Two(width, first(place, depth), second(place, depth)) for place in range(depth)])
        return model

    return build


@pytest.mark.parametrize("powers", [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (0.5, 1.0)])
def test_every_branch_of_a_block_has_its_own_factor(powers):
    laws = [lambda place, depth, p=p: depth**-p for p in powers]
    plan = dl.transfer(twice(*laws), **DEEP)
    for name, power in zip(("first", "second"), powers, strict=True):
        for kind in ("weight", "bias"):
            row = plan[f"blocks.9.{name}.down.{kind}"]
            assert row.branch_output and row.forward_alpha == pytest.approx(power)
            assert row.init_ratio == row.lr_mult == pytest.approx(4.0 ** (power - 1))


@pytest.mark.parametrize(
    "law", [lambda place, depth: (place + 1) ** -0.5, lambda place, depth: 1 + place / depth], ids=["root", "relative"]
)
@pytest.mark.parametrize("branch", [0, 1])
def test_factors_by_place_of_one_of_two_branches_are_refused(law, branch):
    laws = [law if number == branch else lambda place, depth: 1.0 for number in range(2)]
    with pytest.raises(dl.DeepLimitsError, match="scales the blocks of blocks by their place"):
        dl.transfer(twice(*laws), **DEEP)


def test_blocks_that_change_with_the_depth_otherwise_are_refused():
    def build(width, depth):
        model = Mlp(width, depth)
        for block in model.blocks:
            block.norm.eps = 0.1 * depth
        return model

    with pytest.raises(dl.DeepLimitsError, match="by more than a factor, in a model of another depth"):
        dl.transfer(build, **DEEP)


def test_streams_that_the_model_norms_are_refused():
    class Normed(Outside):
        def forward(self, x):
            h = self.read_in(x)
            for block in self.blocks:
                h = self.norm(h + block(h))
            return self.head(h)

    with pytest.raises(dl.DeepLimitsError, match="is not the identity at zero parameters"):
        dl.transfer(Normed, **DEEP)


def by_place(width, depth):
    """Initial values that fall with the block's place, as 1/sqrt(2 (place + 1))."""
    model = Mlp(width, depth)
    with torch.no_grad():
        for place, block in enumerate(model.blocks):
            block.down.weight.mul_((2 * (place + 1)) ** -0.5)
    return model


def test_initial_values_by_place_keep_the_bases_profile():
    """No power of the depth describes them: `apply` measures each, and gives it its counterpart's size."""
    plan = dl.transfer(by_place, **DEEP)
    row = plan["blocks.9.down.weight"]
    assert row.init_mult is None and plan["blocks.9.up.weight"].init_mult == pytest.approx(1)
    torch.manual_seed(0)
    model = by_place(32, 16)
    done = plan.apply(model, initial=True)
    for place in (0, 5, 15):
        weight = model.blocks[place].down.weight
        expected = (64**-0.5 / 3**0.5) * (2 * (place // 4 + 1)) ** -0.5 / 4
        assert float(weight.detach().square().mean().sqrt()) == pytest.approx(expected, rel=5 * (2 / 2048) ** 0.5)
    assert done["blocks.15.down.weight"].init_mult == pytest.approx(1 / 4 * (16 / 4) ** 0.5, rel=5 * (2 / 2048) ** 0.5)


def held(depth):
    """Blocks of two branches that hold their factors, depth^-1/2 and 1/depth."""
    model = Mlp(32, depth)
    model.blocks = nn.ModuleList(
        [nn.Sequential(*(Block(32, depth**-power) for power in (0.5, 1.0))) for _ in range(depth)]
    )
    return model


def test_a_number_that_blocks_hold_is_seen_in_two_instances():
    plan = dl.transfer(inside(0.5)(32, 16), base=inside(0.5)(32, 4))
    assert plan["blocks.9.down.weight"].forward_alpha == pytest.approx(0.5)
    assert any("two instances: a factor of the depth" in note for note in plan.notes)
    two = dl.transfer(held(16), base=held(4))
    assert [two[f"blocks.9.{n}.down.weight"].forward_alpha for n in (0, 1)] == pytest.approx([0.5, 1.0])
    plain = dl.transfer(inside(0.0)(32, 16), base=inside(0.0)(32, 4))
    assert plain["blocks.9.down.weight"].forward_alpha == 0
