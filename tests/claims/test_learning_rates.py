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


def descent(net, gain, rate, steps):
    """Return the loss of a linear network whose hidden matrices are trained by plain gradient descent."""
    y = torch.from_numpy(linear.problem()[1]).float()
    weights = [matrix.clone().requires_grad_() for matrix in net.hidden]

    def loss():
        h = net.first
        for matrix in weights:
            h = matrix @ h
        return ((gain * net.readout) @ h - y).square().mean() / 2

    for _ in range(steps):
        gradients = torch.autograd.grad(loss(), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= rate * gradient
    return loss().item()


@pytest.mark.parametrize("steps", [1, 3])
def test_losses_of_linear_networks_are_those_of_gradient_descent(steps):
    """Float32 rounding of sums over 32 neurons: 1e-4."""
    net, rates = linear.drawn(32, seed=1), [0.3, 1.0, 2.0]
    found = linear.trained_losses(net, 1.0, torch.tensor(rates), steps)
    expected = [descent(net, 1.0, rate, steps) for rate in rates]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)


@pytest.mark.parametrize("gain", [1.0, sqrt(32)])
def test_the_best_rate_of_one_step_is_found_exactly(gain):
    """No rate of a fine grid does better than rounding: 1e-5 of the loss."""
    net = linear.drawn(32, seed=2)
    best = linear.best_of_one_step(net, gain)
    grid = torch.tensor(best * np.geomspace(0.01, 10.0, 400)).float()
    at_best = linear.trained_losses(net, gain, torch.tensor([best]), 1).item()
    assert linear.trained_losses(net, gain, grid, 1).min().item() >= at_best * (1 - 1e-5)


def test_the_limit_of_the_best_rate_minimises_the_limiting_loss():
    """At infinite width f moves by rate (L/m) K y: the loss is a parabola in the rate."""
    X, y = linear.problem()
    K, best = X @ X.T / linear.FEATURES, float(linear.limit(y))

    def loss(rate):
        return np.sum((rate * linear.HIDDEN / linear.ROWS * K @ y - y) ** 2)

    assert loss(best) < min(loss(0.999 * best), loss(1.001 * best))


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
