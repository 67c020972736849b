"""The bound term by term, and what it is a bound of."""

from math import log, sqrt

import numpy as np
import pytest

from deeplimits.errors import InputError
from deeplimits.limits.training.machine.bound import bound

LOSSES, WEIGHTS, OUTPUTS = np.array([0.2, 3.0, 0.0]), np.array([1.0, -2.0, 0.5]), np.array([3.0, -1.0, 2.0])


def test_terms():
    found = bound("test", LOSSES, WEIGHTS, OUTPUTS, np.array([1.0, 2.0, 3.0]), 0.1)
    assert found.loss == pytest.approx(0.4) and found.norm == pytest.approx(sqrt(6)) and found.rows == 3
    assert found.complexity == pytest.approx(2 * sqrt(6) * sqrt(6) / 3)
    assert found.confidence == pytest.approx(3 * sqrt(log(20) / 6))
    assert found.total == pytest.approx(found.loss + found.complexity + found.confidence)
    expected = 0.4 + 2 * 4 * sqrt(6) / 3 + 3 * sqrt(log(2 * 12 / 0.1) / 6)  # the norm is at most 4 = 2^2
    assert found.total_any_norm == pytest.approx(expected)


def test_a_machine_that_is_zero():
    found = bound("test", LOSSES, np.zeros(3), np.zeros(3), np.ones(3), 0.1)
    assert found.complexity == 0 and found.total_any_norm >= found.total


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, np.nan, "0.1", None, True, [0.1]])
def test_a_delta_that_is_no_chance(delta):
    with pytest.raises(InputError, match="is not a chance between 0 and 1"):
        bound("test", LOSSES, WEIGHTS, OUTPUTS, np.ones(3), delta)
