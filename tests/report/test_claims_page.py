"""Findings as a page and as figures: self-contained, every figure in words, the record readable again."""

import json
import re

import pytest
from PIL import Image

import deeplimits as dl
from deeplimits.claims.claim import Finding, Panel, Part, from_json
from deeplimits.claims.run import _run
from deeplimits.claims.store import Store
from deeplimits.errors import InputError
from deeplimits.report.figures import claim, parts
from tests.claims.fake import Fake
from tests.report.test_html import Page


def findings(*verdicts):
    made = [Fake(verdicts=(verdict, "confirmed")).claim(f"fake-200{i}-claim") for i, verdict in enumerate(verdicts)]
    return list(_run(made, "full", Store(None), False, None))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    found = findings("confirmed", "not confirmed", "undecided")
    path = dl.html(found, tmp_path_factory.mktemp("page") / "claims.html", command="deeplimits claims")
    return found, path, path.read_text(encoding="utf-8")


def test_page_refers_to_nothing_outside_itself(written):
    page = Page(written[2])
    assert [link for link in page.links if not link.startswith(("#", "data:,"))] == []
    assert len(page.ids) == len(set(page.ids))
    inner = {link[1:] for link in page.links if link.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", written[2]))
    assert inner <= set(page.ids)


def test_every_verdict_is_shown(written):
    assert "1 of 3 claims confirmed" in written[2]
    for word in ("fake-2000-claim: confirmed", "fake-2001-claim: not confirmed", "fake-2002-claim: undecided"):
        assert word in written[2]
    assert written[2].count("<td>a test</td>") == 6


def test_every_figure_has_words(written):
    drawings = [found for tag, found in Page(written[2]).tags if tag == "svg"]
    assert len(drawings) == 9
    words = re.findall(r"<desc [^>]*>(.*?)</desc>", written[2])
    assert all(len(text) > 20 for text in words)


def test_record_comes_back_from_the_page(written):
    block = re.search(r'<script type="application/json" id="record">(.*?)</script>', written[2], flags=re.DOTALL)[1]
    assert from_json(json.dumps(json.loads(block))) == written[0]


def test_pictures_lie_beside_the_page(written):
    for found in written[0]:
        with Image.open(written[1].with_name(f"claims-{found.key}.png")) as picture:
            assert picture.width > 1000


def test_a_mixed_list_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no page"):
        dl.html([*findings("confirmed"), 3], tmp_path / "page.html")


def test_a_finding_is_drawn():
    (found,) = findings("confirmed")
    assert isinstance(found, Finding)
    figure = dl.plot(found)
    assert [axes.get_title(loc="left") for axes in figure.axes][:3] == [
        "first", "second", "Every number in the region of its test"
    ]  # fmt: skip
    assert len(found.figure().axes) == len(figure.axes)


def test_parts_are_placed_in_their_regions():
    made = [
        Part("inside", 1.0, 1.25, 0.1, "", "confirmed", 0.5, 1.5),
        Part("one end only", 1.0, 2.0, 0.1, "", "confirmed", 1.0),
        Part("outside", 1.0, 3.0, 0.1, "", "not confirmed", 0.5, 1.5),
    ]
    data = parts.parts_data(made)
    assert [(row.rank, row.place) for row in data.rows] == [(1, 0.5), (3, 4.0)]
    assert "1 lie inside" in data.describe()
    assert "Outside: outside" in data.describe()
    assert parts.parts_data(made[1:2]) is None


@pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
def test_scales(scale):
    from deeplimits.claims.claim import Curve
    from deeplimits.report.plot import sheet

    curves = [
        Curve("a", [1.0, 1000.0], [1.0, 20.0], [0.1, 0.1], [1.0, 21.0]),
        Curve("b", [1.0, 1000.0], None, None, [2.0, 3.0]),
    ]
    data = claim.claim_data(Panel("title", "depth", "norm", curves, "log", scale))
    figure = sheet([(claim.draw, (data,))], columns=1)
    figure.canvas.draw()
    assert figure.axes[0].get_yscale() == scale
    assert "a: from 1 at 1 to 20 at 1000." in data.describe()
