"""Nearly identical and nearly opposite inputs, against values of 100 digits."""

import mpmath as mp
import numpy as np
import pytest

from deeplimits.numerics.gaussian import Bump, Erf, Exponential, Gelu, Linear, RectifiedPower, Series, Sine
from tests.ids import plain

DIGITS = 100
ANGLES = [1.0, 0.3, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9]
NORMS = [(1.0, 1.0), (0.3, 2.7), (1.0, 1.0 + 1e-7), (8.0, 8.5), (1e-3, 3e-3)]


def arc_cosine(p, t):
    sin, cos, rest = mp.sin(t), mp.cos(t), mp.pi - t
    if p <= 3:
        return (
            rest,
            sin + rest * cos,
            3 * sin * cos + rest * (1 + 2 * cos**2),
            15 * sin - 11 * sin**3 + rest * (9 * cos + 6 * cos**3),
        )[p]
    return mp.factorial(p) * mp.quad(lambda s: (mp.cos(s) + cos) ** p, [0, rest])


def rectified(f, k, q1, q2):
    t, p = mp.acos(k / mp.sqrt(q1 * q2)), f.power
    plus, minus = mp.mpf(f.plus), mp.mpf(f.minus)
    both = (plus**2 + minus**2) * arc_cosine(p, t)
    if minus:
        both += 2 * plus * minus * arc_cosine(p, mp.pi - t)
    return (q1 * q2) ** (mp.mpf(p) / 2) / (2 * mp.pi) * both


def erf(f, k, q1, q2):
    a, b, shift = (mp.mpf(x) for x in f.constants)
    w = 2 * b**2
    return shift**2 + a**2 * 2 / mp.pi * mp.asin(w * k / mp.sqrt((1 + w * q1) * (1 + w * q2)))


def gelu(f, k, q1, q2):
    g = mp.mpf(1) / 4 + mp.asin(k / mp.sqrt((1 + q1) * (1 + q2))) / (2 * mp.pi)
    density = 1 / (2 * mp.pi * mp.sqrt((1 + q1) * (1 + q2) - k**2))
    return k * g + density * (q1 * q2 - k**2 + k**2 * (1 / (1 + q1) + 1 / (1 + q2)))


def sine(f, k, q1, q2):
    a, b, phase = (mp.mpf(x) for x in (f.amplitude, f.frequency, f.phase))
    minus, plus = (mp.exp(-(b**2) * (q1 + q2 + sign * 2 * k) / 2) for sign in (-1, 1))
    return a**2 / 2 * (minus - mp.cos(2 * phase) * plus)


def exponential(f, k, q1, q2):
    return mp.mpf(f.amplitude) ** 2 * mp.exp(mp.mpf(f.rate) ** 2 * (q1 + q2 + 2 * k) / 2)


def bump(f, k, q1, q2):
    w = 2 * mp.mpf(f.rate)
    return 1 / mp.sqrt((1 + w * q1) * (1 + w * q2) - w**2 * k**2)


CASES = [
    (RectifiedPower(1, 1.0, 0.0), rectified),
    (RectifiedPower(1, 1.0, -0.01), rectified),
    (RectifiedPower(1, 1.0, 1.0), rectified),
    (RectifiedPower(0, 1.0, -1.0), rectified),
    (RectifiedPower(2, 1.0, -1.0), rectified),
    (RectifiedPower(3, 0.5, 0.25), rectified),
    (RectifiedPower(6, 1.0, 0.0), rectified),
    (Erf(), erf),
    (Erf(0.5, 0.5**0.5, 0.5), erf),
    (Erf(1.5, 3.0, 0.0), erf),
    (Gelu(), gelu),
    (Sine(), sine),
    (Sine(1.0, 1.0, float(np.pi / 2)), sine),
    (Sine(0.7, 2.0, 0.4), sine),
    (Exponential(0.7, 0.4), exponential),
    (Bump(0.5), bump),
]


def numbers(q1, q2, angle, opposite):
    s = mp.sqrt(mp.mpf(q1) * mp.mpf(q2))
    small, large = 2 * s * mp.sin(mp.mpf(angle) / 2) ** 2, 2 * s * mp.cos(mp.mpf(angle) / 2) ** 2
    small = mp.mpf(float(small))
    large = 2 * s - small
    gap, span = (large, small) if opposite else (small, large)
    return gap, span, (span - gap) / 2


def exact(family, formula, k, q1, q2):
    def value(k):
        return formula(family, k, mp.mpf(q1), mp.mpf(q2))

    scale = mp.sqrt(formula(family, mp.mpf(q1), mp.mpf(q1), mp.mpf(q1)) * formula(family, *[mp.mpf(q2)] * 3))
    here = value(k)
    return scale - here, scale + here, scale


@pytest.mark.parametrize(("family", "formula"), CASES, ids=plain)
def test_near_matches_exact_values(family, formula):
    with mp.workdps(DIGITS):
        for q1, q2 in NORMS[:2] if family.homogeneous is not None else NORMS:
            for angle in ANGLES:
                for opposite in (False, True):
                    gap, span, k = numbers(q1, q2, angle, opposite)
                    down, up, scale = exact(family, formula, k, q1, q2)
                    given = (np.array([float(a)]) for a in (gap, span, q1, q2))
                    got = [float(part[0]) for part in family.near(*given)]
                    place = (q1, q2, angle, opposite)
                    assert abs(got[0] - down) <= 1e-13 * scale, place
                    assert abs(got[1] - up) <= 1e-13 * scale, place
                    # the angle sqrt(2 gap / scale) that the next layer sees, to rounding
                    assert abs(mp.sqrt(got[0] / scale) - mp.sqrt(abs(down) / scale)) <= 1e-14, place
                    if q1 == q2:
                        assert abs(got[0] - down) <= 2e-13 * abs(down), place
                    if family.odd:
                        assert abs(mp.sqrt(got[1] / scale) - mp.sqrt(abs(up) / scale)) <= 1e-14, place


@pytest.mark.parametrize(("family", "formula"), CASES, ids=plain)
def test_slope_is_the_derivative_in_k(family, formula):
    if family.code == 0 and family.power == 0:
        pytest.skip("the derivative of a step counts as zero")
    with mp.workdps(DIGITS):
        for q1, q2 in NORMS[:2] if family.homogeneous is not None else NORMS:
            for angle in (2.0, 0.3, 1e-3, 1e-7):
                gap, span, k = numbers(q1, q2, angle, False)
                step = mp.mpf(10) ** -12 * gap
                above, below = (formula(family, k + sign * step, mp.mpf(q1), mp.mpf(q2)) for sign in (1, -1))
                got = family.near(*(np.array([float(a)]) for a in (gap, span, q1, q2)))[2][0]
                largest = np.sqrt(np.prod(family.diagonal(np.array([q1, q2]))[1]))
                assert abs(got - (above - below) / (2 * step)) <= 1e-13 * largest, (q1, q2, angle)


@pytest.mark.parametrize("angle", [1.0, 1e-3, 1e-6, 1e-9])
def test_extended_precision_is_kept(angle):
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision on this machine")
    for family in (RectifiedPower(1, 1.0, 0.0), RectifiedPower(1, 1.0, -0.3), RectifiedPower(3, 1.0, 0.0)):
        half = np.longdouble(angle) / 2
        one = np.ones(1, dtype=np.longdouble)
        down, up, slope = family.near(2 * np.sin(half) ** 2 * one, 2 * np.cos(half) ** 2 * one, one, one)
        assert {down.dtype, up.dtype, slope.dtype, family.diagonal(one)[0].dtype} == {one.dtype}
        with mp.workdps(DIGITS):
            gap = 2 * mp.sin(mp.mpf(angle) / 2) ** 2
            want = exact(family, rectified, 1 - gap, 1.0, 1.0)[0]
            got = mp.mpf(str(np.format_float_scientific(down[0], precision=25)))
            assert abs(got - want) <= 2e-18 * want


FAMILIES = [family for family, _ in CASES] + [Linear(), Series(np.tanh, key="tanh")]


@pytest.mark.parametrize("family", FAMILIES, ids=plain)
def test_identical_opposite_and_zero_inputs(family):
    q = np.array([0.0, 0.7, 2.0])
    zero = np.zeros(3)
    same = family.near(zero, 2 * q, q, q)
    value, slope = family.diagonal(q)
    assert np.all(same[0][q > 0] == 0)
    np.testing.assert_allclose(same[1][q > 0], 2 * value[q > 0], rtol=4e-15)
    np.testing.assert_allclose(same[2][q > 0], slope[q > 0], rtol=4e-14, atol=1e-15)
    opposite = family.near(2 * q, zero, q, q)
    mixed = family.near(zero, zero, zero, q)
    assert all(np.isfinite(part).all() for part in (*same, *opposite, *mixed))
    if family.odd:
        assert np.all(opposite[1][q > 0] == 0)
