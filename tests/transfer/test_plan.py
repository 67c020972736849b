"""What a plan does to a model, an optimizer and a file, and what it refuses."""

from __future__ import annotations

import copy
import pydoc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.rule import Powers, get
from tests.transfer.models import Block, Gpt, Mlp, PostNorm, Twisted

BASE, TARGET = {"width": 32, "depth": 4}, {"width": 128, "depth": 16}


@pytest.fixture(scope="module")
def plan():
    return dl.transfer(Mlp, base=BASE, target=TARGET)


def fresh(seed=0):
    torch.manual_seed(seed)
    return Mlp(**TARGET)


def rms(p):
    return float(p.detach().double().square().mean().sqrt())


def test_initial_values_have_the_planned_size(plan):
    torch.manual_seed(1)
    base, target = dict(Mlp(**BASE).named_parameters()), fresh()
    plan.apply(target, initial=True)
    for name, p in target.named_parameters():
        parts = name.split(".")
        other = ".".join([parts[0], "0", *parts[2:]]) if parts[0] == "blocks" else name
        error = 5 * (p.numel() ** -0.5 + base[other].numel() ** -0.5)
        assert rms(p) == pytest.approx(rms(base[other]) * plan[name].init_ratio, rel=error)


def test_a_constant_standard_deviation_lands_alike():
    """Hugging Face's constant 0.02 and nn.Linear's 1/sqrt(fan-in) end at the base's size times the rule."""

    def build(width, depth):
        model = Mlp(width, depth)
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        return model

    row = dl.transfer(build, base=BASE, target=TARGET)["blocks.0.up.weight"]
    assert (row.init_ratio, row.init_mult) == (0.5, 0.5)


def test_an_initial_size_that_falls_with_depth_is_not_counted_twice():
    """GPT-2's 1/sqrt(2 L) is frozen at the base's depth: the branch gets m_L^-alpha and nothing more."""

    def build(width, depth):
        model = Mlp(width, depth)
        with torch.no_grad():
            for block in model.blocks:
                block.down.weight.mul_((2 * depth) ** -0.5)
        return model

    row = dl.transfer(build, base=BASE, target={**BASE, "depth": 16})["blocks.0.down.weight"]
    assert row.init_ratio == pytest.approx(1 / 4)
    assert row.init_mult == pytest.approx(1 / 4 / (1 / 2))


def test_two_instances_resolve_at_apply(plan):
    with torch.device("meta"):
        large = Mlp(**TARGET)
    torch.manual_seed(0)
    other = dl.transfer(large, base=Mlp(**BASE))
    assert {row.init_mult for row in other.rows} == {None}
    done = other.apply(fresh(), initial=True)
    for row in done.rows:
        assert row.init_mult == pytest.approx(plan[row.name].init_mult, rel=5 * np.prod(row.shape) ** -0.5 + 0.2)
        assert (row.lr_mult, row.eps_mult) == (plan[row.name].lr_mult, plan[row.name].eps_mult)


def test_groups(plan):
    model = fresh()
    groups = plan.param_groups(model, lr=2e-3, weight_decay=0.1)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    by_name = {name: group for group in groups for name in group["param_names"]}
    assert by_name["blocks.3.up.weight"]["lr"] == pytest.approx(2e-3 / 4)
    assert by_name["blocks.3.up.weight"]["weight_decay"] == pytest.approx(0.4)
    assert by_name["blocks.3.up.bias"]["weight_decay"] == by_name["norm.weight"]["weight_decay"] == 0
    rate = torch.tensor(2e-3)
    tensors = plan.param_groups(model, lr=rate)
    assert len({id(group["lr"]) for group in tensors}) == len(tensors)
    assert float(rate) == pytest.approx(2e-3)


def test_wrapped_models_have_the_same_groups(plan):
    model = fresh()
    plain = plan.param_groups(model, lr=1.0)
    for other in (torch.compile(model), nn.DataParallel(model), copy.deepcopy(model)):
        groups = plan.param_groups(other, lr=1.0)
        assert [(g["lr"], g["param_names"]) for g in groups] == [(g["lr"], g["param_names"]) for g in plain]


def test_state_survives_saving_and_meta(plan, tmp_path):
    model = fresh()
    plan.apply(model, initial=True)
    with torch.device("meta"):
        other = Mlp(**TARGET)
    other.load_state_dict(model.state_dict(), assign=True)
    x = torch.randn(2, 12)
    torch.testing.assert_close(model(x), other(x))
    optimizer = torch.optim.AdamW(plan.param_groups(other, lr=1e-3))
    again = torch.optim.AdamW(plan.param_groups(model, lr=5.0))
    again.load_state_dict(optimizer.state_dict())
    plan.guard(again)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_explained(plan):
    text = plan.explain()
    assert "completep" in text and "dey-2025-completep" in text
    for name in ("read_in.weight", "blocks.15.down.bias", "head.weight"):
        assert name in text
    assert "init multiplies the model's own initial values; the init in why is the rule's" in text


def test_printed(plan):
    """Blocks of equal numbers share a line: as many lines at any depth."""
    text = str(plan)
    assert "blocks.*.down.weight (16)" in text and "blocks.15" not in text and text == plan.explain(every=False)
    assert len(text.splitlines()) == len(plan.explain().splitlines()) - 15 * 6
    assert len(repr(plan)) < 200 and "completep, adamw" in repr(plan) and "102 parameters" in repr(plan)
    sam = dl.transfer(Mlp, base=BASE, target={**BASE, "width": 128}, rule="mup2_sam")
    assert "blocks.*.up.weight (4)" in str(sam) and "SAM" in str(sam)


def test_plans_have_a_public_name():
    assert dl.transfer.Plan is Plan
    for argument in ("transfer(model, base", "optimizer='adamw'", "fixed: patterns of names"):
        assert argument in pydoc.render_doc(dl.transfer)


def test_growing_heads_are_said():
    wide = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
    assert any("4 heads of 8 become 4 of 32" in note for note in dl.transfer(Gpt, **wide).notes)
    more = dl.transfer(lambda width, depth: Gpt(width, depth, heads=width // 8), **wide)
    assert any("4 heads of 8 become 16 of 8" in note for note in more.notes)


def test_what_grows_is_said(plan):
    assert "100.0 % of the parameters" in plan.notes[0]
    narrow = dl.transfer(Mlp, base={"width": 16, "depth": 4}, target={"width": 32, "depth": 4})
    assert any("16 wide" in note for note in narrow.notes)


def test_scales_of_perturbations_are_in_the_plan(plan):
    sam = dl.transfer(Mlp, base=BASE, target={**TARGET, "depth": 4}, rule="mup2_sam")
    assert sam.perturbations()["read_in.weight"] == pytest.approx(2)
    assert sam.perturbations()["head.weight"] == pytest.approx(1 / 2)
    assert "SAM" in sam.explain().splitlines()[-len(sam.rows) - 1] and "SAM" not in plan.explain()
    with pytest.raises(dl.DeepLimitsError, match="says nothing of the perturbation"):
        plan.perturbations()
    with pytest.raises(dl.DeepLimitsError, match=r"plan\.sam\(optimizer"):
        dl.transfer(Mlp, base=BASE, target=TARGET, optimizer="sam")


def test_a_rule_of_ones_own(plan, tmp_path):
    """An object in place of a name: everything that asks for the plan's rule finds it, unless its name is taken."""
    own = replace(get("mup"), name="own", init=Powers(fan_in=-0.5), words="muP with the readout of SP")
    found = dl.transfer(Mlp, base=BASE, target={**TARGET, "depth": 4}, rule=own)
    assert found.parametrization == own
    assert found["head.weight"].init_ratio == 1 / 2
    assert found.optimizers(Mlp(128, 4), lr={"muon": 0.02, "adamw": 1e-3})
    with pytest.raises(dl.DeepLimitsError, match="is called 'mup' already"):
        dl.transfer(Mlp, base=BASE, target=TARGET, rule=replace(own, name="mup"))


def test_optimizers_by_their_class(plan):
    assert dl.transfer(Mlp, base=BASE, target=TARGET, optimizer=torch.optim.AdamW).rows == plan.rows


def test_what_cannot_be_read_is_said(plan, tmp_path):
    for text in ("{", "[]", None):
        path = tmp_path / "plan.json"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        with pytest.raises(dl.DeepLimitsError, match="Plan"):
            Plan.load(path)
    plain = torch.optim.AdamW(fresh().parameters())
    with pytest.raises(dl.DeepLimitsError, match="no parameter names"):
        plan.guard(plain)
    for lr in ("a", -1.0, float("nan")):
        with pytest.raises(dl.DeepLimitsError, match="base's learning rate"):
            plan.param_groups(fresh(), lr=lr)
    with pytest.raises(dl.DeepLimitsError, match=r"weight_decay=-0.1\. Fix: give the base's weight decay"):
        plan.param_groups(fresh(), lr=1.0, weight_decay=-0.1)
    with torch.device("meta"):
        empty, small = Mlp(**TARGET), Mlp(**BASE)
    with pytest.raises(dl.DeepLimitsError, match="meta device"):
        plan.apply(empty, initial=True)
    with pytest.raises(dl.DeepLimitsError, match="build the base on the CPU"):
        dl.transfer(empty, base=small)


def trained():
    model = fresh()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)
    return model


def ignoring(width, depth):
    return Mlp(32, 4)


def mismatched(width, depth):
    model = Mlp(width, depth)
    if width > 32:
        model.extra = nn.Linear(3, 3)
    return model


def test_applied_once_to_initial_weights(plan):
    model = fresh()
    plan.apply(model, initial=True)
    for weights, words in ((model, "already have the planned"), (trained(), "do not have the size of initial values")):
        with pytest.raises(dl.DeepLimitsError, match=words):
            plan.apply(weights, initial=True)
    with pytest.raises(dl.DeepLimitsError, match="initial=False"):
        plan.apply(fresh(), initial=False)
    with pytest.raises(dl.DeepLimitsError, match="not the plan's target"):
        plan.apply(Gpt(32, 4), initial=True)
    with pytest.raises(dl.DeepLimitsError, match="has shape"):
        plan.param_groups(Mlp(64, 16), lr=1.0)


def block_of(kind):
    return lambda width, depth: Mlp(width, depth, block=kind)


DEEPER = {"base": BASE, "target": {"width": 32, "depth": 8}}
REFUSED = {
    "ignores its arguments": (ignoring, {"base": BASE, "target": TARGET}, {}, "same width in every dimension"),
    "ignores the depth": (lambda width, depth: Mlp(width, 4), {"base": BASE, "target": TARGET}, {}, "doubling depth"),
    "names": (mismatched, {"base": BASE, "target": TARGET}, {}, "extra.weight"),
    "same": (Mlp, {"base": BASE, "target": BASE}, {}, "same width in every dimension"),
    "depth under a width rule": (Mlp, {"base": BASE, "target": TARGET}, {"rule": "mup"}, "has no depth part"),
    "post-norm": (block_of(PostNorm), DEEPER, {}, "is not the identity"),
    "not linear": (block_of(Twisted), DEEPER, {}, "not linear in"),
    "optimizer": (Mlp, {"base": BASE, "target": TARGET}, {"optimizer": "sophia"}, "of no known family"),
    "decay": (Mlp, {"base": BASE, "target": TARGET}, {"decay": "both"}, "coupled, independent"),
    "sizes": (Mlp, {"base": BASE, "target": {"width": 64}}, {}, "depth is given for one"),
    "no target": (Mlp, {"base": BASE}, {}, "pass transfer"),
    "alpha": (Mlp, {"base": BASE, "target": TARGET}, {"alpha": -1.0}, "alpha=-1.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    build, sizes, settings, words = REFUSED[case]
    with pytest.raises(dl.DeepLimitsError, match=words):
        dl.transfer(build, **sizes, **settings)


def test_the_depth_part_of_any_block_class():
    plan = dl.transfer(block_of(Block), **DEEPER)
    assert plan["blocks.7.down.weight"].branch_output
    assert not plan["blocks.7.up.weight"].branch_output
