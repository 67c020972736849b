"""Large bases are tried as narrower copies: the plan is the same."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.anatomy import copies
from tests.transfer.attention_models import build
from tests.transfer.models import Gpt, Mlp

BOTH = {"base": {"width": 128, "depth": 4}, "target": {"width": 256, "depth": 8}}
HEADS = {"base": {"width": 128}, "target": {"width": 256}, "rule": "mup"}
MODELS = {
    "mlp": (Mlp, BOTH),
    "gpt": (lambda width, depth: Gpt(width, depth, tied=True, heads=4), BOTH),
    "fused": (build(heads=4, fused=True), HEADS),
    "queries": (build(heads=4), HEADS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_narrower_copy_gives_the_same_plan(name, monkeypatch):
    """Numbers are equal; sizes of initial values agree within five standard errors of 64 entries."""
    make, sizes = MODELS[name]
    whole = dl.transfer(make, **sizes)
    monkeypatch.setattr(copies, "LARGE", 40_000)
    part = dl.transfer(make, **sizes)
    assert part.rows == whole.rows and part.scales == whole.scales and part.notes == whole.notes
    for row in whole.rows:
        assert part.initial[row.name] == pytest.approx(whole.initial[row.name], rel=5 * (2 * 64) ** -0.5, abs=1e-12)


def test_the_copy_has_the_same_blocks_and_is_as_narrow_as_needed(monkeypatch):
    monkeypatch.setattr(copies, "LARGE", 40_000)
    with torch.device("meta"):
        small = Mlp(128, 4)
    found = copies.copies(Mlp, BOTH["base"], BOTH["target"], small, torch.zeros(2, 12))
    assert found.tried == {"width": 32, "depth": 4}  # 4 * 4 * 32**2 = 16 384 and vectors; 65 536 of width 64
    assert found.real(0).blocks[3].up.weight.shape == (64, 32)


def test_a_family_without_narrower_members_is_tried_as_it_is(monkeypatch):
    def make(width, depth):
        if width < 128:
            raise ValueError("too narrow")
        return Mlp(width, depth)

    monkeypatch.setattr(copies, "LARGE", 40_000)
    plan = dl.transfer(make, **BOTH)
    assert plan["blocks.7.down.weight"].branch_output
