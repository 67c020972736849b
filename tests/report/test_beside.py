"""What the figures and the page of random limits show, read from their data rather than from pixels."""

import json
import math
import re

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.limits.diffusion import Diffusion
from deeplimits.limits.diffusion.closed_form import TwoSlopes
from deeplimits.limits.diffusion.regime import Point, Regime, small_time_drift
from deeplimits.plane.law_record import LEVELS, LawCheck, LawComparison, LawPlace, LawVerdict
from deeplimits.report import beside
from deeplimits.report.figures import bands, diffusion, laws, regime


def comparison(ratio, word="agrees"):
    """Laws that approach the limit as 1/size."""
    widths = [8, 32] if ratio else [1, 2]
    sizes = [(8, 4), (32, 16)] if ratio else [(1, 4), (1, 16), (2, 4), (2, 16)]
    places = []
    for width, depth in sizes:
        checks = []
        for name in ("log q[0]", "log q[1]", "c[0,1]"):
            predicted = [float(level) + width / 100 for level in LEVELS]
            measured = [value + 1 / depth for value in predicted]
            checks.append(LawCheck(name, 0.4 / depth, 0.5, measured, [0.02] * 5, predicted, [0.01] * 5))
        places.append(LawPlace(width, depth, 2000, 8000, 0, 0, 0, checks, "a limit <made up> & escaped"))
    verdict = LawVerdict(word, "the furthest law is 0.025 away", "a test", 0.1, 0.05)
    kind = "diagonal" if ratio else "top edge"
    depths = [4, 16]
    return LawComparison(
        "ShapedMlp()", kind, ratio, 2, 2, 2000, 8000, 0, widths, depths, places, verdict, ["a <note>"], "0.1.0"
    )


def record(width=1, inputs=1, samples=400):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((samples, inputs, width))
    rise = np.where(start > 0, np.exp(rng.standard_normal((samples, inputs, width)) - 0.5), 1.0)
    states = np.stack([start, start * rise])
    path = states @ states.swapaxes(2, 3) / width
    forms = tuple(TwoSlopes(0.0, 1.0, 1.0) for _ in range(inputs)) if width == 1 else ()
    return Diffusion(width, math.inf, 0, path[-1], np.array([0.0, 1.0]), path, 64, 0.0, "made up", closed_forms=forms)


def test_bands_are_the_quantiles_of_the_samples():
    data = diffusion.norm_data(record())
    logs = np.log(record().path[:, :, 0, 0])
    np.testing.assert_allclose(data.bands[0].quantiles, np.quantile(logs, bands.LEVELS, axis=1).T)
    assert "median from" in data.describe()
    assert bands.band("x", np.array([[1.0, np.nan, 3.0]])).quantiles[0][2] == 2.0


def test_the_histogram_is_a_density_beside_the_closed_form():
    data = diffusion.terminal_data(record())
    widths = np.diff(data.edges)
    assert float(np.sum(np.array(data.density) * widths)) == pytest.approx(1.0, abs=0.01)
    x, y = np.array(data.known).T
    assert float(np.trapezoid(y, x)) == pytest.approx(1.0, abs=0.02)
    assert data.p_value > 1e-3
    assert "closed-form law" in data.describe()
    wide = diffusion.terminal_data(record(width=3))
    assert wide.known == () and wide.p_value is None


def test_a_diffusion_shows_correlations_where_there_are_two_inputs():
    assert len(diffusion.panels_of(record())) == 2
    panels = diffusion.panels_of(record(width=3, inputs=5))
    assert len(panels) == 3
    assert [band.name for band in panels[2][1][0].bands] == ["inputs 0 and 1", "inputs 0 and 2", "inputs 0 and 3"]
    assert dl.plot(record(width=3, inputs=2)).axes


def test_the_regime_shows_where_the_sign_changes():
    points = tuple(Point(n, 100, small_time_drift(n), 0.005, small_time_drift(n), None, 0.0, 0) for n in (4, 2, 3))
    data = regime.regime_data(Regime(points, 0, 64))
    assert data.title == "the sign changes between widths 3 and 4"
    assert data.widths == (2, 3, 4) and "width 4" in data.describe()
    assert dl.plot(Regime(points, 0, 64)).axes
    coarse = tuple(Point(n, 100, small_time_drift(n), 0.02, small_time_drift(n), None, 0.0, 0) for n in (3, 4))
    assert regime.regime_data(Regime(coarse, 0, 64)).title == "surely negative up to width 3"


def test_distances_are_the_largest_of_every_place():
    data = laws.distance_data(comparison(0.5))
    assert data.curves[0].sizes == (8, 32) and data.curves[0].distance == pytest.approx((0.1, 0.025))
    assert "depth L = 0.5 n" in data.label and "margin 0.1" in data.describe()
    top = laws.distance_data(comparison(None))
    assert [(curve.width, curve.sizes) for curve in top.curves] == [(1, (4, 16)), (2, (4, 16))]
    assert top.curves[0].half[0] > data.curves[0].half[0]  # twice as many laws are judged together


def test_quantiles_stand_at_the_largest_size_of_every_width():
    data = laws.quantile_data(comparison(None), "c[0,1]")
    assert data.title == "c[0,1] at depth 16"
    assert data.measured[1][2] == pytest.approx(data.predicted[1][2] + 1 / 16)
    assert [p[1][0].title for p in laws.panels_of(comparison(0.5))][1:] == [
        "log q[0] at depth = 0.5 width",
        "c[0,1] at depth = 0.5 width",
    ]


def test_the_page_tells_verdicts_and_carries_the_record(tmp_path):
    one = comparison(0.5, "agrees")
    path = dl.html(one, tmp_path / "laws.html", data="made up")
    text = path.read_text(encoding="utf-8")
    assert re.findall(r'aria-hidden="true">(.)<', text) == ["✓"]
    assert "a &lt;note&gt;" in text and "<note>" not in text
    assert "widths=[8, 32], ratio=0.5, networks=2000" in text
    held = json.loads(re.search(r'id="record">(.*?)</script>', text, re.DOTALL)[1])
    assert LawComparison.from_json(json.dumps(held["comparisons"][0])) == one
    assert {file.name for file in tmp_path.glob("*.png")} == {"laws-laws0.png"}
    view = beside._view(comparison(None, "differs"), beside.KINDS[LawComparison], {})
    assert (view["mark"], view["title"]) == ("✗", "ShapedMlp: laws not as predicted")
    assert "depths=[4, 16, inf]" in view["call"]
