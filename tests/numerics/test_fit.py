import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.fit import common, extrapolate, rate_in_width_and_depth, slope
from deeplimits.numerics.seeds import generator

X = np.array([16.0, 32, 64, 128, 256])


@settings(max_examples=30, deadline=None)
@given(exponent=st.floats(-3, 3), factor=st.floats(1e-3, 1e3))
def test_an_exact_power_law_is_recovered(exponent, factor):
    fitted = slope(X, factor * X**exponent)
    assert abs(fitted.value - exponent) < 1e-12
    assert fitted.high - fitted.low < 1e-10


@pytest.mark.parametrize("known", [True, False])
def test_the_interval_covers_the_exponent_as_often_as_it_says(known):
    noise = generator(0, "coverage").standard_normal((2000, X.size)) * 0.05
    hits = 0
    for row in noise:
        y = 3 * X**-0.7 * np.exp(row)
        fitted = slope(X, y, 0.05 * y if known else None, confidence=0.9)
        hits += fitted.low <= -0.7 <= fitted.high
    assert hits / 2000 > 0.9 - 4 * np.sqrt(0.09 / 2000)
    assert known or hits / 2000 < 0.9 + 4 * np.sqrt(0.09 / 2000)


def test_lack_of_fit_widens_the_interval():
    good, bent = X**-1.0, X**-1.0 * np.exp(0.3 * np.log(X / 64) ** 2)
    tight, wide = (slope(X, y, 0.01 * y) for y in (good, bent))
    assert wide.chi_square > 100
    assert wide.high - wide.low > 5 * (tight.high - tight.low)


def test_two_points_without_errors_say_nothing_about_the_error():
    fitted = slope([1, 2], [1, 4])
    assert fitted.value == pytest.approx(2) and fitted.low == -np.inf and fitted.high == np.inf


def test_inside():
    fitted = slope(X, X**-1.0, 0.01 * X**-1.0)
    assert fitted.inside(-1.3, -0.7) and not fitted.inside(-0.99, -0.7)


def grid():
    n, depth = np.meshgrid([32.0, 64, 128, 256], [4.0, 8, 16, 32], indexing="ij")
    return n.ravel(), depth.ravel()


def test_rate_in_width_and_depth_recovers_both_constants():
    n, depth = grid()
    truth = np.sqrt(3.5**2 / n + 2.0**2 / depth**2)
    error = 0.03 * truth
    inside = 0
    for trial in range(100):
        rms = truth + error * generator(0, "rate", trial).standard_normal(n.size)
        rate = rate_in_width_and_depth(n, depth, rms, error)
        inside += (rate.a.low <= 3.5 <= rate.a.high) and (rate.b.low <= 2.0 <= rate.b.high)
    assert inside >= 90


def test_a_coefficient_below_zero_is_zero_with_an_upper_end():
    n, depth = grid()
    rms = np.sqrt(9 / n) * (1 - 0.02 / depth)
    rate = rate_in_width_and_depth(n, depth, rms, 0.05 * rms)
    assert rate.b.value == 0 and rate.b.low == 0 and rate.b.high > 0
    assert rate.a.low < 3 < rate.a.high


def test_extrapolation_recovers_the_corner():
    n, depth = grid()
    limit = extrapolate(n, depth, 1.65 + 2 / n - 0.3 / depth, np.full(n.size, 1e-3))
    assert limit.value == pytest.approx(1.65, abs=1e-10)
    assert limit.low < 1.65 < limit.high and limit.chi_square < 1e-10


def test_the_common_value_of_estimates_that_disagree_is_less_certain():
    agree, apart = common([1.0, 1.1, 0.9], [0.1] * 3), common([0.0, 3.0, 1.0], [0.1] * 3)
    assert agree.value == pytest.approx(1.0)
    assert agree.standard_error == pytest.approx(0.1 / np.sqrt(3))
    assert apart.low < 0.5 < 2.0 < apart.high


def test_places_on_one_line_are_refused():
    with pytest.raises(DeepLimitsError, match="do not determine"):
        extrapolate([8, 16, 32], [8, 16, 32], [1, 1, 1], [0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    "arguments",
    [([1, 1], [1, 2]), ([1, 2], [1, -2]), ([1, 2], [1, np.nan]), ([1, 2, 3], [1, 2]), ([1, 2], [1, 2], [0, 1])],
)
def test_points_without_a_power_law_are_refused(arguments):
    with pytest.raises(DeepLimitsError):
        slope(*arguments)
