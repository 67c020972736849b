"""The coordinate check tells right rules from wrong ones, in width and in depth."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"widths": [32, 64]}, "three sizes"),
        ({}, "three sizes"),
        ({"widths": [32, 64, 128]}, "the base's depth is open"),
        ({"widths": [32, 64, 128], "base": BASE, "optimizer": "lion"}, "torch.optim has no optimizer 'lion'"),
    ],
)
def test_refused(settings, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        dl.coordinate_check(Mlp, "mup", **settings)
