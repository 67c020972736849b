"""The corner against golden numbers, exact recursions and two independent solvers of its differential equation."""

from __future__ import annotations

from functools import cache
from math import exp, inf, log, pi, sinh, sqrt

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.special import zeta

import deeplimits as dl

DEPTH, NoLimit = dl.DEPTH, dl.errors.NoLimit
Q1 = exp(0.5)


def pair(c, q1=1.0, q2=1.0):
    """Two inputs in the plane with |x|^2/d = q1, q2 and correlation c."""
    return np.sqrt(2) * np.array([[sqrt(q1), 0.0], [c * sqrt(q2), sqrt(1 - c * c) * sqrt(q2)]])


def features(net, X, depth, get="nngp"):
    """Kernel of the features before the readout."""
    return _kernel(net.body, X.tobytes(), depth)[get]


@cache
def _kernel(net, data, depth):
    k = dl.kernel(net, np.frombuffer(data).reshape(2, 2), depth=depth)
    return {"nngp": k.nngp, "ntk": k.ntk}


def correlation(k):
    return k[0, 1] / sqrt(k[0, 0] * k[1, 1])


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (-1, -0.591562),
        (-0.5, -0.239063),
        (0, 0.141348),
        (0.2, 0.301227),
        (0.5, 0.550277),
        (0.9, 0.904603),
        (0.99, 0.990148),
    ],
)
def test_correlation_of_the_flow(start, end):
    k = features(dl.ResNet("relu"), pair(start), inf)
    assert correlation(k) == pytest.approx(end, abs=6e-7)
    assert k[0, 0] == pytest.approx(Q1, rel=1e-11)


@pytest.mark.parametrize("depth", [8, 32, 128, 512])
def test_diagonal_at_finite_depth(depth):
    k = features(dl.ResNet("relu"), pair(0.2), depth)
    assert k[0, 0] == pytest.approx((1 + 1 / (2 * depth)) ** depth, rel=1e-13)


def test_depth_bias():
    limit = features(dl.ResNet("relu"), pair(0.2), inf)
    k = features(dl.ResNet("relu"), pair(0.2), 2048)
    assert 2048 * (k[0, 0] - limit[0, 0]) == pytest.approx(-Q1 / 8, abs=1e-4)
    assert 2048 * (correlation(k) - correlation(limit)) == pytest.approx(-0.0360, abs=1e-4)


def squared(shape):
    """Return alpha(l, L) with alpha^2 proportional to shape(l, L) and summing to one."""
    return lambda place, depth: sqrt(shape(place, depth) / sum(shape(other, depth) for other in range(1, depth + 1)))


def uniform(_, depth):
    return depth**-0.5


def linear(place, depth):
    return sqrt(2 * place / (depth * (depth + 1)))


def first_half(place, depth):
    half = (depth + 1) // 2
    return half**-0.5 if place <= half else 0.0


SUMS = {depth: sum(m**-0.5 for m in range(1, depth + 1)) for depth in [256, 1024, *(2**p for p in range(5, 14))]}


def rising(place, depth):
    return sqrt((depth + 1 - place) ** -0.5 / SUMS[depth])


@pytest.mark.parametrize("alpha", [uniform, linear, rising, first_half])
def test_normalised_sequences(alpha):
    """Any scales with sum alpha^2 = 1 and max alpha -> 0 have the same limit, at rate sum alpha^4 q/8."""
    net, depth = dl.ResNet("relu", scale=alpha), 1024
    fourth = sum(alpha(place, depth) ** 4 for place in range(1, depth + 1))
    limit = features(net, pair(0.2), inf)
    assert limit[0, 0] == pytest.approx(Q1, rel=1e-9)
    assert correlation(limit) == pytest.approx(0.301227, abs=6e-7)
    k = features(net, pair(0.2), depth)
    assert (k[0, 0] - Q1) / fourth == pytest.approx(-Q1 / 8, abs=5e-4)
    assert dl.describe(net).notes[0].kind == "flow"


def test_time_change():
    """sum alpha^2 = t is the flow at time t: scale sqrt(t), or weight_std sqrt(t)."""
    t, X = 1.7, pair(0.3, 0.8, 1.5)
    one = dl.kernel(dl.ResNet("relu", scale=sqrt(t) * DEPTH**-0.5), X, depth=inf)
    other = dl.kernel(dl.ResNet("relu", weight_std=sqrt(t)), X, depth=inf)
    np.testing.assert_allclose(one.nngp, other.nngp, rtol=1e-11)
    np.testing.assert_allclose(one.ntk, other.ntk, rtol=1e-11)
    assert one.nngp[0, 0] == pytest.approx(0.8 * exp(t / 2), rel=1e-11)


def test_decreasing_scales():
    net = dl.StableResNet("relu", "decreasing")
    product = sinh(pi / sqrt(2)) / (pi / sqrt(2))
    limit = features(net, pair(0.2), inf)
    assert limit[0, 0] == pytest.approx(product, rel=1e-10)
    assert limit[0, 0] == pytest.approx(2.050957, abs=5e-7)
    assert correlation(limit) == pytest.approx(0.33066, abs=5e-6)
    deep = 4096
    assert deep * (product - features(net, pair(0.2), deep)[0, 0]) == pytest.approx(product / 2, rel=1e-3)


def recursion(squares, c, weight=1.0, bias=0.0):
    """Return (q, k, Theta_11, Theta_12) of ReLU residual layers with squared scales `squares`, input layer trained."""
    q, k = 1.0, c
    same, other = q, k
    for a in squares:
        theta = np.arccos(min(1.0, k / q))
        dual = q * (np.sin(theta) + (pi - theta) * np.cos(theta)) / (2 * pi)
        same += a * (weight * same / 2 + weight * q / 2 + bias)
        other += a * (weight * other * (pi - theta) / (2 * pi) + weight * dual + bias)
        q, k = q + a * (weight * q / 2 + bias), k + a * (weight * dual + bias)
    return np.array([q, k, same, other])


@pytest.mark.parametrize(("exponent", "factor", "c"), [(1.0, 1.0, 0.2), (0.8, 0.7, -0.6), (1.5, 1.2, 0.95)])
def test_decreasing_scales_against_a_long_recursion(exponent, factor, c):
    """Long recursions, extrapolated by a parabola in their exact tail sums, against the limit."""
    from deeplimits.architecture.scale import Decreasing

    lengths = np.array([10_000, 20_000, 40_000])
    squares = factor**2 * np.arange(1, lengths[-1] + 1.0) ** (-2 * exponent)
    tails = factor**2 * zeta(2 * exponent, lengths + 1.0)
    ends = np.stack([recursion(squares[:length], c, 1.3, 0.1) for length in lengths])
    expected = np.polyfit(tails, ends, 2)[-1]
    net = dl.ResNet("relu", sqrt(1.3), sqrt(0.1), scale=Decreasing(exponent, factor))
    k = dl.kernel(net.body, pair(c), depth=inf)
    found = np.array([k.nngp[0, 0], k.nngp[0, 1], k.ntk[0, 0], k.ntk[0, 1]])
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_a_sequence_by_its_values_is_recognised():
    """alpha(l, L) = 1/l as a plain function has the same limit as Decreasing."""
    X = pair(0.2)
    plain, known = dl.ResNet("relu", scale=lambda place, depth: 1 / place), dl.StableResNet("relu", "decreasing")
    assert dl.describe(plain).notes[0].kind == "discrete"
    found, expected = dl.kernel(plain, X, depth=inf), dl.kernel(known, X, depth=inf)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-8)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-8)


def test_ntk_of_the_defaults():
    """Theta_t = e^{t/2} (1 + t/2) before the readout, which adds the NNGP kernel."""
    X = pair(0.2)
    k = dl.kernel(dl.ResNet("relu"), X, depth=inf)
    assert k.nngp[0, 0] == pytest.approx(Q1, rel=1e-11)
    assert k.ntk[0, 0] == pytest.approx(Q1 * 2.5, rel=1e-11)
    assert features(dl.ResNet("relu"), X, inf, "ntk")[0, 0] == pytest.approx(2.47308, abs=5e-6)
    assert features(dl.ResNet("relu"), X, 1024, "ntk")[0, 0] == pytest.approx(2.47238, abs=5e-6)
    for variance in (0.5, 2.0):
        net = dl.ResNet("relu", sqrt(variance))
        expected = exp(variance / 2) * (1 + variance / 2)
        assert features(net, X, inf, "ntk")[0, 0] == pytest.approx(expected, rel=1e-11)
    assert features(dl.ResNet("relu", sqrt(2)), X, inf, "ntk")[0, 0] == pytest.approx(5.43656, abs=5e-6)


def test_he_weights_double_the_exponents():
    k = features(dl.ResNet("relu", sqrt(2)), pair(0.2), inf)
    assert k[0, 0] == pytest.approx(exp(1), rel=1e-11)
    c = solve_ivp(
        lambda _, c: np.sqrt(1 - c * c) / pi + c * (1 - np.arccos(c) / pi) - c, (0, 1), [0.2], rtol=1e-12, atol=1e-13
    ).y[0, -1]
    assert correlation(k) == pytest.approx(c, abs=1e-9)


def test_tanh_flow():
    assert features(dl.ResNet("tanh"), pair(0.2), inf)[0, 0] == pytest.approx(1.42790, abs=5e-6)


def test_other_exponents():
    X = pair(0.2)
    trivial, no_blocks = dl.ResNet("relu", scale=1 / DEPTH), dl.layer.Dense() >> dl.layer.Dense(1)
    found, expected = dl.kernel(trivial, X, depth=inf), dl.kernel(no_blocks, X)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-14)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-14)
    explodes = dl.ResNet("relu", scale=DEPTH**-0.25)
    with pytest.raises(NoLimit, match=r"exp\(0\.(5|499\d|500\d) L\^0\.5\)"):
        dl.kernel(explodes, X, depth=inf)
    q = features(explodes, X, 4096)[0, 0]
    assert log(q) == pytest.approx(sqrt(4096) / 2, abs=0.15)


def test_readin_and_readout_reach_the_limit():
    X = pair(0.2)
    net = dl.ResNet("relu", readin_std=0.8, readin_bias_std=0.3, readout_std=1.5, readout_bias_std=0.4)
    q = (0.64 + 0.09) * Q1
    k = dl.kernel(net, X, depth=inf)
    assert k.nngp[0, 0] == pytest.approx(2.25 * q + 0.16, rel=1e-11)
    assert k.ntk[0, 0] == pytest.approx(2.25 * (0.73 * Q1 * 1.5) + 2.25 * q + 0.16, rel=1e-11)


def test_final_activation_reaches_the_limit():
    X = pair(0.2)
    whole = dl.ResNet("relu", final_activation="erf")
    k, theta = (features(dl.ResNet("relu"), X, inf, kind) for kind in ("nngp", "ntk"))
    value, slope = erf_dual(k[0, 0], k[1, 1], k[0, 1])
    found = dl.kernel(whole, X, depth=inf)
    assert found.nngp[0, 1] == pytest.approx(value, rel=1e-11)
    assert found.ntk[0, 1] == pytest.approx(slope * theta[0, 1] + value, rel=1e-11)


def erf_dual(q1, q2, k):
    a, b = 1 + 2 * q1, 1 + 2 * q2
    return 2 / pi * np.arcsin(2 * k / np.sqrt(a * b)), 4 / pi / np.sqrt(a * b - 4 * k * k)


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


def test_distances_close_algebraically_without_branch_scaling():
    """He MLP: l^2 (1 - c_l) -> 9 pi^2 / 2; the long flow: t^2 (1 - c_t) -> 18 pi^2."""
    net = dl.Mlp("relu")
    for depth, measured in ((100, 35.8), (1000, 43.13)):
        k = features(net, pair(0.0), depth)
        assert depth**2 * (1 - correlation(k)) == pytest.approx(measured, rel=0.03)
    assert depth**2 * (1 - correlation(k)) == pytest.approx(9 * pi**2 / 2, rel=0.05)
    t = 200.0
    k = features(dl.ResNet("relu", scale=sqrt(t) * DEPTH**-0.5), pair(0.0), inf)
    assert t**2 * (1 - correlation(k)) == pytest.approx(18 * pi**2, rel=0.2)
