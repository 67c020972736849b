"""Reports of users of other tools on depth, curves and what they can be told of them, asked of this one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.transfer.anatomy.names import in_words
from deeplimits.transfer.evidence.curves import summarise
from deeplimits.transfer.evidence.optimum import minimum
from deeplimits.transfer.evidence.side_by_side import Training, side_by_side
from deeplimits.transfer.examples import mlp
from deeplimits.transfer.examples.data import digits
from tests.transfer.models import Mlp

GRID = np.arange(-9.0, 0.0)
BASE = {"width": 32, "depth": 4}
RATES = [2.0**-k for k in (4, 6, 8)]


def bowls(centres, floors=None, seeds=4, noise=0.05):
    """Losses over the grid with their minima at the centres, seed by seed; shape (sizes, rates, seeds)."""
    rng = np.random.default_rng(0)
    centre = np.array(centres)[:, None, None] + noise * rng.standard_normal((len(centres), 1, seeds))
    floor = np.ones(len(centres)) if floors is None else np.array(floors)
    return floor[:, None, None] * np.exp(0.3 * (GRID[None, :, None] - centre) ** 2)


def cross_entropy(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def sizes(*widths):
    return [{"width": width} for width in widths]


def test_report_08_a_changed_depth_under_a_rule_for_width():
    """microsoft/mup#22: the coordinate check was fine and the large model diverged: its depth had changed as well."""
    with pytest.raises(dl.DeepLimitsError, match=r"3 times as long.* and rule 'mup' has no depth part"):
        dl.transfer(Mlp, base=BASE, target={"width": 128, "depth": 12}, rule="mup")


def test_report_09_a_shift_that_is_left_is_found():
    """microsoft/mup#66: the optimum still moved by about a step of the grid per doubling of the width."""
    found = summarise("mup", sizes(32, 64, 128), GRID.tolist(), bowls((-3, -4, -5)))
    assert found.verdict == "drifts"
    assert found.drift_low < -2 < found.drift_high < -0.75


def test_report_10_what_grows_in_the_first_steps_is_told_from_failure():
    """microsoft/mup#71: the readout's coordinate grew in the first steps. Ten small trainings; readouts are random."""
    check = dl.coordinate_check(Mlp, "mup", widths=[32, 64, 128], base={"width": 32, "depth": 2}, seeds=4)
    logits = next(c for c in check.coordinates if c.module == "logits")
    assert logits.verdict != "fail"
    assert logits.initial is not None and logits.initial.value < -0.2
    assert len(logits.earlier) == check.steps - 1


def test_report_11_deeper_and_worse_is_said():
    """microsoft/mup#54: 32 layers were worse than 16, at any learning rate."""
    depths = [{"width": 32, "depth": depth} for depth in (16, 32)]
    worse = summarise("mup", depths, GRID.tolist(), bowls((-4, -4), floors=(1.0, 1.5)))
    assert worse.verdict == "transfers"
    assert "the largest model is worse than the base" in worse.reason
    assert worse.ratio_low > 1
    better = summarise("completep", depths, GRID.tolist(), bowls((-4, -4), floors=(1.0, 0.9)))
    assert "worse" not in better.reason


def trained(model, groups, seed, steps=2):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(16, 12, generator=generator), torch.randint(3, (16,), generator=generator)
    optimizer = torch.optim.AdamW(groups)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def test_report_16_horizons_are_not_mixed(tmp_path):
    """microsoft/mup#40, #51, #64: the share of warm-up and the horizon of decay change the outcome."""

    def longer(model, groups, seed):
        return trained(model, groups, seed, steps=2 + (model.head.in_features > 32))

    plan = {"sizes": [{"width": 32, "depth": 2}, {"width": 64, "depth": 2}], "lrs": RATES, "seeds": 2}
    with pytest.raises(dl.DeepLimitsError, match="curves of different horizons are not compared"):
        dl.lr_transfer(Mlp, longer, "mup", **plan, store=tmp_path / "longer.sqlite", progress=False)


@pytest.mark.parametrize("rule", ["mup", "spectral"])
def test_report_19_updates_are_flatter_with_a_rule_than_without(rule):
    """EleutherAI/gpt-neox#956: the coordinate check was less flat under muP than under SP; the recipe was broken."""
    settings = {"widths": [32, 64, 128], "base": {"width": 32, "depth": 2}, "seeds": 3, "lr": 4e-3}
    with_rule, without = (dl.coordinate_check(Mlp, name, **settings) for name in (rule, "sp"))
    size = lambda check: max(abs(c.slope.value) for c in check.coordinates if c.module in ("blocks.last", "logits"))
    assert size(with_rule) <= 0.2
    assert size(without) >= 0.5


@pytest.mark.slow
def test_report_18_the_shift_without_a_rule_is_seen():
    """microsoft/mup#30, #52: no shift was to be seen under SP. Two octaves at least, from width 32 to 256 on digits."""
    log2_lrs, best = np.arange(-10.0, -3.0), []
    for width in (32, 256):
        size, lrs = {"width": width, "depth": 2}, (2.0**log2_lrs).tolist()
        runs = side_by_side(mlp.build, size, None, lrs, [0], cross_entropy, digits(), Training(60, 128, 5))
        best.append(minimum(log2_lrs, runs.losses(cross_entropy, *digits()))[0])
    assert best[1] - best[0] <= -2.0


def test_report_25_a_minimum_and_its_interval_at_every_width():
    """NVIDIA/Megatron-LM#3058: minima were not shown, and one width moved by a step."""
    found = summarise("mup", sizes(512, 1024, 2048), GRID.tolist(), bowls((-4, -4, -5)))
    for curve, centre in zip(found.curves, (-4, -4, -5), strict=True):
        assert curve.low <= curve.best_log2_lr <= curve.high
        assert curve.best_log2_lr == pytest.approx(centre, abs=0.1)
        assert f"{in_words(curve.size)}: best 2^{curve.best_log2_lr:+.2f} [{curve.low:+.2f}, " in str(found)
    assert found.span == pytest.approx(1, abs=0.2)


JOINT = [{"width": 32, "depth": 4}, {"width": 64, "depth": 8}]


def test_report_32_width_and_depth_at_once_with_any_exponent():
    """marin-community/marin#5178: branches scaled by L^-1/2; the optimum moved to half in a joint sweep."""
    found = summarise("depth_mup", JOINT, GRID.tolist(), bowls((-4, -5)))
    assert found.verdict == "drifts"
    plan = dl.transfer(Mlp, base=JOINT[0], target=JOINT[1], alpha=0.75)
    assert plan["blocks.7.down.weight"].init_ratio == pytest.approx(2**-0.5 * 2**-0.75)
    assert plan["blocks.7.up.weight"].lr_mult == pytest.approx(2**-1 * 2**-0.25)


def test_report_34_transfer_is_promised_and_no_better_loss():
    """karpathy/nanochat#644: muP lost slightly to a standard parametrization tuned at its own size."""
    found = summarise("mup", sizes(64, 128), GRID.tolist(), bowls((-4, -4), floors=(1.0, 1.02)))
    assert found.verdict == "transfers"
    assert found.loss_ratio == pytest.approx(1.02, abs=0.02)


def test_report_37_a_sweep_of_any_objective(tmp_path):
    """optuna#5388: declined there as a matter of applications; here any function of model, groups and seed is swept."""

    def objective(model, groups, seed):
        rate = max(group["lr"] for group in groups)
        return float((np.log2(rate) + 5) ** 2 + 1 + 0.01 * seed)

    store = f"sqlite:///{tmp_path}/any.sqlite"
    found = dl.lr_transfer(Mlp, objective, sizes=JOINT, lrs=RATES, seeds=2, alpha=0.75, store=store, progress=False)
    assert [dict(curve.size) for curve in found.curves] == JOINT
    assert [curve.best_log2_lr for curve in found.curves] == pytest.approx([-5, -5], abs=0.2)
    assert found.verdict == "transfers"
