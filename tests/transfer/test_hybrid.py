"""Muon's own scale modes, and the hybrid of two optimizers."""

from __future__ import annotations

import pytest
import torch
from torch.optim._muon import _adjust_lr

import deeplimits as dl
from tests.transfer.models import Gpt, Mlp

WIDE = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
DEEP = {"base": {"width": 32, "depth": 4}, "target": {"width": 32, "depth": 16}}


@pytest.mark.parametrize("mode", ["original", "match_rms_adamw"])
def test_steps_have_the_spectral_size(mode):
    """LR times torch's own factor grows like sqrt(m_out / m_in), for square, wide and tall matrices and the readout."""
    plan = dl.transfer(Mlp, **WIDE, rule="mup", optimizer=f"muon:{mode}")
    torch.manual_seed(0)
    small = dict(Mlp(**WIDE["base"]).named_parameters())
    for name in ("read_in.weight", "blocks.1.up.weight", "blocks.1.down.weight", "head.weight"):
        row = plan[name]
        ours = _adjust_lr(row.lr_mult, mode, torch.Size(row.shape)) / _adjust_lr(1.0, mode, small[name].shape)
        assert ours == pytest.approx((row.fan_out_ratio / row.fan_in_ratio) ** 0.5, rel=1e-12)


def test_the_hybrid():
    plan = dl.transfer(Mlp, **{**WIDE, "target": {"width": 128, "depth": 16}})
    model = Mlp(128, 16)
    plan.apply(model, initial=True)
    found = plan.optimizers(model, lr={"muon": 0.02, "adamw": 1e-3}, weight_decay=0.1)
    assert [type(optimizer).__name__ for optimizer in found.values()] == ["Muon", "AdamW"]
    names = {n for g in found["muon"].param_groups for n in g["param_names"]}
    assert names == {f"blocks.{i}.{part}.weight" for i in range(16) for part in ("up", "down")}
    rates = {n: g["lr"] for o in found.values() for g in o.param_groups for n in g["param_names"]}
    assert rates["blocks.3.up.weight"] == pytest.approx(0.02)
    assert rates["blocks.3.down.weight"] == pytest.approx(0.02 / 4)
    assert rates["head.weight"] == pytest.approx(1e-3 / 4)
    assert rates["blocks.3.down.bias"] == pytest.approx(1e-3 / 4)
    assert sum(len(g["params"]) for o in found.values() for g in o.param_groups) == len(list(model.parameters()))
    x, y = torch.randn(32, 12), torch.randint(3, (32,))
    losses = []
    for _ in range(20):
        for optimizer in found.values():
            optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for optimizer in found.values():
            optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_experts_and_depth_alone():
    plan = dl.transfer(Gpt, **DEEP)
    found = plan.optimizers(
        Gpt(32, 16), lr={"muon:match_rms_adamw": 1e-3, "adamw": 1e-3}, matrices="muon:match_rms_adamw"
    )
    names = {n for g in found["muon:match_rms_adamw"].param_groups for n in g["param_names"]}
    assert "layers.3.mix.weight" in names
    assert not names & {"words.weight", "head.weight", "layers.3.rise", "places"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": {"muon": 1.0}}, "no rate for 'adamw'"),
        ({"lr": {"muon": 1.0, "adamw": 1.0}, "choose": lambda row: False}, "0 parameters for muon"),
    ],
)
def test_refused(settings, words):
    plan = dl.transfer(Mlp, **WIDE, rule="mup")
    with pytest.raises(dl.DeepLimitsError, match=words):
        plan.optimizers(Mlp(128, 4), **settings)
