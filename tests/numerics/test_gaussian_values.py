"""Closed forms and series against quadrature in one and two dimensions."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.gaussian import (
    Bump,
    Erf,
    Exponential,
    Gelu,
    Linear,
    PolynomialFamily,
    RectifiedPower,
    Series,
    Sine,
)
from tests.ids import plain

SMOOTH = [
    Erf(),
    Erf(1.3, 0.7, 0.2),
    Erf(0.5, 0.5**0.5, 0.5),
    Gelu(),
    Sine(),
    Sine(1.2, -0.9, 0.4),
    Sine(1.0, 1.0, float(np.pi / 2)),
    Exponential(0.7, 0.4),
    Bump(0.3),
    Linear(),
    PolynomialFamily((0.3, 1.0, -0.2, 0.1)),
    PolynomialFamily((0.0, -1.5, 0.0, 0.5)),
    Series(np.tanh, lambda x: 1 - np.tanh(x) ** 2, "tanh"),
]
KINKED = [
    RectifiedPower(0, 1.0, -1.0),
    RectifiedPower(0, 1.0, 0.0),
    RectifiedPower(1, 1.0, 0.0),
    RectifiedPower(1, 1.0, -0.2),
    RectifiedPower(1, 1.0, 1.0),
    RectifiedPower(2, 1.0, -0.3),
    RectifiedPower(3, 0.5, 0.3),
    RectifiedPower(6, 1.0, 0.5),
]


def normal_nodes(step=0.06, reach=12.0):
    """The trapezoidal rule: geometric convergence for smooth functions, poles nearby included."""
    count = round(reach / step)
    x = step * np.arange(-count, count + 1)
    return x, step * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def half_normal_nodes(count=200, reach=12.0):
    """Nodes on both half-lines, so that a kink at 0 costs nothing."""
    x, w = np.polynomial.legendre.leggauss(count)
    x, w = (x + 1) / 2 * reach, w / 2 * reach
    w = w * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return np.concatenate([-x[::-1], x]), np.concatenate([w[::-1], w])


def plane(family, k, q1, q2):
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)] by a product rule."""
    x, w = normal_nodes()
    u = np.sqrt(q1) * x
    v = k / np.sqrt(q1) * x[:, None] + np.sqrt(q2 - k**2 / q1) * x
    return tuple(w @ (phi(u)[:, None] * phi(v)) @ w for phi in (family.function, family.derivative))


def sector(family, c):
    """The same at unit variances in polar coordinates: exact for functions that are powers on each half-line."""
    t, p = np.arccos(c), family.power
    kinks = np.sort(np.array([-np.pi, -np.pi / 2, np.pi / 2, np.pi, t - np.pi / 2, np.mod(t + np.pi / 2, 2 * np.pi)]))
    kinks = np.unique(np.concatenate([kinks, [t + np.pi / 2 - 2 * np.pi, t - 3 * np.pi / 2]]))
    kinks = kinks[(kinks >= -np.pi) & (kinks <= np.pi)]
    x, w = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for low, high in pairwise(kinks):
        angle = (high - low) / 2 * x + (high + low) / 2
        total += (high - low) / 2 * w @ (family.function(np.cos(angle)) * family.function(np.cos(angle - t)))
    radial = np.prod(np.arange(2, 2 * p + 1, 2.0))  # E[r**(2p)] of a planar normal
    return radial * total / (2 * np.pi)


def tensors(*values):
    return tuple(torch.tensor(value, dtype=torch.float64) for value in values)


@pytest.mark.parametrize("family", SMOOTH + KINKED, ids=plain)
def test_diagonal_mean_and_slope(family):
    q = np.array([0.05, 0.6, 1.0, 2.5])
    x, w = half_normal_nodes()
    u = np.sqrt(q)[:, None] * x
    value, slope = family.diagonal(q)
    np.testing.assert_allclose(value, family.function(u) ** 2 @ w, rtol=1e-13)
    np.testing.assert_allclose(slope, family.derivative(u) ** 2 @ w, rtol=1e-13)
    np.testing.assert_allclose(family.mean(q), family.function(u) @ w, atol=1e-13 * np.sqrt(value.max()))
    h = 1e-4 * q
    difference = (family.diagonal(q + h)[0] - family.diagonal(q - h)[0]) / (2 * h)
    np.testing.assert_allclose(family.slope(q), difference, rtol=1e-6, atol=1e-8)
    assert family.diagonal(q.reshape(2, 2))[0].shape == family.slope(q.reshape(2, 2)).shape == (2, 2)


@pytest.mark.parametrize("family", SMOOTH, ids=plain)
@pytest.mark.parametrize(("q1", "q2"), [(1.0, 1.0), (0.1, 1.5), (0.8, 0.3)])
@pytest.mark.parametrize("c", [-0.95, -0.3, 0.0, 0.5, 0.97])
def test_pair_and_near_match_the_plane(family, q1, q2, c):
    s = np.sqrt(q1 * q2)
    want, want_slope = plane(family, c * s, q1, q2)
    squares, slopes = family.diagonal(np.array([q1, q2]))
    scale, steep = np.sqrt(squares.prod()), np.sqrt(slopes.prod())
    value, slope = (part.item() for part in family.pair(*tensors(c * s, q1, q2)))
    assert abs(value - want) <= 1e-12 * scale
    assert abs(slope - want_slope) <= 1e-12 * steep
    down, up, near = family.near(*(np.array([a]) for a in (s - c * s, s + c * s, q1, q2)))
    assert abs(down[0] - (scale - want)) <= 1e-12 * scale
    assert abs(up[0] - (scale + want)) <= 1e-12 * scale
    assert abs(near[0] - want_slope) <= 1e-12 * steep


@pytest.mark.parametrize("family", KINKED, ids=plain)
@pytest.mark.parametrize("c", [-0.99, -0.4, 0.0, 0.6, 0.999])
def test_rectified_powers_match_the_sector(family, c):
    q1, q2 = 0.4, 3.0
    s = np.sqrt(q1 * q2)
    want, scale = sector(family, c) * s**family.power, np.sqrt(np.prod(family.diagonal(np.array([q1, q2]))[0]))
    value, slope = family.pair(*tensors(c * s, q1, q2))
    assert abs(value.item() - want) <= 2e-14 * scale
    down, up, near = family.near(*(np.array([a]) for a in (s - c * s, s + c * s, q1, q2)))
    assert abs(down[0] - (scale - want)) <= 2e-14 * scale
    assert abs(up[0] - (scale + want)) <= 2e-14 * scale
    p = family.power
    below = RectifiedPower(p - 1, p * family.plus, -p * family.minus) if p else None
    want_slope = sector(below, c) * s ** (p - 1) if below else 0.0
    for got in (slope.item(), near[0]):
        assert abs(got - want_slope) <= 2e-14 * max(1.0, abs(want_slope))


def test_columns_and_constants_rebuild_the_kernel():
    q1, q2, k = np.array([0.3]), np.array([1.7]), np.array([0.2])
    erf = Erf(1.3, 0.7, 0.2)
    a, f, shift = erf.constants
    rebuilt = shift**2 + a**2 * (2 / np.pi) * np.arcsin(2 * f**2 * k * erf.columns(q1)[0] * erf.columns(q2)[0])
    np.testing.assert_allclose(rebuilt, erf.pair(*(torch.from_numpy(x) for x in (k, q1, q2)))[0].numpy(), rtol=1e-14)
    relu = RectifiedPower(1, 1.0, 0.0).columns(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(relu, [[0.0, 2.0], [0.0, 0.5]])
    np.testing.assert_allclose(Gelu().columns(q2), [[1.7], [1 / 2.7]])
    assert Linear().columns(q1).shape == (0, 1)
    assert [f.code for f in (RectifiedPower(), erf, Sine(), Exponential(), Bump(), Gelu(), SMOOTH[-1], Linear())] == [
        *range(8)
    ]


def test_closed_forms_claim_no_error():
    assert [family.error(1.0) for family in SMOOTH[:10]] == [0.0] * 10


@pytest.mark.parametrize("family", SMOOTH + KINKED, ids=plain)
def test_families_are_hashable_and_flags_are_true(family):
    assert len({family, family}) == 1
    x = np.linspace(-3, 3, 61)
    assert family.odd == np.allclose(family.function(-x), -family.function(x), atol=1e-14)
    if family.homogeneous is not None:
        np.testing.assert_allclose(family.function(2 * x), 2.0**family.homogeneous * family.function(x))


def test_impossible_families_are_refused():
    with pytest.raises(DeepLimitsError, match="power=7"):
        RectifiedPower(7, 1.0, 0.0)
    with pytest.raises(DeepLimitsError, match="rate=-1"):
        Bump(-1.0)
