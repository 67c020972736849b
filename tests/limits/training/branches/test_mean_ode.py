"""The mean ODE beside trained networks: any inner width, both orders of the limits, every option."""

from __future__ import annotations

from functools import cache
from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.training.branches.depth import Blocks, RungeKutta
from deeplimits.training import MeanResNet, mean_ode, train_branches
from tests.limits.refusal import refused

RNG = np.random.default_rng(0)
X, X_TEST = RNG.standard_normal((3, 4)), RNG.standard_normal((2, 4))
Y = np.array([1.0, -1.0, 0.5])
NET = MeanResNet("tanh")
STEPS = {"steps": 15, "rate": 0.15}


@cache
def limit(depth=inf):
    return mean_ode(NET, X, Y, depth=depth, units=2048, **STEPS)


@cache
def networks(depth, inner, count=16):
    return train_branches(NET, X, Y, depth=depth, inner=inner, networks=count, **STEPS).outputs


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def test_the_error_of_a_network_falls_as_one_over_the_root_of_depth_times_inner_width():
    """Times sqrt(L M) it is one number for M = 1 and M = 16, of 16 networks each: 4 standard errors are 30 %."""
    constants = [rms(networks(L, M) - limit().outputs) * (L * M) ** 0.5 for L, M in ((32, 1), (128, 1), (32, 16))]
    assert max(constants) / min(constants) < 1.35
    assert 0.5 < np.mean(constants) < 2


def test_the_limits_commute():
    """Deep networks of inner width 1 and wide ones at moderate depth, then deeper: one limit, while training."""
    deep, wide = networks(256, 1), networks(16, 64)
    error = deep.std(0, ddof=1) / 4
    assert (np.abs(deep.mean(0) - limit().outputs)[1:] < 5.2 * error[1:]).all()  # Student, 15: chance 1e-4 each
    error = np.hypot(wide.std(0, ddof=1) / 4, limit(16).outputs_error)
    assert (np.abs(wide.mean(0) - limit(16).outputs)[1:] < 5.2 * error[1:]).all()
    moved = [np.abs(limit(depth).outputs - limit().outputs).max() for depth in (16, 32, 64)]
    assert np.divide(moved[:-1], moved[1:]) == pytest.approx(2, rel=0.15)
    assert moved[-1] < 0.02


OPTIONS = [
    ({"scale": 2.0, "inner_std": 1.3, "outer_std": 0.7}, {}),
    (
        {"activation": "relu"},
        {"embedding": RNG.standard_normal((4, 6)), "unembedding": RNG.standard_normal((6, 2)) / 3},
    ),
    ({"readout": "trained", "readout_scale": 1.5, "scale": 0.8}, {"readout_units": 1024}),
]


@pytest.mark.parametrize(("options", "around"), OPTIONS, ids=["stds", "embedded", "readout"])
def test_every_option_counts(options, around):
    """24 networks of depth 32 and inner width 8 beside infinite width at depth 32, at training and at test inputs."""
    net = MeanResNet(**options)
    y = np.stack([Y, Y[::-1] / 2], 1) if "unembedding" in around else Y
    size = {"readout_units": around["readout_units"]} if "readout_units" in around else {}
    asked = {"X_test": X_TEST, "steps": 10, "rate": 0.1, **{k: v for k, v in around.items() if k not in size}}
    found = mean_ode(net, X, y, depth=32, units=2048, **asked)
    sampled = train_branches(net, X, y, depth=32, inner=8, networks=24, **asked, **size)
    for name in ("outputs", "test_outputs"):
        values = getattr(sampled, name)
        error = np.hypot(values.std(0, ddof=1) / 24**0.5, getattr(found, f"{name}_error"))
        assert (np.abs(values.mean(0) - getattr(found, name))[1:] < 5 * error[1:] + 0.01).all(), name
        assert np.abs(getattr(found, name)[-1] - getattr(found, name)[0]).max() > 0.1


def test_the_gram_matrix_moves_the_outputs():
    """At a rate of 1e-4 the first step is -rate Gram (f - y), to a relative 1e-3."""
    for net in (NET, MeanResNet("tanh", readout="trained"), MeanResNet("tanh", scale=inf)):
        found = mean_ode(net, X, Y, steps=1, rate=1e-4, units=512)
        first, second = found.outputs
        np.testing.assert_allclose(second - first, -1e-4 * found.gram[0] @ (first - Y), rtol=2e-3, atol=1e-8)


def test_large_scales_are_lazy():
    """Outputs approach those at infinite scale while units move as 1/scale."""
    lazy = mean_ode(MeanResNet("tanh", scale=inf), X, Y, units=1024, **STEPS)
    near = [mean_ode(MeanResNet("tanh", scale=scale), X, Y, units=1024, **STEPS) for scale in (10.0, 40.0)]
    apart = [np.abs(found.outputs - lazy.outputs).max() for found in near]
    assert apart[1] < 0.35 * apart[0] < 0.02
    assert near[0].moved[-1] / near[1].moved[-1] == pytest.approx(4, rel=0.05)
    assert lazy.moved[-1] == 0
    assert np.abs(lazy.states[1] - lazy.states[0]).max() > 0.1  # states move all the same


def test_the_loss_stays_below_the_bound_of_gram_matrices():
    found = mean_ode(NET, X, Y, steps=40, rate=0.05, units=512)
    assert (found.loss[1:] < found.loss_bound[1:]).all()
    assert found.loss_bound[-1] < 0.9 * found.loss[0]
    assert (found.smallest_eigenvalue > 0).all()


def test_a_test_input_that_is_trained_on_follows_it():
    found = mean_ode(NET, X, Y, X_test=X[:1], units=256, **STEPS)
    np.testing.assert_allclose(found.states[:, 0], [X, X])
    np.testing.assert_allclose(found.test_outputs[:, 0], found.outputs[:, 0], rtol=1e-9)


class Line:
    """A state that turns: add(h) = A h, back(p) = A^T p."""

    matrix = np.array([[0.3, -1.0], [1.2, 0.4]])

    def add(self, node, h):
        return h @ self.matrix.T

    def back(self, node, look, p):
        return p @ self.matrix


def test_steps_along_the_depth_are_of_order_4_and_1():
    from scipy.linalg import expm

    start, exact = np.array([[1.0, 2.0]]), expm(Line.matrix)
    for scheme, ratio in ((RungeKutta, 16), (Blocks, 2)):
        errors = []
        for size in (16, 32):
            walk = scheme(size)
            up = walk.up(Line(), start)[-1] - start @ exact.T
            down = walk.down(Line(), [None] * walk.nodes, start[:, None])[0] - start @ exact
            errors.append((np.abs(up).max(), np.abs(down).max()))
        assert walk.weights.sum() == pytest.approx(1)
        up_ratio, down_ratio = np.divide(*errors)
        assert up_ratio == pytest.approx(ratio, rel=0.15)
        assert down_ratio == pytest.approx(ratio, rel=0.15 if scheme is RungeKutta else 0.3)


def ask(net=NET, x=X, y=Y, **options):
    return lambda: mean_ode(net, x, y, **{"steps": 2, "rate": 0.1, "units": 64, **options})


def test_refused_by_name():
    refused(ask(dl.ResNet("tanh")), dl.DeepLimitsError, "MeanResNet", "dl.mean_field")
    refused(ask(MeanResNet("relu", scale=inf)), dl.DeepLimitsError, "kink", "large finite scale")
    refused(ask(MeanResNet(readout="trained"), unembedding=np.ones((4, 1))), dl.DeepLimitsError, "no effect")
    refused(ask(rate=5.0), dl.DeepLimitsError, "past stability", "give a rate below")
    refused(ask(units=100), dl.DeepLimitsError, "units=100", "multiple of 8")
    refused(ask(depth=2.5), dl.DeepLimitsError, "depth=2.5")
    refused(ask(depth=0), dl.DeepLimitsError, "depth=0")
    refused(ask(x=1e200 * X), dl.DeepLimitsError, "squares of X", "beyond float64")
    refused(ask(y=1e200 * Y), dl.DeepLimitsError, "squares of y", "beyond float64")
    for name, value in (("rate", 0), ("rate", True), ("rate", np.nan), ("steps", 0), ("steps", 1.5), ("seed", -1)):
        refused(ask(**{name: value}), dl.DeepLimitsError, name if name != "seed" else "-1")


def test_degenerate_problems():
    """Rows of zeros, equal rows, one row of one feature, targets of zeros, integer and float32 inputs."""
    found = mean_ode(NET, np.stack([X[0], X[0], 0 * X[0]]), [1.0, 1.0, 2.0], steps=5, rate=0.1, units=64)
    np.testing.assert_allclose(found.outputs[:, 0], found.outputs[:, 1])
    assert np.abs(found.outputs[:, 2]).max() < 1e-12
    assert mean_ode(NET, [[1]], [[0]], steps=2, rate=0.1, units=64, depth=1).outputs.shape == (3, 1, 1)
    single = mean_ode(NET, X.astype(np.float32), Y.astype(np.float32), steps=2, rate=0.1, units=64)
    double = mean_ode(NET, X.astype(np.float32).astype(float), Y, steps=2, rate=0.1, units=64)
    np.testing.assert_array_equal(single.outputs, double.outputs)


def test_divergence_is_told():
    refused(ask(MeanResNet("relu"), x=6 * X, y=50 * Y, rate=0.01, steps=200), dl.DeepLimitsError, "diverges at step")


def test_it_is_drawn():
    from deeplimits.report.figures import mean_ode as drawn

    words = [data.describe() for _, (data,) in drawn.panels_of(limit())]
    assert "Outputs over 15 steps" in words[0] and "allow" in words[1] and "before training" in words[2]
    assert len(dl.plot(limit()).axes) == 4


def test_an_endless_depth_and_numbers_that_are_none_are_refused():
    with pytest.raises(dl.errors.InputError, match="every block is walked through"):
        dl.training.mean_ode(MeanResNet("tanh"), np.eye(2), [1.0, -1.0], depth=1e300, steps=2, rate=0.1)
    for given in (True, torch.tensor(2.0)):
        with pytest.raises(dl.errors.DescriptionError, match=r"inner_std=.* is not a number"):
            MeanResNet("tanh", inner_std=given)
