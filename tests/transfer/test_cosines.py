"""Attention of normalised queries and keys: cosines need no factor of the head's size, and have a temperature."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deeplimits as dl
from tests.transfer.attention_models import Transformer

SIZES = {"base": {"width": 32}, "target": {"width": 128}, "rule": "mup"}
UNIT = {
    "normalize": lambda x: F.normalize(x, dim=-1),
    "length": lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6),
    "squares": lambda x: x * torch.rsqrt((3 * x).pow(2).sum(-1, keepdim=True) + 1e-6),
}
ROOT = {
    "mean": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    "sum": lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + 1e-6),
    "times": lambda x: F.normalize(x, dim=-1) * x.shape[-1] ** 0.5,
}


class Cosine(nn.Module):
    """Swin's second attention: cosines times a temperature of each head; with `root` over size^1/2."""

    def __init__(self, width, heads, norm, root=False):
        super().__init__()
        self.heads, self.norm, self.root = heads, norm, root
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.mix, self.heat = nn.Linear(width, width), nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))

    def forward(self, x):
        parts = (self.query(x), *self.both(x).chunk(2, -1))
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in parts)
        logits = self.norm(q) @ self.norm(k).transpose(-1, -2) * torch.clamp(self.heat, max=4.6).exp()
        logits = logits * q.shape[-1] ** -0.5 if self.root else logits
        return self.mix((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def build(norm, root=False, heads=4):
    return lambda width: Transformer(width, 1, lambda width: Cosine(width, heads or width // 8, norm, root))


@pytest.mark.parametrize("norm", UNIT)
def test_cosines_lack_nothing(norm):
    plan = dl.transfer(build(UNIT[norm]), **SIZES)
    assert plan.notes[1:] == ("attention: 4 heads of 8 become 4 of 32",)
    assert plan["layers.0.attention.heat"].role == "fixed vector"
    assert {row.logits_factor for row in plan.rows} == {1.0}


@pytest.mark.parametrize("norm", ROOT)
def test_norms_to_the_root_of_the_size_lack_its_root(norm):
    """Entries of size 1: the logits grow as the size over its root."""
    assert any("logits lack the factor 0.5 " in note for note in dl.transfer(build(ROOT[norm], True), **SIZES).notes)


def test_temperatures_of_more_heads_are_vectors():
    plan = dl.transfer(build(UNIT["normalize"], heads=None), **SIZES)
    row = plan["layers.0.attention.heat"]
    assert (row.role, row.fan_out_ratio, row.init_ratio, row.lr_mult) == ("gain or bias", 4, 1, 1)
