"""Residual networks in the mean-field limit beside trained networks, at finite and infinite depth."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import inf

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.finite.train import Descent, train
from deeplimits.limits.training.mean_field.residual_noise import Shared, quasi
from tests.limits.refusal import refused

RNG = np.random.default_rng(0)
X, X_TEST = RNG.standard_normal((2, 5)), RNG.standard_normal((3, 5))
Y = np.array([1.0, -1.0])
PLAIN, TANH = dl.ResNet("identity"), dl.ResNet("tanh")
RICH = {
    "weight_std": 1.3, "bias_std": 0.4, "readin_std": 0.8, "readin_bias_std": 0.3, "readout_std": 1.2,
    "readout_bias_std": 0.5, "scale": 0.7 * dl.DEPTH**-0.5, "outputs": 2,
}  # fmt: skip


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def pairs_of_networks(x, y, depth, width, steps, rate, gamma, pairs):
    """Outputs of linear networks over time, averaged over a network and that with the opposite readout; (pairs, T).

    Blocks keep their first matrix and the changes of rank one.
    """
    found, scale = [], (depth * width) ** -0.5
    for seed in range(pairs):
        rng = np.random.default_rng(seed)
        start, blocks = rng.standard_normal((width, len(x))), rng.standard_normal((depth, width, width))
        readout = rng.standard_normal(width)
        for sign in (1, -1):
            first, w, outputs = start, sign * readout, []
            lefts, rights = np.empty((2, depth, steps + 1, width))
            for t in range(steps + 1):
                h = [first @ x / len(x) ** 0.5]
                for block, left, right in zip(blocks, lefts[:, :t], rights[:, :t], strict=True):
                    h.append(h[-1] + scale * (block @ h[-1] + (right @ h[-1]) @ left))
                outputs.append(w @ h[-1] / (gamma * width))
                push, g = rate * gamma * (y - outputs[-1]), w
                for place in range(depth - 1, -1, -1):
                    lefts[place, t], rights[place, t] = push * scale * g, h[place]
                    left, right = lefts[place, :t], rights[place, :t]
                    g = g + scale * (g @ blocks[place] + (left @ g) @ right)
                first, w = first + push * np.outer(g, x) / len(x) ** 0.5, w + push * h[-1]
            found.append(outputs)
    return np.reshape(found, (pairs, 2, -1)).mean(1)


def test_linear_depth_16_beside_wide_networks():
    """The issue's tolerance, 0.005, for the mean of 6 networks of width 512; responses left out would cost 0.09."""
    networks = pairs_of_networks(np.ones(4), 1.0, 16, 512, steps=14, rate=0.05, gamma=2.0, pairs=3)
    found = dl.mean_field(PLAIN, np.ones((1, 4)), [1.0], depth=16, gamma=2.0, steps=14, rate=0.05)
    assert found.solver == "exact" and found.samples == 0
    assert rms(networks.mean(0) - found.outputs[:, 0]) <= 0.005


@cache
def stein(net, depth, solver="stein"):
    return dl.mean_field(net, X, Y, depth=depth, steps=10, rate=0.04, X_test=X[:1], solver=solver)


def test_tanh_depth_16_beside_networks():
    """24 networks of width 128, errors of 1/width aside: one correlated number in time, so 3 standard errors."""
    found = stein(TANH, 16)
    networks = train(TANH, X, Y[:, None], None, 128, 16, 24, 0, Descent(0.04, 10, gamma=1.0), tuple(range(11)))
    apart = found.outputs - networks.outputs.mean(0)[..., 0]
    error = np.hypot(networks.outputs.std(0, ddof=1)[..., 0] / 24**0.5, found.outputs_error)
    assert rms(found.outputs_error) < 0.005
    assert rms(error) < 0.03
    assert rms(apart) < 3 * rms(error)
    assert found.outputs[-1, 1] < -0.5


@pytest.mark.parametrize("activation", ["identity", "tanh"])
def test_every_option_of_the_description_counts(activation):
    """Biases, standard deviations, two outputs, inputs of unequal norm and test inputs, in one network of depth 3."""
    net = dl.ResNet(activation, **RICH)
    x, y = RNG.standard_normal((3, 4)) * np.array([[1.0], [0.5], [1.4]]), RNG.standard_normal((3, 2))
    options = {"depth": 3, "gamma": 1.5, "steps": 6, "rate": 0.04, "X_test": X_TEST[:2, :4]}
    found = dl.mean_field(net, x, y, **options)
    at = Descent(0.04, 6, gamma=1.5)
    networks = train(net, x, y, X_TEST[:2, :4], 128, 3, 40, 1, at, tuple(range(7))).outputs
    limit = np.concatenate([found.outputs, found.test_outputs], 1)
    limit_error = np.concatenate([found.outputs_error, found.test_outputs_error], 1)
    error = np.hypot(networks.std(0, ddof=1) / 40**0.5, limit_error)
    assert rms(error) < 0.02
    assert np.abs((networks.mean(0) - limit)[1:] / error[1:]).max() < 5.5
    start, lazy = found.kernel[0, 0], np.kron(dl.kernel(net, x, depth=3, get="ntk"), np.eye(2))
    assert (np.abs(start - lazy) <= 6 * found.standard_error.kernel[0, 0] + 1e-12).all()


def test_sampled_and_closed_marches_agree():
    """Within 7 standard errors of 8 marches in the mean: Student's quantile at 1e-4, for numbers that move together."""
    exact, sampled = stein(PLAIN, 8, "exact"), stein(PLAIN, 8)
    assert rms(sampled.outputs_error) < 0.005
    assert rms(sampled.outputs - exact.outputs) < 7 * rms(sampled.outputs_error)
    for name in ("features", "gradients", "kernel"):
        apart, error = getattr(sampled, name) - getattr(exact, name), getattr(sampled.standard_error, name)
        assert rms(apart) < 7 * rms(error), name


@pytest.mark.parametrize("solver", ["exact", "stein"])
def test_a_test_input_that_is_trained_on_follows_it(solver):
    found = stein(PLAIN, 8, solver)
    np.testing.assert_allclose(found.test_outputs[:, 0], found.outputs[:, 0], atol=1e-9 if solver == "exact" else 3e-3)


def test_networks_start_at_zero():
    assert np.abs(stein(TANH, 16).outputs[0]).max() < 1e-12


def test_small_gamma_is_lazy():
    """f_{t+1} = f_t - rate K (f_t - y); what is left is of order gamma^2."""
    found = dl.mean_field(PLAIN, X, Y, depth=6, gamma=1e-4, steps=12, rate=0.05)
    ntk, f = dl.kernel(PLAIN, X, depth=6, get="ntk"), np.zeros(2)
    for step in range(12):
        np.testing.assert_allclose(found.outputs[step], f, atol=1e-6)
        f = f - 0.05 * ntk @ (f - Y)


def test_doubling_the_depth_halves_its_error():
    """The equations are the scheme of Euler: ratios of successive differences rise to 2."""
    outputs = [
        dl.mean_field(PLAIN, np.ones((1, 3)), [1.0], depth=depth, steps=8, rate=0.05).outputs
        for depth in (1, 2, 4, 8, 16, 32)
    ]
    moved = [np.abs(b - a).max() for a, b in pairwise(outputs)]
    ratios = np.divide(moved[:-1], moved[1:])
    assert (np.diff(ratios) > 0).all()
    assert 1.8 < ratios[-1] < 2


def test_infinite_depth_is_where_depths_tend():
    """1/depth and 1/depth^2 eliminated by depths 32, 64 and 128; the record says how good it is."""
    x, y = np.ones((1, 3)), [1.0]
    found = dl.mean_field(PLAIN, x, y, depth=inf, steps=8, rate=0.05)
    coarse, middle, fine = (
        dl.mean_field(PLAIN, x, y, depth=depth, steps=8, rate=0.05).outputs for depth in (32, 64, 128)
    )
    better = (8 * fine - 6 * middle + coarse) / 3
    assert np.abs(found.outputs - better).max() < found.depth_error < 3e-3
    assert stein(PLAIN, 8).depth_error == 0
    np.testing.assert_allclose(found.kernel[0, 0], dl.kernel(PLAIN, x, depth=inf, get="ntk"), rtol=1e-3)
    assert "extrapolated in 1/depth" in found.describe()


def test_sampled_infinite_depth():
    exact, sampled = (
        dl.mean_field(PLAIN, X, Y, depth=inf, steps=4, rate=0.05, **options)
        for options in ({"solver": "exact"}, {"samples": 1600, "solver": "stein"})
    )
    assert rms(sampled.outputs - exact.outputs) < 7 * rms(sampled.outputs_error) < 0.1
    assert sampled.features.shape == (17, 5, 5, 2, 2) and sampled.gradient_responses.shape == (16, 5, 5, 2, 2)


def test_noise_of_a_depth_is_the_sum_of_that_of_twice_the_depth():
    """Given rows first, then those of streams named by the finest network's blocks."""
    first = [quasi(2, 3, 0, "here"), quasi(2, 3, 1, "here")]
    fine = [Shared(-1, [rows], 0, ("u",), range(place, place + 1)) for place, rows in zip((4, 5), first, strict=True)]
    coarse = Shared(-1, first, 0, ("u",), range(4, 6))
    for rows in (1, 3):
        drawn = coarse.take(rows)
        np.testing.assert_allclose(drawn, sum(part.take(rows) for part in fine) / 2**0.5)
        np.testing.assert_array_equal(drawn[:, 3:], -drawn[:, :3])
    assert coarse.aside.shape == (6,)


def test_the_first_noise_of_all_blocks_is_one_sequence():
    """Rows are less correlated than independent ones would be, 1/sqrt(512), in the mean over pairs and over marches."""
    rows = [quasi(150, 512, 0, march) for march in range(8)]
    correlations = np.array([one @ one.T / 512 for one in rows]) - np.eye(150)
    assert rms(correlations) < 0.8 / 512**0.5
    assert np.abs(correlations.mean(0)).max() < 0.35
    assert quasi(2100, 4, 0, "here").shape == (2100, 4)


def ask(net=PLAIN, x=X, y=Y, **options):
    return lambda: dl.mean_field(net, x, y, **{"depth": 4, "steps": 3, "rate": 0.05, **options})


def test_refused_by_name():
    two = dl.ResNet("tanh", branch_layers=2, scale=1 / dl.DEPTH)
    refused(ask(two), dl.DeepLimitsError, "branch_layers=2", "dl.training.mean_ode")
    refused(ask(dl.ResNet("tanh", branch_layers=2)), dl.DeepLimitsError, "branch_layers=2")
    refused(ask(dl.ResNet("tanh", final_activation="tanh")), dl.DeepLimitsError, "final_activation")
    refused(ask(dl.ResNet("tanh", weights=dl.layer.Orthogonal())), dl.DeepLimitsError, "weights=Orthogonal")
    refused(ask(dl.ResNet("tanh", outputs=3), y=np.ones((2, 2))), dl.DeepLimitsError, "outputs=2")
    refused(ask(dl.ResNet("tanh", scale=1 / dl.DEPTH), depth=inf), dl.DeepLimitsError, "DEPTH**-0.5", "mean_ode")
    refused(ask(dl.ResNet("tanh", scale=0.5), depth=inf), dl.DeepLimitsError, "scale=0.5", "infinite depth")
    refused(ask(rate=3.0), dl.DeepLimitsError, "past stability", "below")
    refused(ask(solver="jacobian"), dl.DeepLimitsError, "jacobian", "exact or stein")
    refused(ask(gamma=0), dl.DeepLimitsError, "gradient_flow")


def test_divergence_keeps_what_was_found():
    """Stable at first, until features have grown."""
    error = refused(ask(x=np.ones((1, 3)), y=[30.0], rate=0.28, gamma=3.0, steps=60), dl.DeepLimitsError, "diverges")
    assert 0 < len(error.record.loss) < 61


def test_degenerate_inputs():
    """A duplicated row follows its twin, a row of zeros stays at zero."""
    x = np.stack([X[0], X[0], 0 * X[0]])
    for solver in ("exact", "stein"):
        found = dl.mean_field(PLAIN, x, [1.0, 1.0, 0.5], depth=3, steps=5, rate=0.05, solver=solver)
        np.testing.assert_allclose(found.outputs[:, 0], found.outputs[:, 1], atol=5e-3)
        np.testing.assert_allclose(found.outputs[:, 2], 0, atol=5e-3)
