"""Plans, coordinate checks and sweeps as a page and as figures: self-contained, every figure in words, by type."""

from __future__ import annotations

import json
import re
from math import inf

import numpy as np
import pytest
from PIL import Image

import deeplimits as dl
from deeplimits.errors import InputError
from deeplimits.numerics.fit import slope
from deeplimits.report.figures import exponents, growth, optima, rates
from deeplimits.transfer.evidence.coordinates import Coordinate, CoordinateCheck
from deeplimits.transfer.evidence.curves import summarise
from deeplimits.transfer.evidence.proof import Proof, proof
from tests.report.test_html import Page
from tests.transfer.models import Mlp

SIZES, GRID = (32, 64, 128), [float(k) for k in range(-8, 0)]
PLACES = [{"width": 32, "depth": 4}, {"width": 64, "depth": 8}, {"width": 128, "depth": 16}]


def coordinate(module, axis, power, predicted=(0.0, 0.0), verdict="pass", transient=""):
    values = tuple(0.1 * size**power for size in SIZES)
    errors = tuple(0.02 * value for value in values)
    fitted = slope(SIZES, values, errors)
    return Coordinate(module, axis, SIZES, values, errors, predicted, fitted, verdict, (values,), fitted, (), transient)


def check(rule, power, verdict):
    rows = (
        coordinate("logits", "width", power, verdict=verdict),
        coordinate("blocks.last", "width", power / 2, verdict="undecided"),
        coordinate("blocks.last.down", "depth", -1.0, (-1.0, -1.0), transient="transient at t = 0: size depth^-1.4"),
        coordinate("blocks.last", "depth", 0.02),
    )
    return CoordinateCheck(rule, "adamw", 4, 3, 0.2, rows, verdict)


def transfer(rule, centres, factors=(1.0, 0.8, 0.6), lost=0):
    rng = np.random.default_rng(0)
    centre = np.array(centres)[:, None, None] + 0.05 * rng.standard_normal((3, 1, 4))
    losses = np.array(factors)[:, None, None] * np.exp(0.3 * (np.array(GRID)[None, :, None] - centre) ** 2)
    if lost:
        losses[-1, -lost:] = inf
    return summarise(rule, PLACES, GRID, losses, schedule="60 steps")


RECORDS = [
    dl.transfer(Mlp, PLACES[0], PLACES[-1], "completep"),
    check("completep", 0.05, "pass"),
    check("sp", 0.9, "fail"),
    transfer("completep", (-4, -4.1, -4.1)),
    transfer("sp", (-3, -4.5, -6), (1.0, 1.1, 1.3), lost=2),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = dl.html(RECORDS, tmp_path_factory.mktemp("page") / "transfer.html", command="deeplimits transfer report mlp")
    return path, path.read_text(encoding="utf-8")


def test_page_refers_to_nothing_outside_itself(written):
    page = Page(written[1])
    assert [link for link in page.links if not link.startswith(("#", "data:,"))] == []
    assert len(page.ids) == len(set(page.ids))
    inner = {link[1:] for link in page.links if link.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", written[1]))
    assert inner <= set(page.ids)


def test_every_verdict_and_the_audit_are_shown(written):
    text = written[1]
    for words in ("Updates keep their size", "Updates do not keep their size", "Learning rates, completep: transfers"):
        assert words in text
    assert "Learning rates, sp: drifts" in text
    assert "32 tensors end residual branches" in text
    assert "blocks.*.down.weight (16)" in text
    assert "transient at t = 0" in text
    assert "8 runs diverged" in text
    assert "the largest model is worse than the base" in text


def test_every_figure_has_words_and_a_picture(written):
    drawings = [found for tag, found in Page(written[1]).tags if tag == "svg"]
    words = re.findall(r"<desc [^>]*>(.*?)</desc>", written[1])
    assert len(drawings) == len(words) == 4 + 4 + 2 + 2
    assert all(len(text) > 20 for text in words)
    for name in ("coordinates", "growth", "rates", "optima"):
        with Image.open(written[0].with_name(f"transfer-{name}.png")) as picture:
            assert picture.width > 1000


def test_record_is_in_the_page(written):
    block = re.search(r'<script type="application/json" id="record">(.*?)</script>', written[1], flags=re.DOTALL)[1]
    record = json.loads(block)
    assert [one["rule"] for one in record["checks"]] == ["completep", "sp"]
    assert record["transfers"][1]["verdict"] == "drifts"
    assert record["plan"]["rule"] == "completep"


@pytest.mark.parametrize("record", [RECORDS[0], RECORDS[3]], ids=["plan", "transfer"])
def test_each_has_a_page_alone(record, tmp_path):
    text = dl.html(record, tmp_path / "one.html").read_text()
    assert "<h1>" in text
    assert record.rule in text


def test_drawn_by_type():
    assert len([axes for axes in dl.plot(RECORDS[1]).axes if axes.get_title(loc="left")]) == 4
    titles = [axes.get_title(loc="left") for axes in dl.plot(RECORDS[4]).axes]
    assert titles[0].startswith("sp: optimum moves −")
    assert len(dl.plot(proof(RECORDS)).axes) == 12


def test_figures_show_the_numbers():
    width = exponents.exponents_data(RECORDS[2], "width")
    assert width.title == "sp, width: 1 of 2 fail"
    assert "logits +0.90 (fail)" in width.describe()
    assert exponents.exponents_data(RECORDS[1], "time") is None
    level = growth.growth_data(RECORDS[1], "depth")
    assert [row.module for row in level.rows] == ["blocks.last"]
    curves = rates.rates_data(RECORDS[4], RECORDS[3:])
    assert curves.limits == rates.rates_data(RECORDS[3], RECORDS[3:]).limits
    assert rates.means(RECORDS[4].curves[-1])[-2:] == [inf, inf]
    best = optima.optima_data(RECORDS[3:], "rate")
    assert best.rules == ("completep", "sp")
    assert best.values[1][-1] == pytest.approx(RECORDS[4].drift)
    assert optima.optima_data(RECORDS[3:], "loss").values[0][0] == RECORDS[3].curves[0].best_loss


def test_losses_of_any_sign_are_drawn():
    losses = np.stack([(np.array(GRID) + 4) ** 2 - 3] * 2, axis=1)[None].repeat(2, 0)
    dl.plot(summarise("mup", PLACES[:2], GRID, losses)).canvas.draw()


def test_a_size_that_does_not_train_is_told(tmp_path):
    losses = np.exp(0.1 * (np.array(GRID)[None, :, None] + 4) ** 2 + np.zeros((3, 8, 2)))
    losses[2] = inf
    found = summarise("sp", PLACES, GRID, losses)
    text = dl.html(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "every run diverged: none of 16 trained" in text and "2^nan" not in text and "nan octaves" not in text
    assert rates.rates_data(found).title == "sp: a size without an optimum"
    assert optima.optima_data([found], "rate") is None


def test_other_records_are_refused(tmp_path):
    with pytest.raises(InputError, match="a int is none of them"):
        proof([RECORDS[0], 3])
    with pytest.raises(InputError, match="no records"):
        proof([])
    with pytest.raises(InputError, match="has no page"):
        dl.html([RECORDS[1], 3], tmp_path / "page.html")
    assert isinstance(proof(RECORDS[:1]), Proof)


def test_drifts_that_are_not_known_are_no_numbers(tmp_path):
    """Optima at the edge of the grid: no drift, no span; beside divergence: a number, and that it is undecided."""
    losses = np.exp(-0.3 * np.array(GRID))[None, :, None] + np.zeros((2, 8, 2))
    edge = summarise("mup", PLACES[:2], GRID, losses)
    assert rates.rates_data(edge).title == "mup: optima at the edge of the grid"
    assert optima.optima_data([edge], "rate").beyond == ((1, 1),)
    text = dl.html(edge, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "0.00 octaves" not in text.partition('id="record"')[0] and "{'width'" not in text
    losses[:, -2:] = inf
    beside = summarise("mup", PLACES[:2], GRID, losses)
    assert rates.rates_data(beside).title == "mup: drift +0.00 octaves, undecided"


def test_means_above_the_axis_leave_a_mark():
    losses = np.exp(0.6 * (np.array(GRID)[None, :, None] + 6) ** 2 + np.zeros((2, 8, 2)))
    found = rates.rates_data(summarise("mup", PLACES[:2], GRID, losses))
    axes = dl.plot(found.transfer).axes[0]
    marks = [line.get_xdata() for line in axes.lines if line.get_marker() == "^"]
    assert [list(np.round(mark)) for mark in marks] == [[-3.0, -2.0, -1.0]] * 2 and found.limits[
        1
    ] == 60 * found.limits[0]
