"""Optional rules: batch size, tokens and weight decay, off where nothing is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.budget import Budget, decays, optional
from deeplimits.transfer.plan import Plan
from tests.transfer.models import Mlp

WIDE = {"base": {"width": 32, "depth": 4}, "target": {"width": 128, "depth": 4}}
BOTH = {"batch": (64, 1024), "tokens": (1e6, 4e6)}  # r = 16 and 4: steps x 1/4
BETAS = (0.9, 0.95)


def plan_of(**settings):
    return dl.transfer(Mlp, **WIDE, **({"rule": "mup"} | settings))


def group(plan, name, **settings):
    found = plan.param_groups(Mlp(128, 4), lr=1e-3, weight_decay=0.1, **settings)
    return next(group for group in found if name in group["param_names"])


def test_off_by_default_and_said():
    plan = plan_of()
    assert (plan.batch, plan.tokens, plan.budget) == (None, None, Budget())
    assert "rules for batch size and tokens are off" in plan.explain()
    assert "betas" not in group(plan, "read_in.weight")


def test_the_form_of_one_stochastic_differential_equation():
    """AdamW: LR sqrt(B / D), eps its inverse, 1 - beta and (timescale) LR times decay B / D, on top of the width's."""
    plain, plan = plan_of(), plan_of(**BOTH, decay="timescale")
    for name in ("read_in.weight", "blocks.1.up.weight", "head.weight"):
        row, other = plan[name], plain[name]
        assert row.lr_mult == pytest.approx(other.lr_mult * 2)
        assert row.eps_mult == pytest.approx(other.eps_mult / 2)
        assert row.lr_mult * row.decay_mult == pytest.approx(other.lr_mult * other.decay_mult * 4)
        assert row.init_ratio == other.init_ratio
    assert group(plan, "head.weight", betas=BETAS)["betas"] == pytest.approx((0.9**4, 0.95**4))
    assert "experimental: batch x 16, tokens x 4" in plan.explain()


def test_families():
    alpha = group(plan_of(batch=(1, 4), optimizer="rmsprop"), "head.weight", alpha=0.99)["alpha"]
    assert alpha == pytest.approx(0.99**4)
    assert plan_of(batch=(1, 16), optimizer="sgd")["head.weight"].lr_mult == pytest.approx(16 / 4)
    assert plan_of(batch=(1, 16), optimizer="muon")["blocks.1.up.weight"].lr_mult == pytest.approx(4)
    assert "betas" not in group(plan_of(batch=(1, 16), optimizer="sgd"), "head.weight")


# decay: (LR times decay of a hidden matrix at 4 times the width, the same with a quarter of the steps)
PRODUCTS = {"coupled": (1, 1), "independent": (1, 1), "independent_width": (1 / 4, 1 / 4), "timescale": (1, 4)}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_a_step_takes_from_the_weights(name):
    for place, settings in enumerate(({}, BOTH)):
        row = plan_of(decay=name, **settings)["blocks.1.up.weight"]
        taken = row.decay_mult * (row.lr_mult if decays()[name].per_rate else 1)
        assert taken == pytest.approx(PRODUCTS[name][place])


def test_independent_width_is_torch_left_alone():
    """Under AdamW, decay that is left alone falls with the learning rate: 1/width for hidden matrices."""
    row = plan_of(decay="independent")["blocks.1.up.weight"]
    assert row.lr_mult * row.decay_mult == plan_of(decay="independent_width")["blocks.1.up.weight"].decay_mult


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_step_of_coupled_decay_is_the_same_at_every_width(optimizer):
    """What torch's decay takes from a matrix in a step, with a zero gradient."""
    taken = []
    for width in (128, 512):
        plan = dl.transfer(Mlp, **{**WIDE, "target": {"width": width, "depth": 4}}, rule="mup", optimizer=optimizer)
        model = Mlp(width, 4)
        kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
        trainer = kind(plan.param_groups(model, lr=0.1, weight_decay=0.1))
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        before = model.head.weight.detach().clone()
        trainer.step()
        ratio = model.head.weight.detach() / before
        taken.append(float(1 - ratio.mean()))
    assert taken[0] == pytest.approx(0.01, rel=1e-4)
    assert taken[1] == pytest.approx(taken[0], rel=1e-4)


def test_the_noise_of_an_sgd_run_is_the_same():
    """One quadratic with noisy gradients: LR x r and 1/r of the steps reach the same mean and variance (report 7)."""
    curvature, rate, steps, r = 1.0, 0.002, 400, 4
    means = []
    for batch in (1, r):
        lr, count = rate * Budget(batch=batch).lr("sgd"), steps // batch
        mean, variance = 1.0, 0.0
        for _ in range(count):
            mean *= 1 - lr * curvature
            variance = (1 - lr * curvature) ** 2 * variance + lr**2 / batch
        means.append((mean, variance))
    assert means[1] == pytest.approx(means[0], rel=0.01)


def test_saved_and_read(tmp_path):
    plan = plan_of(**BOTH)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_the_hybrid_follows():
    plan = plan_of(batch=(1, 16))
    rates = {"muon": 0.02, "adamw": 1e-3}
    with pytest.raises(dl.DeepLimitsError, match="pass betas="):
        plan.optimizers(Mlp(128, 4), lr=rates)


@pytest.mark.parametrize("name", [*optional(), *decays()])
def test_every_file_is_explained_with_known_sources(name):
    text = dl.transfer.explain(name)
    rule = optional().get(name) or decays()[name]
    assert rule.words in text and rule.valid in text
    bib = (Path(dl.__file__).parent / "references.bib").read_text()
    assert rule.source and all(f"{{{key}," in bib for key in rule.source)
    assert rule.valid.startswith("experimental") == (name not in ("coupled", "independent"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": (64, 0)}, r"batch=\(64, 0\)"),
        ({"batch": 64}, "batch=64"),
        ({"tokens": (1e9, float("nan"))}, "tokens="),
        ({"decay": "timescales"}, "did you mean 'timescale'"),
    ],
)
def test_refused(settings, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        plan_of(**settings)


def test_betas_of_the_base_are_asked_for():
    with pytest.raises(dl.DeepLimitsError, match="the base's are not given"):
        group(plan_of(batch=(1, 16)), "head.weight")
