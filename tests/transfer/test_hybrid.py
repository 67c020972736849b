"""Muon's own scale modes, and the hybrid of two optimizers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
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
    rates = {"muon:match_rms_adamw": 1e-3, "adamw": 1e-3}
    with pytest.raises(dl.DeepLimitsError, match=r"layers\.0\.both\.weight .* several .*: 2}"):  # keys and values
        plan.optimizers(Gpt(32, 16), lr=rates, matrices="muon:match_rms_adamw")
    found = plan.optimizers(Gpt(32, 16), lr=rates, matrices="muon:match_rms_adamw", split={"both": 2})
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


class Conv1D(nn.Module):
    """Hugging Face's layer, its weight stored as (in, out)."""

    def __init__(self, reads, writes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(reads, writes) * reads**-0.5)

    def forward(self, x):
        return x @ self.weight


class Attention(nn.Module):
    def __init__(self, width, turned):
        super().__init__()
        self.size = width
        layer = Conv1D if turned else (lambda reads, writes: nn.Linear(reads, writes, bias=False))
        self.norm, self.qkv, self.mix = nn.LayerNorm(width), layer(width, 3 * width), layer(width, width)

    def forward(self, h):
        q, k, v = self.qkv(self.norm(h)).split(self.size, -1)
        return h + self.mix(torch.sigmoid(q * k) * v)


class Fused(nn.Module):
    def __init__(self, width, depth, turned=False):
        super().__init__()
        self.read_in, self.blocks = nn.Linear(12, width), nn.ModuleList(Attention(width, turned) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = self.read_in(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


RATES = {"muon": 0.02, "adamw": 1e-3}


@pytest.mark.parametrize("turned", [False, True])
def test_fused_matrices_are_split_or_refused(turned):
    """A step of a split parameter is the three steps of its parts, in both layouts; its state is Muon's own."""
    plan = dl.transfer(lambda width, depth: Fused(width, depth, turned), **WIDE)
    torch.manual_seed(0)
    model = Fused(128, 4, turned)
    with pytest.raises(dl.DeepLimitsError, match=r"blocks\.0\.qkv\.weight .* holds several matrices"):
        plan.optimizers(model, lr=RATES)
    weight, before = model.blocks[0].qkv.weight, model.blocks[0].qkv.weight.detach().clone()
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    for split in (3, (128, 128, 128)):
        found = plan.optimizers(model, lr=RATES, split={"qkv": split})["muon"]
        with torch.no_grad():
            weight.copy_(before)
        found.step()
        dim = 1 if turned else 0
        for part, start, grad in zip(*(w.chunk(3, dim) for w in (weight, before, weight.grad)), strict=True):
            alone = nn.Parameter(start.clone())
            alone.grad = grad.clone()
            torch.optim.Muon([alone], lr=0.02, weight_decay=0.0).step()
            torch.testing.assert_close(part, alone, rtol=0, atol=1e-6)
        plan.guard(found)
        again = plan.optimizers(model, lr=RATES, split={"qkv": split})["muon"]
        again.load_state_dict(found.state_dict())
        assert again.state[weight]["momentum_buffer"].shape == weight.shape
    whole = plan.optimizers(model, lr=RATES, split={"qkv": 1})["muon"]
    assert type(whole) is torch.optim.Muon


def test_stacks_of_experts_that_are_chosen_are_taken_one_by_one():
    plan = dl.transfer(Gpt, **WIDE)
    model = Gpt(128, 4)
    chosen = {"layers.0.rise", "layers.0.fall"}
    found = plan.optimizers(model, lr=RATES, choose=lambda row: row.name in chosen)["muon"]
    stack, before = model.layers[0].rise, model.layers[0].rise.detach().clone()
    stack.grad = torch.randn_like(stack)
    rate = next(g["lr"] for g in found.param_groups if "layers.0.rise" in g["param_names"])
    found.step()
    for expert in range(2):
        values = torch.linalg.svdvals((stack[expert] - before[expert]).detach()) / rate
        assert 0.6 <= float(values.min()) <= float(values.max()) <= 1.3


def test_muons_factor_is_of_the_matrix_as_stored():
    """torch scales by rows over columns: those of a Conv1D, (in, out), are its fan-in and fan-out."""

    def build(width):
        return nn.Sequential(Conv1D(12, width), nn.ReLU(), Conv1D(width, 5))

    plan = dl.transfer(
        build, base={"width": 32}, target={"width": 128}, rule="mup", optimizer="muon", inputs=torch.ones(2, 12)
    )
    for name, small in (("0.weight", (12, 32)), ("2.weight", (32, 5))):
        row = plan[name]
        ours = _adjust_lr(row.lr_mult, "original", torch.Size(row.shape)) / _adjust_lr(
            1.0, "original", torch.Size(small)
        )
        assert ours == pytest.approx((row.fan_out_ratio / row.fan_in_ratio) ** 0.5, rel=1e-12)


class Stored(nn.Module):
    """Embedding (tokens, width), a matrix as (in, out), one as (out, in), a gain."""

    def __init__(self, width):
        super().__init__()
        self.words, self.norm = nn.Embedding(8, width), nn.LayerNorm(width)
        self.turned, self.plain = Conv1D(width, 4 * width), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.plain(torch.tanh(self.turned(self.norm(self.words(x)))))


@pytest.mark.parametrize("mode", ["original", "match_rms_adamw"])
def test_updates_of_torchs_muon_have_the_planned_size(mode):
    """Spectral norms of one update grow like (m_out/m_in)^1/2, to the 0.68 ... 1.13 of Newton-Schulz (here, twice)."""
    plan = dl.transfer(Stored, base={"width": 32}, target={"width": 512}, rule="mup", optimizer=f"muon:{mode}")
    sizes = []
    for width in (32, 512):
        torch.manual_seed(0)
        model = Stored(width)
        matrices = {name: p for name, p in model.named_parameters() if p.dim() == 2}
        before = {name: p.detach().clone() for name, p in matrices.items()}
        rates = {name: 0.02 * (plan[name].lr_mult if width > 32 else 1.0) for name in matrices}
        groups = [{"params": [p], "lr": rates[name]} for name, p in matrices.items()]
        for p in matrices.values():
            p.grad = torch.randn_like(p)
        torch.optim.Muon(groups, weight_decay=0.0, adjust_lr_fn=mode).step()
        sizes.append(
            {name: float(torch.linalg.matrix_norm(p.detach() - before[name], 2)) for name, p in matrices.items()}
        )
    for name in sizes[0]:
        planned = (plan[name].fan_out_ratio / plan[name].fan_in_ratio) ** 0.5
        assert 0.68 / 1.13 < sizes[1][name] / sizes[0][name] / planned < 1.13 / 0.68


def test_what_torchs_muon_does_not_take_is_told():
    plan = dl.transfer(Stored, base={"width": 32}, target={"width": 512}, rule="mup", optimizer="muon")
    for name in ("norm.weight", "norm.bias"):
        assert "Muon takes matrices only" in plan[name].reason and "own factor" not in plan[name].reason
        assert plan[name].lr_mult == pytest.approx(4.0)
    assert "takes matrices only" not in plan["words.weight"].reason
    with pytest.raises(ValueError, match="2D"):
        torch.optim.Muon(Stored(32).parameters())
    spectral = dl.transfer(Stored, base={"width": 32}, target={"width": 512}, rule="mup", optimizer="spectral")
    assert not any("Muon" in row.reason for row in spectral.rows)


def test_settings_of_each():
    plan = dl.transfer(Mlp, **WIDE, batch=(1, 4))
    settings = {"adamw": {"betas": (0.9, 0.95)}, "muon": {"momentum": 0.9}}
    found = plan.optimizers(Mlp(128, 4), lr=RATES, settings=settings)
    assert {group["momentum"] for group in found["muon"].param_groups} == {0.9}
    assert {group["betas"] for group in found["adamw"].param_groups} == {(0.9**4, 0.95**4)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"split": {"qkv": 5}}, "does not add up to the 384 outputs"),
        ({"split": {"qkv": 0}}, "does not add up"),
        ({"split": {"qkv": (128, 128)}}, "does not add up"),
        ({"split": {"qkv": 3, "kqv": 3}}, "has 'kqv' in its name"),
    ],
)
def test_splits_that_do_not_fit(settings, words):
    plan = dl.transfer(Fused, **WIDE)
    with pytest.raises(dl.DeepLimitsError, match=words):
        plan.optimizers(Fused(128, 4), lr=RATES, **settings)
