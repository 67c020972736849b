"""The figure of a gradient flow: the law over x or in order, a loss that falls, modes whose shares add up."""

from math import inf

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures import gradient_flow as drawing

X = np.linspace(-1, 1, 6)[:, None]
NET = dl.Mlp("erf", weight_std=2.0, bias_std=0.5)


def test_numbers_are_drawn_over_themselves():
    new = np.array([[0.5], [-1.5], [0.0]])
    flow = dl.gradient_flow(NET, X, X[:, 0], new, depth=1, time=[0.0, 1.0, 2.0, 3.0, 5.0, inf])
    law = drawing.law_data(flow)
    assert law.x == (-1.5, 0.0, 0.5) and law.times == (0.0, 2.0, 3.0, inf) and len(law.rows) == 6
    assert law.means[-1] == tuple(flow.mean[-1, [1, 2, 0]]) and law.stds[0] == tuple(flow.std[0, [1, 2, 0]])
    loss = drawing.loss_data(flow)
    assert np.all(np.diff(loss.total) < 0) and np.all(np.array(loss.total) > loss.of_mean)
    assert loss.asked == (1.0, 2.0, 3.0, 5.0)
    modes = drawing.modes_data(flow)
    assert sum(modes.shares) == pytest.approx(1.0) and modes.lifetimes[0] == 1 / flow.eigenvalues[0]
    assert "6 modes" in modes.describe() and "At time ∞" in law.describe()
    assert len(dl.plot(flow).axes) == 4


def test_rows_of_several_numbers_stand_in_order_and_steps_are_whole():
    rows = np.random.default_rng(0).standard_normal((5, 3))
    y = np.stack([rows[:, 0], rows[:, 1]], axis=1)
    flow = dl.gradient_flow(NET, rows, y, depth=1, time=9, rule="gd", rate=0.05)
    law = drawing.law_data(flow)
    assert law.x == (0.0, 1.0, 2.0, 3.0, 4.0) and law.means[0] == tuple(sorted(flow.mean[:, 0])) and law.rows == ()
    assert "first output" in law.title and drawing.loss_data(flow).times[0] == 1.0
    assert len(dl.plot(flow).axes) == 4


def test_a_kernel_that_vanishes_has_no_modes():
    flow = dl.gradient_flow(dl.Mlp("relu"), np.zeros((2, 3)), [1.0, 2.0], depth=1, time=3.0)
    assert flow.loss == pytest.approx(2.5)
    assert [draw for draw, _ in drawing.panels_of(flow)] == [drawing.draw_law]
    assert dl.plot(flow).axes
