"""What the figures show, read from their data rather than from pixels."""

import dataclasses
import math
from importlib import import_module
from itertools import pairwise

import pytest

import deeplimits as dl
from deeplimits.plane.record import Estimate
from deeplimits.report import theme
from deeplimits.report.figures import agreement, axes, depth, diagonal, plane, width
from deeplimits.report.figures.comparison import panels_of
from deeplimits.report.plot import _DRAWN
from tests.report.records import DEPTHS, WIDTHS, comparison


@pytest.fixture(scope="module")
def resnet():
    return comparison(True)


@pytest.fixture(scope="module")
def mlp():
    return comparison(False)


def test_plane_shows_every_place_and_its_edges(resnet, mlp):
    data = plane.plane_data(resnet)
    assert set(data.cells) == {(d, w) for d in DEPTHS for w in WIDTHS}
    assert data.cells[128, 32] == resnet.place(32, 128).log_rms.value
    assert data.edge[math.inf] == 1.6487
    assert data.edge[64] == pytest.approx((1 + 1 / 128) ** 64)
    assert plane.plane_data(mlp).edge[math.inf] is None
    assert "there is no corner" in plane.plane_data(mlp).describe()


def test_plane_falls_back_where_there_is_no_law(resnet):
    places = [dataclasses.replace(place, log_rms=None) for place in resnet.places]
    data = plane.plane_data(dataclasses.replace(resnet, places=places))
    assert data.quantity == "relative rms of the NNGP over networks"
    assert data.cells[16, 64] == resnet.place(64, 16).nngp.rms.value


def test_diagonal_sets_families_side_by_side(resnet, mlp):
    data = diagonal.diagonal_data([resnet, mlp])
    assert [one.name for one in data.series] == ["ResNet", "MLP"]
    assert data.title == "ResNet commutes, MLP does not"
    assert data.series[0].predicted is None
    assert data.series[1].predicted == pytest.approx([2.5] * 4)
    assert data.series[0].exponent[0] == resnet.verdict.slope.value
    fitted = data.series[0].fitted
    assert math.log(fitted[-1] / fitted[0]) / math.log(8) == pytest.approx(resnet.verdict.slope.value)


def test_diagonal_needs_two_places(resnet):
    assert diagonal.diagonal_data([dataclasses.replace(resnet, rays=[])]) is None


def test_width_draws_the_fit_only_where_it_holds(resnet):
    good = width.width_data(resnet)
    assert good.about == "corner"
    assert good.curves[0].fitted[0] == pytest.approx(math.sqrt(2.16**2 / 32 + 0.2**2 / 16**2))
    assert good.title == "ResNet: one network within 5 % at width 1,866"
    rate = dataclasses.replace(resnet.width_rates[0].rate, chi_square=1000.0)
    rates = [dataclasses.replace(resnet.width_rates[0], rate=rate)]
    poor = width.width_data(dataclasses.replace(resnet, width_rates=rates))
    assert poor.about == "right edge"
    assert all(curve.fitted is None for curve in poor.curves)


def test_depth_says_why_there_is_nothing_to_approach(resnet, mlp):
    assert depth.depth_data(resnet).title == "ResNet: depth error falls as 1/L"
    assert depth.depth_data(resnet).curves[0].exponent == pytest.approx(-1.0)
    assert depth.depth_data(mlp).describe() == mlp.corner


def test_agreement_prefers_the_exact_law(resnet, mlp):
    exact = agreement.agreement_data(mlp)
    assert exact.quantity == "mean and variance of log q"
    place, shown = mlp.places[5], exact.places[5]
    score = (place.log_variance.value - place.log_variance_predicted) / place.log_variance.error
    assert score in (pytest.approx(shown.low), pytest.approx(shown.high))
    entries = agreement.agreement_data(resnet)
    assert entries.places[0].worst == pytest.approx(resnet.places[0].nngp.z_max, abs=1e-9) or entries.places[0].low < 0
    assert max(abs(p.worst) for p in entries.places) == pytest.approx(max(p.nngp.z_max for p in resnet.places))


def test_measured_is_a_marker_with_a_bar_and_predicted_a_line(resnet, mlp):
    figure = dl.plot(mlp)
    first = figure.axes[0]
    lines = [line for line in first.lines if line.get_marker() in ("None", None, "") and len(line.get_xdata()) == 4]
    assert len(lines) == 1
    assert list(lines[0].get_ydata()) == pytest.approx([2.5] * 4)
    assert first.containers[0].has_yerr


def test_width_axes_tick_at_the_widths(resnet):
    figure = dl.plot(resnet)
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == [str(w) for w in WIDTHS]
    assert figure.axes[0].get_xscale() == "log"


def test_verdict_stands_in_the_title(resnet, mlp):
    assert dl.plot(resnet).axes[0].get_title(loc="left") == "ResNet: width and depth commute"
    assert dl.plot(mlp).axes[0].get_title(loc="left") == "MLP: width and depth do not commute"


def test_plot_leaves_matplotlib_as_it_was(resnet):
    import matplotlib

    before = dict(matplotlib.rcParams)
    dl.plot(resnet)
    assert dict(matplotlib.rcParams) == before


def test_plot_refuses_what_it_cannot_draw():
    with pytest.raises(dl.DeepLimitsError, match="a dict has no figure"):
        dl.plot({})


def test_every_panel_describes_itself(resnet, mlp):
    for record in (resnet, mlp):
        for _, (data,) in panels_of(record):
            assert len(data.describe()) > 20


def test_labels_are_spread_without_changing_their_order():
    placed = axes.spread([1.0, 1.01, 0.2, 1.02], 0.1)
    assert sorted(range(4), key=placed.__getitem__) == [2, 0, 1, 3]
    ordered = sorted(placed)
    assert min(b - a for a, b in pairwise(ordered)) >= 0.1 - 1e-6


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.25, "0.25"), (1234.0, "1234"), (3e-5, "3·10⁻⁵"), (1e-4, "10⁻⁴")]
)
def test_short_numbers(value, text):
    assert axes.short(value) == text


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_every_colour_stands_out_from_its_paper(paper):
    palette = {"light": theme.LIGHT, "dark": theme.DARK}[paper]
    declared = dict(item.strip().removeprefix("--").split(": ") for item in theme.css(paper).split(";") if item.strip())
    assert theme.contrast(palette["ink"], palette["paper"]) > 10
    assert theme.contrast(palette["muted"], palette["paper"]) > 4.5
    sizes = [theme.contrast(colour, palette["paper"]) for name, colour in declared.items() if name.startswith("size")]
    assert len(sizes) == theme.STOPS
    assert min(sizes) > 3


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_sizes_are_ordered_in_grey(paper):
    declared = dict(item.strip().removeprefix("--").split(": ") for item in theme.css(paper).split(";") if item.strip())
    grey = [theme.luminance(declared[f"size-{i}"]) for i in range(theme.STOPS)]
    ordered = sorted(grey, reverse=paper == "light")
    assert grey == ordered


def test_heat_is_ordered_in_grey_and_its_numbers_are_readable():
    cells = [theme.heat(i / 50) for i in range(51)]
    grey = [theme.luminance(fill) for fill, _ in cells]
    assert grey == sorted(grey, reverse=True)
    assert min(theme.contrast(fill, text) for fill, text in cells) > 4.5


def test_no_two_variables_share_a_light_colour():
    lights = [light for _, light, _ in theme._variables()]
    assert len(set(lights)) == len(lights)
    assert not set(lights) & {theme.heat(i / 997)[0] for i in range(998)}


def test_estimate_without_spread_is_drawn(resnet):
    places = [dataclasses.replace(place, log_rms=Estimate(0.0, 0.0)) for place in resnet.places]
    assert plane.plane_data(dataclasses.replace(resnet, places=places)).cells


@pytest.mark.parametrize(("kind", "home"), sorted(_DRAWN.items()))
def test_every_record_and_its_drawing_are_where_the_table_says(kind, home):
    module, name = kind.rsplit(".", 1)
    record = getattr(import_module(f"deeplimits.{module}"), name)
    drawn = import_module(f"deeplimits.report.{home}")
    assert record.__module__ == f"deeplimits.{module}" and record.__qualname__ == name
    assert hasattr(drawn, "panels_of") != hasattr(drawn, "figure")
