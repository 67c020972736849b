"""The figure of kernels at finite width: means approach as 1/n, one network as n^-1/2, from a valid width on."""

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.report.figures import corrected_kernel as drawing

X = np.random.default_rng(0).standard_normal((3, 5))


def test_both_kernels_are_drawn_against_the_width():
    found = dl.kernel(dl.Mlp("tanh"), X, depth=2, corrections=True)
    (_, (nngp,)), (_, (ntk,)) = drawing.panels_of(found)
    for data, limit, at, spread in (
        (nngp, found.nngp, found.at(int(nngp.widths[-1])).nngp, found.spread(int(nngp.widths[-1])).nngp),
        (ntk, found.ntk, found.at(int(ntk.widths[-1])).ntk, found.spread(int(ntk.widths[-1])).ntk),
    ):
        assert data.shift[-1] == pytest.approx(np.linalg.norm(at - limit) / np.linalg.norm(limit))
        assert data.spread[-1] == pytest.approx(np.linalg.norm(spread) / np.linalg.norm(limit))
        assert data.shift[0] / data.shift[1] == pytest.approx(2) and data.title in data.describe()
    assert len(dl.plot(found).axes) == 2


def test_widths_that_the_description_forbids_are_left_out_and_single_kernels_stand_alone():
    orthogonal = dl.kernel(dl.Mlp("tanh", weights=dl.layer.Orthogonal()), X, depth=2, corrections=True)
    (_, (data,)), _ = drawing.panels_of(orthogonal)
    assert data.widths[0] == 8.0
    one = dl.kernel(dl.ResNet("relu"), X[:1], depth=3, get="nngp", corrections=True)
    assert len(drawing.panels_of(one)) == 1 and len(dl.plot(one).axes) == 1
