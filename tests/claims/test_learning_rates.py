"""What the claims about learning rates compute, beside plain gradient descent and exhaustive search."""

from math import inf, sqrt

import numpy as np
import pytest
import torch

from deeplimits.claims import hayou_2025_mup_proof as linear
from deeplimits.claims import residual
from deeplimits.claims import yang_hu_2020_tp4 as tp4
from deeplimits.claims.agreement import quantile
from deeplimits.claims.residual import Sweep
from deeplimits.transfer.evidence.side_by_side import Training
from deeplimits.transfer.exponents.abc_parametrization import FEATURES, KERNEL, TRIVIAL, UNSTABLE


def test_best_rates_are_those_of_the_claim_s_problem():
    """The limit minimises the limiting loss: f moves by rate (L/m) K y, and the loss is a parabola."""
    X, y = linear.problem()
    K, best = X @ X.T / linear.FEATURES, linear.sampled("mup", ((32, 4), (64, 3)), 1)

    def loss(rate):
        return np.sum((rate * linear.HIDDEN / linear.ROWS * K @ y - y) ** 2)

    assert loss(best.limit) < min(loss(0.999 * best.limit), loss(1.001 * best.limit))
    assert [len(rates) for rates in best.rates] == [4, 3]


@pytest.mark.parametrize(
    ("exponents", "expected"),
    [((0.1, 0.0), FEATURES), ((-0.55, 0.1), KERNEL), ((-1.0, -0.4), TRIVIAL), ((0.0, 0.6), UNSTABLE)],
)
def test_classes_of_measured_exponents(exponents, expected):
    assert tp4.regime(*exponents) == expected


def test_predicted_exponents_of_outputs_fit_the_classes():
    for kind in tp4.TABLE.values():
        assert tp4.regime(-kind.r, tp4.output_exponent(kind)) == kind.regime


def sweep(best, at_edge=False):
    losses = np.ones((3, len(best)))
    return Sweep((32, 4), (-3.0, -2.0, -1.0), losses, np.array(best), np.ones(len(best)), at_edge)


def test_a_drift_has_its_error_and_none_at_an_edge():
    found = residual.drift(sweep([-3.0, -2.0, -2.5]), sweep([-2.0, -1.5, -1.0]))
    assert found.value == 1.0
    assert found.error == pytest.approx(0.5 / sqrt(3))
    assert residual.drift(sweep([-3.0, -2.0]), sweep([-2.0, -1.0], at_edge=True)).error == inf
    assert quantile(3) > quantile()


def test_sweeps_cap_losses_at_chance_and_find_each_seed_s_minimum():
    training = Training(steps=12, batch=32, warmup=2)
    rates = (-8.0, -5.0, -2.0, 1.0, 4.0)
    found = residual.sweep(residual.build(), (32, 4), (32, 4), "depth_mup", rates, [0, 1], training)
    assert found.losses.shape == (5, 2)
    assert found.losses.max() == residual.CHANCE
    assert not found.at_edge
    assert ((found.best > -6.5) & (found.best < -0.5)).all()
    assert (found.lowest < 1.5).all()


def test_blocks_of_one_layer_add_branches_of_mean_zero():
    model = residual.build(torch.abs)(width=16, depth=2)
    states = model.states(torch.randn(5, 64, generator=torch.Generator().manual_seed(0)))
    change = (states[1] - states[0]).detach()
    assert len(states) == 3
    assert change.abs().mean() > 0.1
    assert change.mean(-1).abs().max() < 1e-5
