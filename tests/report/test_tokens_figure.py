"""The figure of tokens: what stands in it for every kind and dimension."""

from __future__ import annotations

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures import token_places
from deeplimits.report.figures.tokens import tokens_data


def gaussian(count, dimension):
    return np.random.default_rng(0).standard_normal((count, dimension))


@pytest.mark.parametrize(
    ("kind", "dimension", "shape", "options"),
    [
        ("softmax", 2, "circle", {"beta": 4.0}),
        ("unnormalised", 3, "ball", {}),
        ("softmax", 6, "ball", {}),
        ("hardmax", 2, "plane", {}),
        ("hardmax", 1, "line", {}),
        ("sinkhorn", 3, "plane", {"accuracy": 1e-2}),
    ],
)
def test_every_kind_has_its_picture(kind, dimension, shape, options):
    found = dl.tokens(kind, gaussian(9, dimension), np.arange(4), **options)
    data = tokens_data(found)
    assert data.shape == shape
    assert sum(size for _, size in data.ends) == 9
    paths, energy, clusters = dl.plot(found).axes
    assert (energy.get_title(loc="left"), clusters.get_title(loc="left")) == ("Energy", "Clusters")
    assert len(paths.collections) >= 9
    labels = paths.get_legend_handles_labels()[1]
    assert ("leader" in labels) == (kind == "hardmax")
    assert data.describe().startswith(data.title) and "9 tokens" in data.note


def test_time_runs_outwards_along_arcs_of_the_circle():
    found = dl.tokens("softmax", gaussian(5, 2), np.linspace(0, 3, 7))
    paths, _, share = token_places.circle(found)
    radius = np.linalg.norm(paths, axis=2)
    assert paths.shape == (6 * token_places.ARCS + 1, 5, 2) and share == 1.0
    np.testing.assert_allclose(radius, np.linspace(token_places.INNER, 1, len(paths))[:, None] * np.ones(5))
    np.testing.assert_allclose(paths[:: token_places.ARCS] / radius[:: token_places.ARCS, :, None], found.trajectory)


def test_waiting_times_are_seen_on_a_logarithmic_axis():
    pair = [[1.0, 0.0], [0.0, 1.0]]
    found = dl.tokens("softmax", pair, np.append(0.0, np.geomspace(0.1, 1e4, 40)), beta=8.0)
    figure = dl.plot(found)
    assert [axes.get_xscale() for axes in figure.axes[1:]] == ["symlog", "symlog"]
    times, counts = tokens_data(found).steps
    assert times[1] == found.merge_times[0] and counts.tolist() == [2, 1, 1]


def test_a_moment_and_points_on_a_line_can_be_drawn():
    assert len(dl.plot(dl.tokens("softmax", gaussian(3, 2), 0.0)).axes) == 3
    line = np.outer([1.0, 2.0, -1.0], [1.0, 1.0])
    assert len(tokens_data(dl.tokens("hardmax", line, 3)).hull) == 0
