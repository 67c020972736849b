"""Quantiles and their standard errors."""

import numpy as np
import pytest
from scipy import stats

from deeplimits.numerics.quantiles import quantiles


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_standard_errors_are_those_of_repeated_samples(level):
    values = np.random.default_rng(0).standard_normal((2000, 400))  # 400 repetitions of 2000
    value, error = quantiles(values, [level])
    density = stats.norm.pdf(stats.norm.ppf(level))
    expected = np.sqrt(level * (1 - level) / 2000) / density
    assert value[0].std() == pytest.approx(expected, rel=4 / np.sqrt(2 * 400))
    assert error[0].mean() == pytest.approx(expected, rel=0.05)


def test_shapes_and_ends():
    value, error = quantiles(np.zeros((5, 2, 3)), [0.01, 0.99])
    assert value.shape == error.shape == (2, 2, 3) and not error.any()
