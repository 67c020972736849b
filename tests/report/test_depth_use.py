"""Figures of the use of depth: every measured curve stands beside an untrained one."""

import pytest

import deeplimits as dl
from deeplimits.diagnostics.record import DepthUse, Lens, Skips, Sublayer
from deeplimits.report.figures import depth_use

UPDATES = ((0.0, 0.7, 0.4), (0.0, 0.0, 0.5), (0.0, 0.0, 0.0))


def record(**change):
    made = {
        "model": "Gpt",
        "names": ("0", "1", "2"),
        "places": 8,
        "contribution": (2.0, 0.8, 0.5),
        "cosine": (0.0, 0.1, -0.2),
        "sizes": (1.0, 2.2, 2.9, 3.2),
        "sublayers": (Sublayer("attn", (1.0,) * 3, (0.1,) * 3),),
        "skips": Skips(UPDATES, (0.2, 0.1, 0.05), "max", None),
        "lens": Lens((2.0, 1.0, 0.3, 0.0), (0.1, 0.4, 0.7, 1.0), 5),
    }
    return DepthUse(**{**made, **change})


def test_nulls_are_drawn_beside_contributions_and_skips():
    figure = dl.plot(record())
    lines = [[list(line.get_ydata()) for line in axes.lines] for axes in figure.axes]
    assert pytest.approx([1.0, 2**-0.5, 3**-0.5]) in lines[0]
    assert pytest.approx([2.0, 0.8**0.5, (4 / 9) ** 0.5]) in lines[0]
    assert [0.0, 0.0, 0.0] in lines[1]
    assert pytest.approx([2**-0.5, 3**-0.5]) in lines[2]
    assert len(figure.axes[4].patches) == 3  # skips of an earlier block only


def test_what_was_not_measured_is_not_drawn():
    bare = record(skips=None, lens=None, sublayers=())
    assert len(depth_use.panels_of(bare)) == 2
    with pytest.raises(dl.DeepLimitsError, match="no skips were measured"):
        _ = bare.score
    assert record().score == pytest.approx((0.1 + 2 * 0.05) / 0.35)
    assert repr(bare) == "<DepthUse: Gpt, 3 blocks, contributions 2 to 0.5 (untrained: 0.667)>"


def test_every_panel_describes_itself():
    for _, (data,) in depth_use.panels_of(record()):
        assert len(data.describe()) > 40


def test_blocks_that_change_nothing_are_drawn():
    still = record(skips=Skips(((0.0,) * 3,) * 3, (0.0,) * 3, "mean", 4))
    assert len(dl.plot(still).axes[4].patches) == 3
