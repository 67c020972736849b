"""Figures of linear networks: what they say and show."""

from __future__ import annotations

from math import inf, nan

import numpy as np

import deeplimits as dl
from deeplimits.limits.training.linear.ask import deep_linear
from deeplimits.limits.training.linear.best_rate_record import BestRates
from deeplimits.report.figures import best_rates
from deeplimits.report.figures import deep_linear as drawing


def test_modes_and_loss():
    targets = np.arange(10.0, 0.0, -1.0)
    found = deep_linear(np.eye(10), np.diag(targets), layers=2, time=30.0, initial=0.01)
    data = drawing.modes_data(found)
    assert len(data.targets) == drawing.SHOWN
    assert data.targets[0] == 10 and data.targets[-1] == 1
    assert data.title == "2 matrices: strength of the modes (6 of 10)"
    assert "mode 0 from 0.01 to 10, target 10" in data.describe()
    axes = dl.plot(found).axes
    assert [ax.get_xlabel() for ax in axes] == ["rate × steps"] * 2
    assert len(axes[0].get_lines()) == 2 * drawing.SHOWN
    drawn = axes[1].get_lines()[0].get_ydata()
    np.testing.assert_allclose(drawn[0], found.loss[0])
    assert np.nanmin(drawn) > 1e-15 * drawn[0]


def test_infinitely_many_matrices_at_one_time():
    found = deep_linear(np.eye(2), [1.0, 2.0], layers=inf, time=[3.0])
    axes = dl.plot(found).axes
    assert axes[0].get_xlabel() == "matrices × rate × steps"
    assert axes[0].get_title("left") == "∞ matrices: strength of the modes"


def test_best_rates_beside_their_limit():
    rates = tuple(1.0 + np.linspace(-1, 1, 101) / n**0.5 for n in (64, 256))
    muP = BestRates("mup", 3, 1, (64, 256), rates, 1.0)
    assert best_rates.rates_data(muP).line == (1.0, 1.0)
    np.testing.assert_allclose(best_rates.distance_data(muP).line, best_rates.distance_data(muP).values)
    standard = BestRates("sp", 3, 2, (64, 256), rates, 0.0)
    assert best_rates.rates_data(standard).line == (4.0, 1.0)
    assert "best rate of 2 steps" in best_rates.rates_data(standard).title
    tangent = best_rates.distance_data(BestRates("ntp", 3, 1, (64, 256), rates, nan))
    assert tangent.title.endswith("their median") and len(set(tangent.line)) == 1
    assert len(dl.plot(muP).axes) == 2
