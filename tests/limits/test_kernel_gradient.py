"""Gradients of kernels in hyperparameters by blocks and by nodes, against autograd through the whole kernel."""

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.limits.kernel import gradient
from deeplimits.limits.kernel.ask import variances
from deeplimits.limits.kernel.gradient import derivatives, pullback

RNG = np.random.default_rng(2)
X = RNG.standard_normal((12, 4))
X[5], X[6], X[7] = X[4], -X[3], 0.0
W = RNG.standard_normal((12, 12))
W = W + W.T
CASES = {
    "erf": (dl.ResNet("erf", 1.1, 0.3), 4),
    "erf, infinity": (dl.ResNet("erf", 1.1, 0.3), inf),
    "relu": (dl.ResNet("relu", 1.1), 8),
    "relu, infinity": (dl.ResNet("relu", 1.1), inf),
    "relu, shallow": (dl.Mlp("relu"), 1),
    "relu, biases": (dl.Mlp("relu", bias_std=0.2), 4),
    "by hand": (dl.layer.Dense(weight_std=1.2) >> dl.act.Gelu() >> dl.layer.Dense(1, bias_std=0.1), None),
}
# Slow: the several hundred steps of a flow, differentiated as a whole for comparison.
SLOW = [pytest.param(case, marks=[pytest.mark.slow] if "infinity" in case else []) for case in CASES]


@pytest.mark.parametrize("case", SLOW)
@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_pullback_is_autograd(case, get):
    """The NTK's slope at angle 0 limits the plain path's angle to 1e-8 there."""
    net, depth = CASES[case]
    at = {path: float(value) for path, value in net.hyperparameters().items()}
    leaves = {path: torch.tensor(value, dtype=torch.float64, requires_grad=True) for path, value in at.items()}
    total = (dl.kernel(net, torch.from_numpy(X), depth=depth, get=get, hyper=leaves) * torch.from_numpy(W)).sum()
    slopes = torch.autograd.grad(total, list(leaves.values()), allow_unused=True, materialize_grads=True)
    found = pullback(net, X, W, at, depth, get)
    size = max(float(slope.abs()) for slope in slopes)
    for path, slope in zip(at, slopes, strict=True):
        assert abs(found[path] - float(slope)) <= 1e-7 * size, path


@pytest.mark.parametrize("case", [case for case in SLOW if case.values[0] != "relu, infinity"])
def test_derivatives_sum_to_the_pullback(case, monkeypatch):
    net, depth = CASES[case]
    at = {path: float(value) for path, value in net.hyperparameters().items()}
    every = derivatives(net, X, at, depth, "ntk")
    assert every.shape == (12, 12, len(at))
    whole = pullback(net, X, W, at, depth, "ntk")
    size = max(abs(slope) for slope in whole.values())
    for place, path in enumerate(at):
        assert abs((W * every[..., place]).sum() - whole[path]) <= 1e-7 * size
    if depth == inf:
        return  # blocks are cut alike at every depth
    monkeypatch.setattr(gradient, "_side", lambda *arguments: 5)
    parts, smaller = derivatives(net, X, at, depth, "ntk"), pullback(net, X, W, at, depth, "ntk")
    np.testing.assert_allclose(parts, every, atol=1e-12 * np.abs(every).max())
    for path in at:
        assert abs(smaller[path] - whole[path]) <= 1e-11 * size


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_variances_are_the_diagonal(case, get):
    net, depth = CASES[case]
    expected = dl.kernel(net, X, depth=depth, get=get).diagonal()
    np.testing.assert_allclose(variances(net, X, depth, get), expected, rtol=1e-13)


def test_variances_refuse_what_has_no_limit():
    with pytest.raises(dl.errors.NoLimit, match="there is no NTK at infinite depth"):
        variances(dl.Mlp("relu"), X, inf, "ntk")
    with pytest.raises(dl.errors.PrecisionError, match="leave the range"):
        variances(dl.ResNet("relu", scale=1.0, weight_std=1e3), X, 200, "nngp")
