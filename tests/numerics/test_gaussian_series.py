"""Hermite series by quadrature: accuracy, orders, honest estimates."""

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy.special import erf as error_function
from scipy.special import gammaln

from deeplimits.numerics.gaussian import Erf, Gelu, PolynomialFamily, Series, Sine
from deeplimits.numerics.gaussian.quadrature import CAPS, basis


def logistic(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


TANH = Series(np.tanh, lambda x: 1 - np.tanh(x) ** 2, "tanh")
SMOOTH = [
    TANH,
    Series(np.tanh, None, "tanh by its coefficients"),
    Series(logistic, lambda x: logistic(x) * logistic(-x), "sigmoid"),
    Series(lambda x: np.logaddexp(0, x), logistic, "softplus"),
    Series(lambda x: x * logistic(x), None, "silu"),
]


def plane(family, k, q1, q2, step=0.04, reach=12.0):
    count = round(reach / step)
    x = step * np.arange(-count, count + 1)
    w = step * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    u = np.sqrt(q1) * x
    v = k / np.sqrt(q1) * x[:, None] + np.sqrt(q2 - k**2 / q1) * x
    return tuple(w @ (phi(u)[:, None] * phi(v)) @ w for phi in (family.function, family.derivative))


@pytest.mark.parametrize("family", SMOOTH, ids=lambda family: family.key)
@pytest.mark.parametrize(("q1", "q2"), [(0.1, 0.1), (1.0, 1.0), (8.0, 8.0), (0.1, 8.0), (3.0, 0.5)])
def test_series_match_the_plane(family, q1, q2):
    s = np.sqrt(q1 * q2)
    scale, steep = (np.sqrt(part.prod()) for part in family.diagonal(np.array([q1, q2])))
    for c in (-0.9, 0.2, 0.95):
        want, want_slope = plane(family, c * s, q1, q2)
        down, up, slope = family.near(*(np.array([a]) for a in (s - c * s, s + c * s, q1, q2)))
        assert abs(down[0] - (scale - want)) <= 1e-12 * scale
        assert abs(up[0] - (scale + want)) <= 1e-12 * scale
        assert abs(slope[0] - want_slope) <= (1e-12 if family.prime else 5e-12) * steep


@pytest.mark.parametrize("family", SMOOTH, ids=lambda family: family.key)
@pytest.mark.parametrize("tolerance", [1e-8, 1e-12])
def test_order_keeps_its_promise(family, tolerance):
    q = np.array([0.1, 1.0, 4.0])
    a = family.coefficients(q, family.order_for(4.0, 1.0, tolerance))
    value, slope = family.diagonal(q)
    np.testing.assert_allclose((a**2).sum(0), value, rtol=1.1 * tolerance + 1e-13)
    np.testing.assert_allclose((np.arange(len(a))[:, None] * a**2).sum(0) / q, slope, rtol=1.1 * tolerance + 1e-12)
    assert family.order_for(4.0, 0.5, tolerance) < family.order_for(4.0, 1.0, tolerance)


@pytest.mark.parametrize("exact", [Erf(1.3, 0.7, 0.2), Gelu(), Sine(1.1, 1.3, 0.4)], ids=str)
def test_coefficients_match_closed_forms(exact):
    series = Series(exact.function, exact.derivative, str(exact))
    q = np.array([0.01, 0.5, 3.0])
    want = exact.coefficients(q, 40)
    np.testing.assert_allclose(series.coefficients(q, 40), want, atol=4e-15 * np.abs(want).max())
    np.testing.assert_allclose(series.diagonal(q), exact.diagonal(q), rtol=1e-14)
    np.testing.assert_allclose(series.slope(q), exact.slope(q), rtol=1e-11, atol=1e-12)
    assert series.error(3.0) < 1e-12


def test_many_variances_agree_with_few():
    q = np.exp(np.linspace(np.log(0.05), np.log(6.0), 3000))
    many, few = TANH.coefficients(q, 300), TANH.coefficients(q[::100], 300)
    assert np.max(np.abs(many[:, ::100] - few) / np.sqrt(TANH.diagonal(q[::100])[0])) <= 2e-14
    with_zero = TANH.diagonal(np.concatenate([[0.0], q]))[0]
    assert with_zero[0] == 0
    np.testing.assert_allclose(with_zero[1::100], TANH.diagonal(q[::100])[0], rtol=2e-14)


def test_basis_is_orthonormal_to_high_order():
    z, _, table = basis(0.05, CAPS[0])
    root = np.exp(-(z**2) / 4) / (2 * np.pi) ** 0.25
    assert len(table) >= CAPS[0]
    assert np.isfinite(table).all()
    k = 30
    want = hermite_e.hermeval(z, [0.0] * k + [1.0]) / np.exp(gammaln(k + 1) / 2) * root**2 * 0.05
    np.testing.assert_allclose(table[k], want, atol=1e-13)


def test_kinks_are_confessed():
    relu = Series(lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0, "relu by series")
    bare = Series(lambda x: np.maximum(x, 0), None, "relu by series, no derivative")
    a = bare.coefficients(np.array([1.0]), CAPS[0])[:, 0]
    truth = abs(1 - (np.arange(CAPS[0]) * a**2).sum() / 0.5)
    assert truth > 1e-3
    assert truth / 3 <= bare.error(1.0) <= 10 * truth
    assert truth / 3 <= relu.error(1.0) <= 10 * truth
    assert TANH.error(np.array([0.5, 2.0])) < 1e-12
    assert TANH.error(1e4) > 1e-3


def test_large_variances_take_more_coefficients():
    assert CAPS[0] < TANH.order_for(40.0, 1.0, 1e-12) < CAPS[1]
    assert TANH.error(40.0) < 1e-11
    q = np.array([40.0, 41.0])
    s = np.sqrt(q.prod())
    want, want_slope = plane(TANH, 0.99 * s, *q, step=0.02)
    scale, steep = (np.sqrt(part.prod()) for part in TANH.diagonal(q))
    down, _, slope = TANH.near(*(np.array([a]) for a in (0.01 * s, 1.99 * s, *q)))
    assert abs(down[0] - (scale - want)) <= 1e-11 * scale
    assert abs(slope[0] - want_slope) <= 1e-11 * steep


def test_functions_that_blow_up_are_confessed():
    assert Series(lambda x: np.exp(x**2 / 3), None, "no second moment").error(1.0) > 0.1


def test_zero_and_tiny_variances():
    sigmoid = SMOOTH[2]
    q = np.array([0.0, 1e-30, 1e-6])
    for family, value, slope in ((TANH, 0.0, 1.0), (sigmoid, 0.25, 1 / 16)):
        got = family.diagonal(q)
        np.testing.assert_allclose(got[0], value, atol=1e-6)
        np.testing.assert_allclose(got[1], slope, rtol=1e-5)
    down, up, slope = TANH.near(*(np.array([a]) for a in (0.0, 0.0, 0.0, 1.0)))
    assert abs(slope[0] - TANH.sequence(np.array([1.0]), 1, 1)[0, 0]) <= 1e-10
    assert abs(down[0]) <= 1e-20 and abs(up[0]) <= 1e-20


def test_columns_and_coefficients_give_the_slope_at_zero():
    """What the tile engine computes: sum of k a_k a_k' c**(k-1) / sqrt(q q')."""
    q = np.array([0.0, 1.0])
    a, root = TANH.coefficients(q, 60), TANH.columns(q)[0]
    slope = a[1, 0] * a[1, 1] * root[0] * root[1]
    assert abs(slope - TANH.sequence(np.array([1.0]), 1, 1)[0, 0]) <= 1e-10


def test_families_are_equal_by_key():
    assert Series(np.tanh, None, "tanh") == TANH
    assert hash(TANH) == hash(Series(np.tanh, None, "tanh"))
    assert Series(np.tanh) == Series(np.tanh) != Series(np.sinh)
    assert TANH.odd and not SMOOTH[2].odd


def test_polynomials_are_exact():
    cubic = PolynomialFamily((0.0, -3.0, 0.0, 1.0))  # He_3
    a = cubic.coefficients(np.array([1.0, 2.0]), 4)
    np.testing.assert_allclose(a[:, 0], [0, 0, 0, np.sqrt(6)], atol=1e-15)
    np.testing.assert_allclose(a[:, 1], [0, 3 * np.sqrt(2), 0, np.sqrt(48)], rtol=1e-15)
    assert cubic.order_for(100.0) == 4
    assert cubic.error(3.0) == 0
    assert (cubic.odd, cubic.homogeneous, PolynomialFamily((0.0, 0.0, 2.0)).homogeneous) == (True, None, 2)


def test_erf_by_quadrature_agrees_near_coincidence():
    series, exact = Series(error_function, Erf().derivative, "erf by series"), Erf()
    gap = np.array([1e-3, 1e-8, 1e-14])
    q1, q2 = np.full(3, 0.7), np.array([0.7, 0.7, 1.1])
    span = 2 * np.sqrt(q1 * q2) - gap
    for got, want in zip(series.near(gap, span, q1, q2), exact.near(gap, span, q1, q2), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
