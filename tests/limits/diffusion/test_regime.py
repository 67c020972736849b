"""Width 2 as a PDE of the angle, and the sign of the drift of log|relu(X)| against the width."""

from math import inf

import numpy as np
import pytest

from deeplimits.errors import InputError
from deeplimits.limits.diffusion import late_drift, regime, small_time_drift, width_two
from deeplimits.limits.diffusion.angle import CELLS, _solve


def test_width_two_has_these_numbers():
    found = width_two([0.0, 1.0, 5.0, 15.0, 30.0])
    np.testing.assert_allclose(found.positive, [4 / 3, 1.3063, 1.1975, 1.0779, 1.0233], atol=5.1e-5)
    np.testing.assert_allclose(found.log_norm[:2], [0.0, -0.1696], atol=5.1e-5)


def test_its_grid_is_of_order_two_and_the_error_covers_it():
    times = np.array([0.3, 1.0, 8.0])
    grids = [_solve(times, cells) for cells in (CELLS, 2 * CELLS, 4 * CELLS)]
    ratio = (grids[1] - grids[0]) / (grids[2] - grids[1])
    assert (np.abs(ratio - 4) < 0.2).all()
    found, finest = width_two(times), grids[2] + (grids[2] - grids[1]) / 3
    assert np.abs(found.positive - 1 - finest[0]).max() < found.error / 10


def test_its_drifts_are_those_of_small_and_of_large_times():
    early, late = width_two([1e-3]), width_two([60.0, 61.0])
    assert early.log_norm[0] / 1e-3 == pytest.approx(small_time_drift(2), rel=5e-3)
    assert np.diff(late.log_norm)[0] == pytest.approx(late_drift(2), abs=3e-3)


def test_weight_std_is_a_change_of_time():
    assert width_two([0.25], weight_std=2.0).positive[0] == pytest.approx(width_two([1.0]).positive[0], rel=1e-12)


def test_the_drift_changes_sign_between_three_and_four():
    drifts = [small_time_drift(n) for n in (1, 2, 3, 4, 5, 8, 32, inf)]
    np.testing.assert_allclose(drifts, [-0.5, -0.1667, -0.0476, 0.0167, 0.0581, 0.1260, 0.2188, 0.25], atol=5.1e-5)
    assert late_drift(inf) == 0.25


def test_sampled_growth_is_the_exact_one_at_widths_one_and_two():
    found = regime((1, 2, 32), samples=1500, seed=1, steps=32)
    for point in found.points[:2]:
        assert abs(point.value - point.exact) < 4 * point.error + point.step_error
        assert point.samples + point.dead < 1500
    wide = found.points[2]
    assert wide.exact is None and wide.dead == 0
    assert abs(wide.value - wide.predicted) < 4 * wide.error + wide.step_error + 1 / 32**2


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: width_two([1.0, -2.0]), r"times\[1\] is -2.0"),
        (lambda: width_two([np.nan]), r"times\[0\] is nan"),
        (lambda: small_time_drift(0), "width=0 is not a whole number >= 1"),
        (lambda: late_drift(2.5), "width=2.5"),
        (lambda: regime((3,), steps=7), "steps=7 is odd"),
        (lambda: regime((3,), samples=1), "samples=1"),
    ],
)
def test_bad_input(ask, words):
    with pytest.raises(InputError, match=words):
        ask()
