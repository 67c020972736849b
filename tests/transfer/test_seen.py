"""Forward passes that cannot be run without values as they stand: attention is paired in all of their blocks."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimits as dl
from deeplimits.transfer.anatomy.pairs import Pairs, told
from deeplimits.transfer.anatomy.products import Product

WIDE = {"base": {"width": 32}, "target": {"width": 128}, "rule": "mup"}


class Masked(nn.Module):
    """Four heads that grow; `mask` makes the causal one, `chosen` adds experts that tokens choose."""

    def __init__(self, width, mask, ready, chosen):
        super().__init__()
        self.mask, self.ready = mask, ready
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.router, self.experts = nn.Linear(width, 2), nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.chosen = chosen

    def forward(self, h):
        x = self.norm(h)
        q, k, v = (f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mask = self.mask(h)
        if self.ready:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            y = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~mask, -1e9).softmax(-1) @ v
        h = h + y.transpose(1, 2).flatten(2)
        return h + self.routed(h) if self.chosen else h

    def routed(self, h):
        gate = self.router(h).softmax(-1)
        out = torch.zeros_like(h)
        for n, expert in enumerate(self.experts):
            rows = (gate.argmax(-1) == n).nonzero(as_tuple=True)
            out = out.index_put(rows, expert(h[rows]) * gate[..., n][rows][:, None])
        return out


def placed(h):
    return torch.ones(h.shape[1], h.shape[1], dtype=torch.bool, device=h.device).tril()


def unplaced(h):
    return torch.ones(h.shape[1], h.shape[1], dtype=torch.bool).tril()


def masked(mask=placed, ready=True, chosen=False):
    def build(width, depth=2):
        blocks = [Masked(width, mask, ready, chosen) for _ in range(depth)]
        return nn.Sequential(nn.Embedding(17, width), *blocks, nn.Linear(width, 17))

    return build


def factors(plan):
    return [row.logits_factor for row in plan.rows if row.name.endswith("query.weight")]


@pytest.mark.parametrize("ready", [True, False])
def test_constants_that_name_no_device(ready):
    """The plan is that of the same model with device=."""
    plan = dl.transfer(masked(unplaced, ready), **WIDE)
    assert factors(plan) == [0.5] * 2
    same = dl.transfer(masked(placed, ready), **WIDE)
    assert plan.rows == same.rows and plan.notes == same.notes


@pytest.mark.parametrize("depth", [2, 8])
def test_every_block_before_experts_that_tokens_choose(depth):
    """At the depth of the base, and at twice it."""
    build = masked(ready=False, chosen=True)
    rule = {"rule": "mup"} if depth == 2 else {"rule": "depth_mup", "fixed": ["*.router.weight"]}
    base, target = {"width": 32, "depth": min(depth, 4)}, {"width": 128, "depth": depth}
    plan = dl.transfer(build, base=base, target=target, **rule)
    assert factors(plan) == [0.5] * depth
    assert "the forward pass cannot be followed without values: seen on small copies" in plan.notes
    assert "attention: 4 heads of 8 become 4 of 32" in plan.notes


def test_two_instances_are_seen_where_they_have_values():
    build = masked(ready=False, chosen=True)
    small, large = build(32), build(128)
    plan = dl.transfer(large, base=small, rule="mup")
    assert factors(plan) == [0.5] * 2
    plan = dl.transfer(large.to("meta"), base=small, rule="mup")
    assert factors(plan) == [1] * 2  # all alike, and told with what failed
    [note] = [note for note in plan.notes if "not seen in the target" in note]
    assert "*.query.weight" in note and "nonzero" in note and "with values in both models" in note


def test_sizes_that_the_target_has_not_are_not_claimed():
    query = Product(8, 4, 1, 1.0, True, "query", "key")
    seen = [Product(16, 4, 1, 1.0, True, "query", "key")]
    assert told(Pairs([query], [Product(32, 4, 1, 1.0, True, "query", "key")]), seen, {}).target == [None]
    assert told(Pairs([query], seen), seen, {}).target == seen
