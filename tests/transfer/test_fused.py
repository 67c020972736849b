"""Matrices that hold query, key and value side by side, told to Muon by the forward pass and not by their names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import deeplimits as dl
from tests.transfer.attention_models import build as attention

WIDE = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
RATES = {"muon": 0.02, "adamw": 1e-3}


class Unnamed(nn.Module):
    """Query, key and value from one matrix `c`, whose name says nothing; with `shared`, one matrix is query and key."""

    def __init__(self, width, keys, by_hand, shared):
        super().__init__()
        self.keys, self.by_hand, self.shared = 8 * keys, by_hand, shared
        self.sizes = [width] if shared else [width, self.keys, self.keys]
        self.norm, self.c, self.mix = nn.LayerNorm(width), nn.Linear(width, sum(self.sizes)), nn.Linear(width, width)
        self.other = nn.Linear(width, width) if shared else None

    def forward(self, h):
        x = self.norm(h)
        q, k, v = (*[self.c(x)] * 2, self.other(x)) if self.shared else self.c(x).split(self.sizes, -1)
        q, k, v = (y.unflatten(-1, (-1, 8)).transpose(1, 2) for y in (q, k, v))
        k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], 1) for y in (k, v))
        if self.by_hand:
            weights = (q @ k.transpose(-1, -2) / 8**0.5).exp()
            y = weights / weights.sum(-1, keepdim=True) @ v
        else:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        return h + self.mix(y.transpose(1, 2).flatten(2))


def unnamed(groups=1, by_hand=False, shared=False):
    def build(width, depth=4):
        blocks = [Unnamed(width, width // 8 // groups, by_hand, shared) for _ in range(depth)]
        return nn.Sequential(nn.Embedding(17, width), nn.Sequential(*blocks), nn.Linear(width, 17))

    return build


@pytest.mark.parametrize(
    ("settings", "parts"), [({}, "3"), ({"by_hand": True}, "3"), ({"groups": 2}, r"\(128, 64, 64\)")]
)
def test_fused_matrices_are_told_by_the_forward_pass(settings, parts, tmp_path):
    """Whatever its name, what gives query, key and value is refused, and the advice works; so after loading."""
    build = unnamed(**settings)
    plan, model = dl.transfer(build, **WIDE, rule="mup"), build(128)
    plan.save(tmp_path / "plan.json")
    for known in (plan, type(plan).load(tmp_path / "plan.json")):
        with pytest.raises(
            dl.DeepLimitsError, match=rf"1\.0\.c\.weight.*several.*split={{'1\.0\.c\.weight': {parts}}}"
        ):
            known.optimizers(model, lr=RATES)
    split = {"c.weight": (128, 64, 64) if settings.get("groups") else 3}
    assert sum("parts" in group for group in plan.optimizers(model, lr=RATES, split=split)["muon"].param_groups) == 1


def test_one_matrix_for_query_and_key_is_one_matrix():
    build = unnamed(shared=True)
    found = dl.transfer(build, **WIDE, rule="mup").optimizers(build(128), lr=RATES)
    assert type(found["muon"]) is torch.optim.Muon


def test_pytorchs_own_attention_is_refused_whole():
    build = attention(heads=4, packed=True)
    with pytest.raises(dl.DeepLimitsError, match="in_proj_weight"):
        dl.transfer(build, **WIDE, rule="mup").optimizers(build(128), lr=RATES)
