"""Gradients of kernels in inputs and hyperparameters."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from tests.limits.networks import CASES, NETS, X, both, relative

DEPTH, Dense, Residual, Repeat = dl.DEPTH, dl.layer.Dense, dl.layer.Residual, dl.layer.Repeat
act = dl.act
SMOOTH = [case for case in CASES if case[0] not in ("sign", "step")]
SPECIAL = np.array(
    [[1.0, 0.5, -0.2], [1.0, 0.5, -0.2], [-1.0, -0.5, 0.2], [2.0, 1.0, -0.4], [0, 0, 0], [0, 0, 0], [0.3, -1, 2]]
)


@pytest.mark.parametrize(("name", "depth"), SMOOTH)
def test_special_inputs_have_finite_gradients(name, depth):
    """Identical, opposite, parallel and zero rows."""
    given = torch.from_numpy(SPECIAL).requires_grad_()
    for kind, k in both(NETS[name][0], given, depth=depth).items():
        assert bool(k.isfinite().all()), kind
        (gradient,) = torch.autograd.grad(k.sum(), given, retain_graph=True)
        assert bool(gradient.isfinite().all()), kind


@pytest.mark.parametrize(
    "name", ["relu, biases", "erf", "gelu", "tanh", "sin", "resnet", "resnet, two layers", "rms norm"]
)
def test_gradients_in_the_inputs(name):
    """Against central differences of the float64 kernel, at generic rows."""
    net, generic = NETS[name][0], np.random.default_rng(1).standard_normal((3, 4))
    weights = np.random.default_rng(2).standard_normal((3, 3))

    def value(at):
        k = both(net, at, depth=3)
        return sum((weights * k[kind]).sum() for kind in k)

    given = torch.from_numpy(generic).requires_grad_()
    k = both(net, given, depth=3)
    total = sum((torch.from_numpy(weights) * k[kind]).sum() for kind in k)
    (gradient,) = torch.autograd.grad(total, given)
    h = 1e-5
    for row in range(3):
        for column in range(4):
            up, down = generic.copy(), generic.copy()
            up[row, column] += h
            down[row, column] -= h
            expected = (value(up) - value(down)) / (2 * h)
            assert float(gradient[row, column]) == pytest.approx(expected, rel=2e-6, abs=1e-7)


@pytest.mark.parametrize("depth", [3, inf])
def test_gradients_in_every_hyperparameter(depth):
    branch = {"branch_layers": 2, "inner_std": 1.2, "inner_bias_std": 0.4} if depth == 3 else {}
    net = dl.ResNet("erf", 1.1, 0.3, 0.9, 0.2, 0.8, 0.1, scale=0.7 * DEPTH**-0.5, **branch)
    paths_known, generic = net.hyperparameters(), X[2:5:2]
    assert set(paths_known) >= {"weight_std", "bias_std", "readin_std", "readout_bias_std", "inner_std", "scale"}
    hyper = {
        path: torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for path, value in paths_known.items()
    }
    k = dl.kernel(net, torch.from_numpy(generic), depth=depth, hyper=hyper)
    total = k.nngp.sum() + 0.5 * k.ntk.sum()
    gradients = torch.autograd.grad(total, list(hyper.values()), allow_unused=True, materialize_grads=True)
    h = 1e-4
    for (path, value), gradient in zip(paths_known.items(), gradients, strict=True):
        if path.startswith("inner") and not branch:
            assert float(gradient) == 0
            continue
        ends = []
        for at in (value + h, value - h):
            k = dl.kernel(net, generic, depth=depth, hyper={path: at})
            ends.append(k.nngp.sum() + 0.5 * k.ntk.sum())
        assert float(gradient) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5), path


def test_values_with_hyper_are_those_of_the_replaced_network():
    net = dl.Mlp("erf", 1.2, 0.1)
    found = dl.kernel(net, X, depth=3, hyper={"weight_std": 0.9}, get="ntk")
    np.testing.assert_array_equal(found, dl.kernel(dl.Mlp("erf", 0.9, 0.1), X, depth=3, get="ntk"))
    tensor = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    found = dl.kernel(net, X, depth=3, hyper={"weight_std": tensor}, get="ntk")
    assert found.requires_grad
    assert relative(found.detach().numpy(), dl.kernel(dl.Mlp("erf", 0.9, 0.1), X, depth=3, get="ntk")) <= 1e-10


def test_hyperparameters_of_a_hand_made_network():
    net = Dense(weight_std=1.2) >> Repeat(Residual(act.Erf() >> Dense(bias_std=0.3), 0.5), 2) >> Dense(1)
    path = next(path for path in net.hyperparameters() if path.endswith("scale"))
    scale = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    k = dl.kernel(net, torch.from_numpy(X[:3]), hyper={path: scale}, get="nngp")
    (gradient,) = torch.autograd.grad(k.sum(), scale)
    ends = [dl.kernel(net, X[:3], hyper={path: 0.5 + h}, get="nngp").sum() for h in (1e-5, -1e-5)]
    assert float(gradient) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)
