"""Strong data processing coefficients beside exact divergences of small channels, and what they refuse."""

from itertools import product
from math import inf, log, nan

import numpy as np
import pytest
from scipy import stats

from deeplimits.errors import InputError
from deeplimits.numerics.contraction import drop_connect, dropout, gaussian_noise


def _divergence(p, q):
    kept = p > 0
    return float(np.sum(p[kept] * np.log(p[kept] / q[kept])))


def test_dropout_of_repeated_units_attains_its_coefficient():
    rate, units, p, q = 0.7, 3, np.array([0.9, 0.1]), np.array([0.3, 0.7])
    law = {}
    for mask in product((0, 1), repeat=units):
        chance = rate ** (units - sum(mask)) * (1 - rate) ** sum(mask)
        for letter in range(2):
            output = tuple((letter + 1) * np.array(mask))
            law.setdefault(output, np.zeros((2,)))[letter] += chance
    channel = np.array(list(law.values())).T
    assert _divergence(p @ channel, q @ channel) / _divergence(p, q) == pytest.approx(dropout(rate, units), rel=1e-12)


def test_one_weight_dropped_is_one_unit_dropped():
    assert drop_connect(0.3, 1, 1) == pytest.approx(dropout(0.3, 1), rel=1e-15)
    assert drop_connect(0.3, 2, 3) == pytest.approx(dropout(0.3, 6), rel=1e-15)


def test_noise_is_the_total_variation_of_opposite_corners():
    assert gaussian_noise(1.5, 4, 2.0) == pytest.approx(1 - 2 * stats.norm.sf(1.5), rel=1e-14)


def test_ends_of_the_range():
    assert dropout(0.0, 4) == 1 and dropout(1, 4) == 0
    assert dropout(1 - 1e-16, 1) == pytest.approx(2**-53, rel=1e-12)
    assert gaussian_noise(1.0, 1, 1e300) == pytest.approx(1e-300 * (2 / np.pi) ** 0.5, rel=1e-12)
    assert dropout(0.5, 10**9) == 1.0
    assert log(drop_connect(0.999, np.int64(1), 1)) == pytest.approx(log(1e-3), rel=1e-12)


@pytest.mark.parametrize("rate", [-0.1, 1.1, nan, inf, True, "half", None])
def test_what_is_no_chance_is_refused(rate):
    for call in (lambda: dropout(rate, 2), lambda: drop_connect(rate, 2, 2)):
        with pytest.raises(InputError, match="rate="):
            call()


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "2", nan])
def test_what_is_no_count_is_refused(count):
    calls = (
        lambda: dropout(0.5, count),
        lambda: drop_connect(0.5, count, 1),
        lambda: drop_connect(0.5, 1, count),
        lambda: gaussian_noise(1.0, count, 1.0),
    )
    for call in calls:
        with pytest.raises(InputError, match="whole number"):
            call()


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf, True, "1"])
def test_bounds_and_noise_are_positive(value):
    with pytest.raises(InputError, match="bound="):
        gaussian_noise(value, 2, 1.0)
    with pytest.raises(InputError, match="std="):
        gaussian_noise(1.0, 2, value)
