"""Lists whose blocks are of several kinds: what adds to the stream counts, whatever its parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.models import Block, Mlp

DEEP = {"base": {"width": 32, "depth": 4}, "target": {"width": 32, "depth": 16}}


class Biased(Block):
    """A block with one more parameter, as the first of T5's, whose table of distances serves all."""

    def __init__(self, width, scale=1.0):
        super().__init__(width, scale)
        self.extra = nn.Parameter(torch.zeros(2 * width))

    def forward(self, h):
        return h + self.scale * self.down(torch.relu(self.up(self.norm(h)) + self.extra))


class Added(Mlp):
    """The blocks return their branches, and the model adds them."""

    def forward(self, x):
        h = self.read_in(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(self.norm(h))


def first(kind=Mlp, power=0.5):
    """The first of the blocks is of another kind; all have the factor depth^-power."""

    def build(width, depth):
        model = kind(width, depth, depth**-power)
        model.blocks[0] = Biased(width, depth**-power)
        if kind is Added:
            for block in model.blocks:
                block.register_forward_hook(lambda module, given, made: made - given[0])
        return model

    return build


@pytest.mark.parametrize("kind", [Mlp, Added])
@pytest.mark.parametrize("instances", [False, True])
def test_a_first_block_of_another_kind_counts(kind, instances):
    """4 and 16 blocks, not 3 and 15: of m_L^-1 the forward pass has m_L^-1/2, in all of them."""
    make = first(kind)
    plan = dl.transfer(make(32, 16), base=make(32, 4)) if instances else dl.transfer(make, **DEEP)
    inside = [row for row in plan.rows if row.name.startswith("blocks.")]
    assert {row.depth_ratio for row in inside} == {4}
    ends = [row for row in inside if row.branch_output]
    assert [row.name for row in ends] == [f"blocks.{n}.down.{part}" for n in range(16) for part in ("weight", "bias")]
    assert [row.init_ratio for row in ends] == pytest.approx([0.5] * 32)
    assert plan["blocks.0.extra"].eps_mult == plan["blocks.9.up.bias"].eps_mult == pytest.approx(1 / 4)
    assert plan.notes[0] == "the depth changes, and no width: blocks has 16 blocks in place of 4"


def test_what_is_no_block_does_not_count():
    """Layers before the blocks, and a norm after them, stand in the same list and pass no stream on."""

    def build(width, depth):
        blocks = [Block(width) for _ in range(depth)]
        return nn.Sequential(nn.Linear(12, width), nn.Linear(width, width), *blocks, nn.LayerNorm(width))

    rows = dl.transfer(build, **DEEP).rows
    assert {row.name.split(".")[0] for row in rows if row.depth_ratio == 1} == {"0", "1", "18"}
    assert {row.depth_ratio for row in rows} == {1, 4}
