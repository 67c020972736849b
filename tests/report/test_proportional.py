"""The figure of a proportional limit: bands start together, laws stand over histograms, and nothing else is drawn."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

import deeplimits as dl
from deeplimits.report.figures import bands
from deeplimits.report.figures import proportional as drawing

PAIR = np.array([[1.0, 0.0], [0.2, sqrt(0.96)]]) * sqrt(2)


def test_a_shaped_perceptron():
    record = dl.proportional(dl.ShapedMlp(), 2 * PAIR, ratio=0.5, samples=400, steps=20)
    data = drawing.norm_data(record)
    assert data.times[-1] == 0.5 and data.bands[0].quantiles[0] == pytest.approx([np.log(4.0)] * 5)
    assert drawing.pair_data(record).bands[0].quantiles[0] == pytest.approx([0.2] * 5)
    law = drawing.norm_law(record)
    place = dict(law.known)
    assert max(place, key=lambda x: place[x]) == pytest.approx(np.log(4.0) - 0.5, abs=0.05)
    assert max(place.values()) == pytest.approx(stats.norm(0, 1).pdf(0), rel=1e-3)
    assert np.sum(np.diff(law.edges) * law.density) == pytest.approx(1.0, abs=0.02)
    assert "over it the density of N(-0.5, 1) about its start" in law.describe()
    assert len(dl.plot(record).axes) == 4


def test_angles_stand_in_for_correlations_that_are_one():
    record = dl.proportional(dl.Mlp("relu"), PAIR, ratio=0.5, samples=100, steps=16)
    assert drawing.pair_data(record).label == drawing.pair_law(record).label == "log of l² (1 − ρ)"
    assert "median from 3.79" in drawing.pair_data(record).describe()


def test_one_input_and_a_deterministic_limit():
    alone = dl.proportional(dl.ShapedMlp(), PAIR[:1], ratio=0.5, samples=50, steps=4, times=(1.0,))
    assert [draw for draw, _ in drawing.panels_of(alone)] == [drawing.draw_law]
    corner = dl.proportional(dl.ResNet("relu"), PAIR, ratio=0.5, samples=4, times=(0.0, 1.0))
    assert [draw for draw, _ in drawing.panels_of(corner)] == [bands.draw, bands.draw]
