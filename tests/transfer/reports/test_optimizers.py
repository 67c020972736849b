"""Reports of users of other tools on weight decay, schedules, checkpoints and other optimizers, asked of this one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

import deeplimits as dl
from deeplimits.transfer.rule import FAMILIES
from tests.transfer.models import Gpt, Mlp

BASE = {"width": 32, "depth": 4}
RATE, DECAY = 2e-3, 0.1
X, Y = torch.linspace(-1, 1, 96).reshape(8, 12), torch.arange(8) % 3


@pytest.fixture(scope="module")
def plan():
    return dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup")


def numbers(optimizer):
    return {n: (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for n in g["param_names"]}


def products(plan, width):
    groups = plan.param_groups(Mlp(width, 4), lr=RATE, weight_decay=DECAY)
    return {n: g["lr"] * g["weight_decay"] for g in groups for n in g["param_names"] if n.endswith("up.weight")}


def test_report_06_learning_rate_times_decay(plan):
    """microsoft/mup#1: learning rate and weight decay were entangled. AdamW forgets lr * decay of a weight a step."""
    double = dl.transfer(Mlp, base=BASE, target={"width": 64, "depth": 4}, rule="mup")
    for product in (products(plan, 128), products(double, 64)):
        assert list(product.values()) == pytest.approx([RATE * DECAY] * 4, rel=1e-12)
    independent = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", decay="independent")
    groups = independent.param_groups(Mlp(128, 4), lr=RATE, weight_decay=DECAY)
    assert {group["weight_decay"] for group in groups} == {0.0, DECAY}


def test_report_07_decay_is_named_and_the_batch_is_left_alone(plan):
    """microsoft/mup#56: is decay scaled, and does the learning rate transfer over batch sizes?"""
    text = plan.explain()
    assert "decay coupled: " in text
    assert "batch" in text.split("name", 1)[0]
    assert plan.batch is None and plan.tokens is None
    larger = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", batch=(32, 128))
    assert larger["read_in.weight"].lr_mult == 2 * plan["read_in.weight"].lr_mult
    assert "experimental" in larger.explain()
    with pytest.raises(dl.DeepLimitsError, match="decay='both'"):
        dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", decay="both")


def test_report_17_a_base_is_named():
    """microsoft/mup#41, #25: without a base everything was silently standard; is the proxy its own base?"""
    with pytest.raises(TypeError, match="base"):
        dl.transfer(Mlp, target={"width": 128, "depth": 4})
    with pytest.raises(dl.DeepLimitsError, match="same width in every dimension and the same depth"):
        dl.transfer(Mlp, base=BASE, target=BASE)


@pytest.mark.parametrize(("mode", "rate"), [("original", 1), ("match_rms_adamw", 1 / 2)])
def test_report_26_scale_modes_of_muon(mode, rate):
    """NVIDIA/Megatron-LM#3715, Emerging-Optimizers#80: a mode called spectral was not invariant in width.

    Steps of hidden matrices keep their spectral size; the modes' own factors are sqrt(max(1, fan-out / fan-in)), which
    stays as the width grows fourfold, and 0.2 sqrt(max(fan-out, fan-in)), which doubles.
    """
    for build, name in ((Mlp, "blocks.1.up.weight"), (Mlp, "blocks.1.down.weight"), (Gpt, "layers.0.mix.weight")):
        sizes = {"base": BASE, "target": {"width": 128, "depth": 4}, "optimizer": f"muon:{mode}"}
        assert dl.transfer(build, **sizes, rule="mup")[name].lr_mult == pytest.approx(rate)


def test_report_27_a_resumed_run_keeps_the_bounds_of_each_group(plan):
    """NVIDIA/Megatron-LM#7173: a flag of the resumed run overwrote every group's own bounds."""

    def start(rate):
        torch.manual_seed(0)
        model = Mlp(128, 4)
        optimizer = torch.optim.AdamW(plan.param_groups(model, lr=rate, weight_decay=DECAY))
        return model, optimizer, OneCycleLR(optimizer, max_lr=plan.scale(rate, optimizer), total_steps=12)

    def go(model, optimizer, schedule, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            schedule.step()

    model, optimizer, schedule = start(RATE)
    go(model, optimizer, schedule, 5)
    held = copy.deepcopy((model.state_dict(), optimizer.state_dict(), schedule.state_dict()))
    go(model, optimizer, schedule, 5)
    again = start(0.5)
    for part, state in zip(again, held, strict=True):
        part.load_state_dict(state)
    go(*again, 5)
    plan.guard(again[1])
    assert numbers(again[1]) == numbers(optimizer)
    for p, q in zip(model.parameters(), again[0].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_report_29_more_keys_in_groups_survive(plan):
    """modelscope/ms-swift#9517: a key that a group lacked broke resuming."""
    model = Mlp(128, 4)
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=RATE, lr_mult=3.0, note="mine"))
    other = torch.optim.AdamW(plan.param_groups(Mlp(128, 4), lr=1.0, lr_mult=1.0, note=""))
    other.load_state_dict(optimizer.state_dict())
    assert {(g["lr_mult"], g["note"]) for g in other.param_groups} == {(3.0, "mine")}
    bare = optimizer.state_dict()
    for group in bare["param_groups"]:
        for key in ("lr_mult", "note", "param_names"):
            group.pop(key)
    other = torch.optim.AdamW(plan.param_groups(Mlp(128, 4), lr=1.0))
    other.load_state_dict(bare)
    plan.guard(other)  # names are those of the groups it is loaded into
    assert [g["lr"] for g in other.param_groups] == [g["lr"] for g in optimizer.param_groups]


def known():
    names = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
    return {name: names[name] for family in FAMILIES.values() for name in family if name in names and name != "muon"}


@pytest.mark.parametrize("name", known())
def test_report_35_any_optimizer_of_torch(plan, name):
    """facebookresearch/schedule_free#24, kozistr/pytorch_optimizer#384: does it work with other optimizers?"""
    own = dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 4}, rule="mup", optimizer=name)
    torch.manual_seed(0)
    model = Mlp(128, 4)
    own.apply(model, initial=True)
    optimizer = known()[name](own.param_groups(model, lr=1e-3 if name != "sgd" else 0.03))
    schedule, losses = CosineAnnealingLR(optimizer, 12), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
        schedule.step()
        own.guard(optimizer)
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert {type(group) for group in own.param_groups(model, lr=1.0)} == {dict}
