"""The flow at depth infinity against two independent solvers of its differential equation."""

from __future__ import annotations

from math import inf, pi, sqrt

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import deeplimits as dl
from tests.laws.flow import erf_dual, pair


def relu_dual(q1, q2, k):
    s = np.sqrt(q1 * q2)
    theta = np.arccos(np.clip(k / s, -1, 1))
    return s * (np.sin(theta) + (pi - theta) * np.cos(theta)) / (2 * pi), (pi - theta) / (2 * pi)


def branch(dual, w, b, inner=None):
    """Return (q1, q2, k, theta) -> the branch's (K, Theta) for one dense layer, or two with inner = (w, b)."""

    def one(q1, q2, k, theta):
        value, slope = dual(q1, q2, k)
        return w * value + b, w * slope * theta + w * value + b

    def two(q1, q2, k, theta):
        wi, bi = inner
        moved = [wi * dual(q, q, q)[0] + bi for q in (q1, q2)]
        value, slope = dual(q1, q2, k)
        mid, tangent = wi * value + bi, wi * slope * theta + wi * value + bi
        value, slope = dual(*moved, mid)
        return w * value + b, w * slope * tangent + w * value + b

    return one if inner is None else two


def by_solve_ivp(dual, X, w, b, inner=None):
    """Return the 2 x 2 NNGP kernel and NTK of the features at depth infinity, by an adaptive Runge-Kutta solver."""
    increment = branch(dual, w, b, inner)
    gram = X @ X.T / X.shape[1]

    def slope(_, y):
        q1, q2, k, t1, t2, t = y
        (d1, u1), (d2, u2), (d, u) = increment(q1, q1, q1, t1), increment(q2, q2, q2, t2), increment(q1, q2, k, t)
        return [d1, d2, d, u1, u2, u]

    start = [gram[0, 0], gram[1, 1], gram[0, 1]] * 2
    q1, q2, k, t1, t2, t = solve_ivp(slope, (0, 1), start, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return np.array([[q1, k], [k, q2]]), np.array([[t1, t], [t, t2]])


@pytest.mark.parametrize("inner", [None, (1.44, 0.05)], ids=["one layer", "two layers"])
@pytest.mark.parametrize(("name", "dual"), [("erf", erf_dual), ("relu", relu_dual)])
@pytest.mark.parametrize(
    "X", [pair(0.2, 0.7, 1.9), pair(-0.8), pair(0.999, 1.0, 3.0)], ids=["generic", "opposed", "near"]
)
def test_flow_against_solve_ivp(name, dual, inner, X):
    options = (
        {} if inner is None else {"branch_layers": 2, "inner_std": sqrt(inner[0]), "inner_bias_std": sqrt(inner[1])}
    )
    net = dl.ResNet(name, sqrt(1.69), sqrt(0.2), **options)
    nngp, ntk = by_solve_ivp(dual, X, 1.69, 0.2, inner)
    k = dl.kernel(net.body, X, depth=inf)
    np.testing.assert_allclose(k.nngp, nngp, rtol=1e-9)
    np.testing.assert_allclose(k.ntk, ntk, rtol=1e-9)


def test_flow_against_torchdiffeq():
    torchdiffeq = pytest.importorskip("torchdiffeq")
    increment = branch(erf_dual_torch, 1.3, 0.1)
    X = pair(0.4, 0.9, 1.2)
    gram = torch.from_numpy(X @ X.T / 2)

    def slope(_, state):
        k, theta = state
        q = torch.diagonal(k)
        return torch.stack(increment(q[:, None], q[None, :], k, theta))

    start, times = torch.stack([gram, gram]), torch.tensor([0.0, 1.0], dtype=torch.float64)
    nngp, ntk = torchdiffeq.odeint(slope, start, times, method="dopri5", rtol=1e-11, atol=1e-12)[-1]
    k = dl.kernel(dl.ResNet("erf", sqrt(1.3), sqrt(0.1)).body, X, depth=inf)
    np.testing.assert_allclose(k.nngp, nngp, rtol=1e-9)
    np.testing.assert_allclose(k.ntk, ntk, rtol=1e-9)


def erf_dual_torch(q1, q2, k):
    a, b = 1 + 2 * q1, 1 + 2 * q2
    return 2 / pi * torch.arcsin(2 * k / torch.sqrt(a * b)), 4 / pi / torch.sqrt(a * b - 4 * k * k)
