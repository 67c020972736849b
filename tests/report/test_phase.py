"""The phase diagram: what stands in the figure."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures.phase import phase_data


def test_the_figure_shows_the_edge_the_point_and_the_phases():
    edge = dl.criticality("erf", 0.2)
    axes, bar = dl.plot(edge).axes
    assert axes.get_title(loc="left") == "Erf: phases at infinite width"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight_std", "bias_std")
    assert bar.get_ylabel() == "correlation length (layers)"
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["edge of chaos, χ = 1", "the point asked about"]
    assert {text.get_text() for text in axes.texts} == {"ordered", "chaotic"}
    line = next(line for line in axes.lines if line.get_label() == "edge of chaos, χ = 1")
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert np.interp(0.2, y, x) == pytest.approx(edge.weight_std, rel=1e-4)


def test_regions_without_a_variance_are_named():
    axes = dl.plot(dl.criticality("relu")).axes[0]
    assert {text.get_text() for text in axes.texts} == {"ordered", "variance explodes"}


def test_the_figure_describes_itself():
    words = phase_data(dl.criticality("erf", 0.2).diagram()).describe()
    assert "the edge of chaos runs from (weight_std, bias_std) = (0.886, 0)" in words
