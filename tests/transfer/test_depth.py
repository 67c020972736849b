"""The classification of powers of the depth, against the paper's, the rules' own powers, and measured exponents."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from deeplimits.transfer.exponents.depth import depth_class
from deeplimits.transfer.exponents.depth_measured import feature_diversity
from deeplimits.transfer.rule import get

# (alpha, gamma, optimizer): stable, faithful, feature learning, redundant
TABLE = {
    (0.5, 0.5, "adamw"): (True, True, True, False),
    (0.5, 0.0, "sgd"): (True, True, True, False),
    (0.5, 0.5, "muon"): (True, True, True, False),
    (0.75, 0.25, "adamw"): (True, True, True, True),
    (1.0, 0.0, "adamw"): (True, True, True, True),
    (1.0, -1.0, "sgd"): (True, True, True, True),
    (1.5, -0.5, "adamw"): (True, False, True, True),
    (0.5, 1.0, "adamw"): (True, True, False, False),
    (1.0, 1.0, "adamw"): (True, True, False, True),
    (0.5, 0.0, "adamw"): (False, False, False, False),
    (0.0, 1.0, "adamw"): (False, False, False, False),
}


@pytest.mark.parametrize("powers", TABLE)
def test_table(powers):
    found = depth_class(*powers)
    assert (found.stable, found.faithful, found.feature_learning, found.redundant) == TABLE[powers]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_depth_mup_is_the_only_one_that_learns_and_is_diverse(optimizer):
    """Of all pairs of powers on a grid."""
    grid = [k / 8 for k in range(-16, 17)]
    found = [depth_class(a, g, optimizer) for a in grid for g in grid]
    best = [c for c in found if c.feature_learning and c.faithful and not c.redundant]
    assert [(c.alpha, c.gamma) for c in best] == [(0.5, 0.0 if optimizer == "sgd" else 0.5)]
    whole = [c for c in found if c.feature_learning and c.faithful and not c.lazy_layers]
    assert [(c.alpha, c.gamma) for c in whole] == [(1.0, -1.0 if optimizer == "sgd" else 0.0)]


@pytest.mark.parametrize("rule", ["depth_mup", "completep"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_the_rules_learn_features(rule, optimizer):
    """The powers that plans use for blocks: LR m_L^(alpha - 1), for SGD m_L^(2 alpha - 1)."""
    alpha = get(rule).alpha
    found = depth_class(alpha, 1 - 2 * alpha if optimizer == "sgd" else 1 - alpha, optimizer)
    assert found.feature_learning and found.faithful
    assert found.redundant == (rule == "completep")
    assert found.lazy_layers == (rule == "depth_mup")


MEASURED = [powers for powers in TABLE if powers[0] >= 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("powers", MEASURED)
def test_measured_exponents(powers):
    """Depths 16 to 128, all ten pairs, 6 networks of each depth; within 0.15 or three standard errors."""
    found = depth_class(*powers).measure(depths=(16, 32, 64, 128), width=32, seeds=6)
    stable = found.predicted.stable
    for name in ("initial", "layer", "learned", "variation") if stable else ("initial", "layer"):
        fit, expected = getattr(found, name), getattr(found.predicted, name)
        assert abs(fit.value - expected) <= max(0.15, 3 * fit.standard_error), name
    if not stable:
        assert found.learned.low > 0.2
    assert str(found.predicted) in str(found)


def test_diversity_of_a_walk_and_of_a_curve():
    draw = torch.Generator().manual_seed(0)
    walks = [torch.randn(257, 8, 32, generator=draw).cumsum(0) for _ in range(6)]
    assert feature_diversity(walks).value == pytest.approx(0.5, abs=0.05)
    time = torch.linspace(0, 1, 257)[:, None, None]
    curves = [torch.sin(time * torch.randn(8, 32, generator=draw)) for _ in range(6)]
    assert feature_diversity(curves).value == pytest.approx(1.0, abs=0.05)


def test_diversity_of_trained_networks():
    """Half of the noise's and 1 for what is learned, at 128 blocks; a vanishing variation tells them apart as well."""
    brown, smooth = (
        depth_class(a, g).measure(depths=(32, 64, 128), width=32, seeds=4) for a, g in ((0.5, 0.5), (1.0, 0.0))
    )
    assert brown.diversity.value == pytest.approx(0.5, abs=0.15)
    assert smooth.diversity.value >= 0.75
    assert smooth.variation.high < -0.5 < brown.variation.low


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dl.transfer.depth_class("a", 0.0), "alpha='a'"),
        (lambda: dl.transfer.depth_class(0.5, float("nan")), "gamma=nan"),
        (lambda: dl.transfer.depth_class(0.5, 0.5, "sophia"), "of no known family"),
        (lambda: dl.transfer.depth_class(0.5, 0.5).measure(depths=(4, 8)), "three or more depths"),
        (lambda: feature_diversity([torch.zeros(4, 2)]), "3 blocks"),
    ],
)
def test_refused(call, words):
    with pytest.raises(dl.DeepLimitsError, match=words):
        call()
