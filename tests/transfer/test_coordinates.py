"""The coordinate check tells right rules from wrong ones, in width and in depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import deeplimits as dl
from deeplimits.numerics.fit import slope
from deeplimits.transfer.evidence.coordinates import FLOOR
from deeplimits.transfer.plan_table import merged
from tests.transfer.models import Gpt, Mlp

BASE = {"width": 32, "depth": 4}


def slopes(check):
    return {c.module: c.slope.value for c in check.coordinates}


@pytest.mark.slow
def test_width():
    """Bars: |exponent| <= 0.2 under the rule, >= 0.5 for the stream and the logits under SP. Forty small trainings."""
    right = dl.coordinate_check(Mlp, "mup", widths=[32, 64, 128, 256], base=BASE, seeds=5)
    assert right.verdict == "pass"
    assert max(abs(value) for value in slopes(right).values()) <= 0.2
    wrong = dl.coordinate_check(Mlp, "sp", widths=[32, 64, 128, 256], base=BASE, seeds=5)
    assert wrong.verdict == "fail"
    assert wrong.coordinates[0].module in ("head", "logits")
    assert min(slopes(wrong)[name] for name in ("blocks.last", "logits")) >= 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "alpha"), [("depth_mup", 0.5), ("completep", 1.0)])
def test_depth(rule, alpha):
    """The stream keeps its update; branches end between 1/depth and depth^-alpha. Twenty small trainings."""
    check = dl.coordinate_check(Mlp, rule, depths=[4, 8, 16, 32], base=BASE, seeds=5)
    found = slopes(check)
    assert max(abs(found[name]) for name in ("blocks.last", "logits", "read_in", "norm")) <= 0.2
    ends = [c for c in check.coordinates if c.module in ("blocks.middle.down", "blocks.last.down")]
    assert [c.predicted for c in ends] == [(-1, -alpha)] * 2
    assert all(-1.2 <= c.slope.value <= -alpha + 0.2 for c in ends)
    assert not any(c.verdict == "fail" for c in check.coordinates)


def test_depth_without_a_rule():
    check = dl.coordinate_check(Mlp, "sp", depths=[4, 8, 16, 32], base=BASE, seeds=5)
    assert check.verdict == "fail"
    assert slopes(check)["blocks.last"] >= 0.5
    for found in check.coordinates:
        drawn = slope(found.sizes, found.updates, np.maximum(found.errors, FLOOR * np.array(found.updates)))
        assert found.slope.value == pytest.approx(drawn.value, abs=1e-12), found.module
    assert "updates do not keep their size" in str(check)


def test_transformers_and_a_batch_of_ones_own():
    batch = torch.randint(17, (4, 6)), torch.randint(17, (4, 6))
    check = dl.coordinate_check(
        lambda width, depth: Gpt(width, depth, heads=width // 8),
        "mup",
        widths=[32, 64, 128],
        base={"width": 32, "depth": 2},
        batch=batch,
        optimizer="adam",
        seeds=3,
    )
    assert "layers.last" in slopes(check)
    assert check.to_dict()["verdict"] == check.verdict


def test_an_initial_size_that_falls_by_design_is_a_transient():
    """muP shrinks the logits of a random readout as width^-1/2; their updates keep their size."""

    def build(width):
        return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3, bias=False))

    check = dl.coordinate_check(build, "mup", widths=[32, 64, 128, 256, 512], base={"width": 32}, seeds=8)
    (logits,) = [c for c in check.coordinates if c.module == "logits"]
    assert logits.verdict == "pass"
    assert logits.initial.value == pytest.approx(-0.5, abs=0.2)
    assert logits.transient.startswith("transient at t = 0: size width^-0.")
    assert len(logits.activations) == check.steps + 1
    assert len(logits.activations[0]) == 5
    assert "transient" in str(check)


class Twice(nn.Module):
    """One activation module called at two places, and a layer that no gradient reaches."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.act = nn.Linear(6, width), nn.Linear(width, width), nn.Tanh()
        self.aside, self.head = nn.Linear(6, width), nn.Linear(width, 3)

    def forward(self, x):
        h = self.act(self.first(x)) + 0 * self.aside(x).detach()
        return self.head(self.act(self.second(h)))


def test_repeated_modules_are_separate_and_still_ones_named():
    check = dl.coordinate_check(Twice, "mup", widths=[32, 64, 128], base={"width": 32}, seeds=2, steps=2)
    names = {c.module for c in check.coordinates}
    assert {"act", "act (call 2)"} <= names
    assert check.still == ("aside",)
    assert "aside did not move" in str(check)


def test_the_audit_comes_first():
    check = dl.coordinate_check(Twice, "mup", widths=[32, 64, 128], base={"width": 32}, seeds=2, steps=1)
    (found,) = check.audits
    assert str(check).startswith(str(found))
    assert found.values == 6 * 128 * 2 + 128**2 + 128 * 3 + 128 * 3 + 3
    assert found.growing == pytest.approx(1 - 3 / found.values)
    assert {role for role, *_ in found.roles} == {"input", "hidden", "output", "gain or bias", "fixed vector"}


def test_blocks_of_equal_numbers_are_one_line():
    plan = dl.transfer(Mlp, BASE, {"width": 64, "depth": 16}, "completep")
    rows = {row.name: count for row, count in merged(plan.rows)}
    assert rows["blocks.*.down.weight"] == 16
    assert rows["head.weight"] == 1
    assert sum(rows.values()) == len(plan.rows)


def test_real_targets_and_a_batch_of_the_seed():
    def batch(seed):
        x = torch.randn(16, 12, generator=torch.Generator().manual_seed(seed))
        return x, x[:, :3]

    check = dl.coordinate_check(Mlp, "mup", widths=[32, 64, 128], base=BASE, batch=batch, seeds=2, steps=2)
    assert all(c.slope.value == pytest.approx(0, abs=0.5) for c in check.coordinates if c.module == "logits")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"widths": [32, 64]}, "three sizes"),
        ({}, "three sizes"),
        ({"widths": [32, 64, 128]}, "the base's depth is open"),
        ({"widths": [32, 64, 128], "base": BASE, "optimizer": "lion"}, "torch.optim has no optimizer 'lion'"),
        ({"widths": [32, 64, 128], "base": BASE, "seeds": 1}, "give 2 or more"),
        ({"widths": [32, 64, 128], "base": BASE, "lr": 1e30, "seeds": 2}, "not finite at width 32"),
        ({"widths": [32, 64, 128], "base": BASE, "batch": (torch.ones(4, 12), torch.ones(5, dtype=int))}, "do not fit"),
    ],
)
def test_refused(settings, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        dl.coordinate_check(Mlp, "mup", **settings)
