"""The corner against golden numbers and exact recursions."""

from __future__ import annotations

from functools import cache
from math import exp, inf, log, pi, sinh, sqrt

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import zeta

import deeplimits as dl
from deeplimits.architecture.scale import Decreasing
from tests.laws.flow import erf_dual, pair

DEPTH, NoLimit = dl.DEPTH, dl.errors.NoLimit
Q1 = exp(0.5)


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


@cache
def harmonic(depth):
    return sum(1 / m for m in range(1, depth + 1))


def test_a_peak_that_falls_like_one_over_the_logarithm():
    """alpha_l = ((L + 1 - l) H_L)^-1/2: max alpha = H_L^-1/2 -> 0, so the flow at time 1 all the same."""
    net = dl.ResNet("relu", scale=lambda place, depth: ((depth + 1 - place) * harmonic(depth)) ** -0.5)
    assert dl.describe(net).notes[0].kind == "flow"
    assert features(net, pair(0.2), inf)[0, 0] == pytest.approx(Q1, rel=1e-9)


def test_a_sequence_next_to_divergence():
    """alpha = l^-0.51: sum alpha^2 = zeta(1.02) = 50.58, of which 8192 layers hold 8.8."""
    with pytest.warns(dl.errors.AccuracyWarning, match="estimated relative error"):
        note = dl.describe(dl.ResNet("relu", scale=lambda place, depth: place**-0.51)).notes[0]
    assert note.kind == "discrete"
    assert f"sum alpha_l^2 = {zeta(1.02):.6g}" in note.text


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
    lengths = np.array([10_000, 20_000, 40_000])
    squares = factor**2 * np.arange(1, lengths[-1] + 1.0) ** (-2 * exponent)
    tails = factor**2 * zeta(2 * exponent, lengths + 1.0)
    ends = np.stack([recursion(squares[:length], c, 1.3, 0.1) for length in lengths])
    expected = np.polyfit(tails, ends, 2)[-1]
    net = dl.ResNet("relu", sqrt(1.3), sqrt(0.1), scale=Decreasing(exponent, factor))
    k = dl.kernel(net.body, pair(c), depth=inf)
    found = np.array([k.nngp[0, 0], k.nngp[0, 1], k.ntk[0, 0], k.ntk[0, 1]])
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("exponent", [0.55, 0.6, 0.8, 2.0])
def test_the_stated_error_of_a_slow_sequence(exponent):
    """log q = sum over l of log(1 + l^-2e / 2): 200 terms, the rest by zeta functions."""
    total = np.log1p(np.arange(1, 201.0) ** (-2 * exponent) / 2).sum()
    total += sum((-1) ** (k + 1) / (k * 2**k) * zeta(2 * exponent * k, 201) for k in range(1, 40))
    for alpha in (Decreasing(exponent), lambda place, depth: place**-exponent):
        net = dl.ResNet("relu", scale=alpha)
        stated = float(dl.describe(net).notes[0].text.rsplit("error ", 1)[1])
        assert stated <= 2e-6
        assert features(net, pair(0.2), inf)[0, 0] == pytest.approx(exp(total), rel=2 * stated + 1e-13)


def test_an_inaccurate_limit_warns():
    with pytest.warns(dl.errors.AccuracyWarning, match="estimated relative error"):
        dl.describe(dl.ResNet("relu", scale=Decreasing(0.51)))


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


def test_a_flow_that_blows_up_before_its_time():
    """Of exp, dq/dt = e^(2 q) leaves every bound at t = e^(-2 q_0) / 2 = 0.0677 for |x|^2/d = 1."""
    note = dl.describe(dl.ResNet("exp")).notes[0]
    assert (note.kind, note.nngp, note.ntk) == ("explodes", False, False)
    assert "before layer time 1" in note.text
    with pytest.raises(NoLimit, match="no faster than x"):
        dl.kernel(dl.ResNet("exp"), pair(0.2), depth=inf)
