"""Attention logits: what scales them, what carries their factor, and that they then move alike at every head size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.anatomy.products import Products
from tests.transfer.attention_models import build
from tests.transfer.models import Gpt, Mlp

WIDE = {"base": {"width": 32}, "target": {"width": 128}, "rule": "mup"}
WORDS = torch.arange(12).reshape(2, 6) % 17


def seen(model):
    with torch.no_grad(), Products(model) as products:
        model(WORDS)
    return products.found


def carried(plan):
    """What carries the factor of the logits in the first layer."""
    return {
        row.name.removeprefix("layers.0."): row.logits_factor for row in plan.rows if row.name.startswith("layers.0.")
    }


@pytest.mark.parametrize("fused", [False, True])
def test_softmax_by_hand_is_seen(fused):
    first = seen(build(heads=4, fused=fused)(32))[0]
    assert (first.size, first.heads, first.repeated, first.softmax) == (8, 4, 1, True)
    assert first.scale == pytest.approx(8**-0.5)
    assert first.query == f"layers.0.attention.{'qkv' if fused else 'query'}.weight"
    assert len(seen(build(heads=4, fused=fused)(32))) == 4  # one a layer: values are not logits


BY_HAND = {
    "exp over sum": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    "less the maximum": lambda x: (
        torch.exp(x - x.max(-1, keepdim=True).values) / (x - x.amax(-1, True)).exp().sum(-1, True)
    ),
    "logsumexp": lambda x: (x - x.logsumexp(-1, keepdim=True)).exp(),
    "log_softmax": lambda x: torch.nn.functional.log_softmax(x, -1).exp(),
    "in place": lambda x: x.clone().exp_().div_(x.exp().sum(-1, keepdim=True)),
    "of base 2": lambda x: (x * 1.4426950408889634 - (x * 1.4426950408889634).amax(-1, True)).exp2(),
}


@pytest.mark.parametrize("words", list(BY_HAND))
def test_softmax_of_exponentials_is_seen(words):
    """Same plan as for torch.softmax: the query's factor, and values that are no logits."""
    by_hand, ready = build(heads=4, softmax=BY_HAND[words]), build(heads=4)
    found = seen(by_hand(32))
    assert len(found) == 4 and found[0].softmax and found[0].value == "layers.0.attention.both.weight"
    plan = dl.transfer(by_hand, **WIDE)
    assert plan.rows == dl.transfer(ready, **WIDE).rows and plan.notes == dl.transfer(ready, **WIDE).notes


def test_products_without_a_softmax_are_told_with_what_to_do():
    plan = dl.transfer(build(heads=4, softmax=torch.relu), **WIDE)
    [note] = [note for note in plan.notes if "no softmax" in note]
    assert "layers.0.attention.query.weight" in note and "8 entries in the base, 32 in the target" in note
    assert "divide them by the size" in note and "Product(" not in note


def test_what_pytorch_has_ready_is_seen():
    first = seen(build(heads=4, packed=True)(32))[0]
    assert (first.size, first.heads, first.softmax, first.query) == (
        8,
        4,
        True,
        "layers.0.attention.inner.in_proj_weight",
    )
    [direct] = seen(Gpt(32, 1))[:1]
    assert (direct.size, direct.heads, direct.repeated, direct.query) == (8, 4, 2, "layers.0.query.weight")


def test_the_factor_goes_into_separate_queries():
    """sqrt(d0 / d) = sqrt(8 / 32)."""
    plan = dl.transfer(build(heads=4), **WIDE)
    assert "attention: 4 heads of 8 become 4 of 32" in plan.notes
    own = carried(plan)
    assert own.pop("attention.query.weight") == own.pop("attention.query.bias") == 1 / 2
    assert set(own.values()) == {1.0}
    row = plan["layers.0.attention.query.weight"]
    assert (row.init_ratio, row.lr_mult, row.decay_mult, row.eps_mult) == (1 / 4, 1 / 8, 8, 1 / 2)
    assert "logits of heads that grow" in row.reason
    where = "layers.*.attention.query"
    words = f"4 times: attention of {where}.weight: its logits' factor 0.5 (1/size) is in {where}.weight, {where}.bias"
    assert words in plan.notes


def test_the_factor_goes_into_norms_of_queries():
    own = carried(dl.transfer(build(heads=4, norms=True), **WIDE))
    assert {name for name, factor in own.items() if factor != 1} == {
        f"attention.norms.0.{k}" for k in ("weight", "bias")
    }


def test_a_fused_projection_needs_the_modules_own_number(tmp_path):
    plan = dl.transfer(build(heads=4, fused=True), **WIDE)
    assert set(carried(plan).values()) == {1.0}
    assert "logits of heads that grow: 0.5 in layers.0.attention.scale" in plan["layers.0.attention.qkv.weight"].reason
    assert sum("(1/size) is in layers.*.attention.scale" in note for note in plan.notes) == 1
    assert plan.scales == pytest.approx({f"layers.{n}.attention.scale": 8**0.5 / 32 for n in range(4)})
    model = build(heads=4, fused=True)(128)
    assert plan.apply(model, initial=True) is not None
    assert model.layers[3].attention.scale == pytest.approx(8**0.5 / 32)
    plan.save(tmp_path / "plan.json")
    again = build(heads=4, fused=True)(128)
    type(plan).load(tmp_path / "plan.json").set_scales(torch.compile(again))
    assert again.layers[0].attention.scale == pytest.approx(8**0.5 / 32)


@pytest.mark.parametrize("settings", [{"packed": True}, {"fused": True, "number": False}])
def test_what_nothing_carries_is_said(settings):
    plan = dl.transfer(build(heads=4, **settings), **WIDE)
    [note] = [note for note in plan.notes if "logits lack the factor 0.5" in note]
    assert "let heads grow in number" in note and note.startswith("4 times: attention of layers.*.attention.")
    assert not plan.scales and set(carried(plan).values()) == {1.0}


@pytest.mark.parametrize("settings", [{}, {"fused": True}, {"packed": True}, {"norms": True}])
def test_heads_that_grow_in_number_need_nothing(settings):
    plan = dl.transfer(build(**settings), **WIDE)
    assert "attention: 4 heads of 8 become 16 of 8" in plan.notes
    assert not plan.scales and {row.logits_factor for row in plan.rows} == {1.0}


class Learned(nn.Module):
    """Learned queries (or keys and values) attend to a sequence in four heads, as in the Perceiver."""

    def __init__(self, width, ready, of, latent=lambda z, x: z.expand(len(x), -1, -1)):
        super().__init__()
        self.latents, self.read_in = nn.Parameter(torch.randn(1, 5, width)), nn.Embedding(17, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.mix, self.head, self.norm = nn.Linear(width, width), nn.Linear(width, 3), nn.LayerNorm(width)
        self.ready, self.of, self.latent = ready, of, latent

    def forward(self, x):
        x = self.read_in(x)
        latents = self.latent(self.latents, x)
        q, k = (self.norm(latents), x) if self.of == "queries" else (x, self.norm(latents))
        q, k, v = (
            f(y).unflatten(-1, (4, -1)).transpose(1, 2) for f, y in ((self.query, q), (self.key, k), (self.value, k))
        )
        if self.ready:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.head(self.mix(y.transpose(1, 2).flatten(2)).mean(1))


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("of", ["queries", "keys"])
def test_learned_queries_and_keys(ready, of):
    plan = dl.transfer(lambda width: Learned(width, ready, of), **WIDE)
    assert "attention: 4 heads of 8 become 4 of 32" in plan.notes
    assert {row.name for row in plan.rows if row.logits_factor != 1} == {"query.weight", "query.bias"}
    row = plan["query.weight"]
    assert (row.role, row.logits_factor, row.lr_mult) == ("hidden", 1 / 2, 1 / 8)
    assert (plan["latents"].role, plan["latents"].lr_mult) == ("gain or bias", 1)


def test_learned_queries_without_a_batch_or_a_matrix():
    plain = dl.transfer(lambda width: Learned(width, True, "queries", lambda z, x: z[:, :2]), **WIDE)
    assert plain["query.weight"].logits_factor == 1 / 2

    class Pooled(Learned):
        def forward(self, x):
            x = self.read_in(x)
            q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in (self.latents, self.key(x), self.value(x)))
            y = nn.functional.scaled_dot_product_attention(q.expand(len(x), -1, -1, -1), k, v)
            return self.head(y.transpose(1, 2).flatten(2).mean(1))

    plan = dl.transfer(lambda width: Pooled(width, True, "queries"), **WIDE)
    assert plan["latents"].logits_factor == 1 / 2


def test_rules_that_leave_readouts_alone_leave_logits_alone():
    plan = dl.transfer(build(heads=4), **{**WIDE, "rule": "sp"})
    assert {row.logits_factor for row in plan.rows} == {1.0}


def test_keys_that_more_queries_share_are_not_claimed():
    plan = dl.transfer(build(keys=2), **WIDE)
    row = plan["layers.1.attention.both.weight"]
    assert "not claimed: 2 queries share a key and value in the base, 8 in the target" in row.reason
    assert "not claimed" not in plan["layers.1.attention.query.weight"].reason
    assert any("not claimed" in note for note in plan.notes)
    constant = dl.transfer(lambda width: Gpt(width, 4, heads=width // 8), **WIDE)
    assert not any("not claimed" in row.reason for row in constant.rows)


def change(make, width, seed):
    """Log2 of how much the logits move in 16 steps of Adam."""
    torch.manual_seed(seed)
    model = make(width, 2)
    if width > 64:
        plan = dl.transfer(lambda width: make(width, 2), base={"width": 64}, target={"width": width}, rule="mup")
        plan.apply(model, initial=True)
        optimizer = torch.optim.AdamW(plan.param_groups(model, lr=2**-6))
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2**-6, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randint(17, (16, 8), generator=generator) for _ in range(2))

    def logits():
        with torch.no_grad():
            model(x)
        return torch.stack([layer.attention.logits for layer in model.layers])

    before = logits()
    for _ in range(16):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    return float((logits() - before).square().mean().log2()) / 2


@pytest.mark.slow  # trains eight small transformers
def test_logits_move_alike_at_every_head_size():
    """Under the plan their change is flat (|slope| <= 0.2); without the factor it grows, by up to sqrt(d) more."""
    widths = [64, 128, 512]
    slopes = {}
    for number in (True, False):
        make = build(heads=4, fused=True, number=number)
        moved = [np.mean([change(make, width, seed) for seed in range(2)]) for width in widths]
        slopes[number] = np.polyfit(np.log2(widths), moved, 1)[0]
    assert abs(slopes[True]) <= 0.2
    assert slopes[False] >= slopes[True] + 0.25


class Routed(nn.Module):
    """Experts chosen by a router, stacked or in a list."""

    def __init__(self, width, experts, listed, chosen=1):
        super().__init__()
        self.router, self.chosen = nn.Linear(width, experts), chosen
        if listed:
            self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(experts)])
        else:
            self.stacked = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)
        self.listed = listed

    def forward(self, h):
        gate = self.router(h).softmax(-1)
        gate = gate * torch.zeros_like(gate).scatter(-1, gate.topk(self.chosen)[1], 1.0)
        if self.listed:
            each = torch.stack([expert(h) for expert in self.experts], 1)
        else:
            each = torch.einsum("bd,edf->bef", h, self.stacked)
        return h + torch.einsum("be,bef->bf", gate, each)


def routed(listed):
    def make(width, experts, chosen=1):
        return Mlp(width, 4, block=lambda width, scale: Routed(width, experts, listed, chosen))

    return make


def test_experts_are_an_axis_of_their_own():
    more = {"base": {"width": 32, "experts": 4}, "target": {"width": 64, "experts": 8}}
    with pytest.raises(dl.DeepLimitsError, match="holds 4 matrices in the base and 8 in the target"):
        dl.transfer(routed(False), **more, rule="mup")
    with pytest.raises(dl.DeepLimitsError, match="a list of experts is no list of blocks"):
        dl.transfer(routed(True), **more)
    same = {"base": {"width": 32, "experts": 4, "chosen": 1}, "target": {"width": 64, "experts": 4, "chosen": 2}}
    with pytest.raises(dl.DeepLimitsError, match="doubling chosen changes nothing"):
        dl.transfer(routed(False), **same, rule="mup")


def test_another_number_of_chosen_experts_is_not_claimed():
    plan = dl.transfer(
        lambda width: routed(False)(width, 4, chosen=width // 32), base={"width": 32}, target={"width": 64}
    )
    assert any("top-1 choices become top-2" in note for note in plan.notes)
    assert plan["blocks.0.router.weight"].role == "output"
