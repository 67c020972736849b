"""The page's table of estimators: shown after the families, escaped, kept in the record; absent when not asked for."""

import json
import re

import pytest

import deeplimits as dl
from deeplimits.inference.contest import Contest, Entry
from tests.report.records import comparison

ENTRIES = (
    Entry("NNGP, ResNet, depth ∞", 0.951, 0.008, 0.551, 0.013, 1.8, "readout_std 10"),
    Entry("RBF Gaussian process", 0.94, 0.008, 0.869, 0.011, 1.67, "length scale 2 x median distance"),
)
CONTEST = Contest("digits; 300 rows to fit", "by <evidence>", ENTRIES, ("NTK, MLP, depth ∞: grows & has no limit",))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "plane.html"
    return dl.html([comparison()], path, estimators=CONTEST).read_text(encoding="utf-8")


def test_table_is_shown_after_the_families(page):
    assert page.index("Every place in numbers") < page.index("As estimators") < page.index("Do it again")
    row = re.search(r'<tr><th scope="row">NNGP, ResNet, depth ∞</th>(.*?)</tr>', page)[1]
    assert re.findall(r"<td>(.*?)</td>", row) == ["95.1 ± 0.8 %", "0.551 ± 0.013", "1.80", "readout_std 10"]
    assert "by &lt;evidence&gt;." in page and "grows &amp; has no limit" in page


def test_record_holds_it(page):
    block = re.search(r'<script type="application/json" id="record">(.*?)</script>', page, flags=re.DOTALL)[1]
    assert json.loads(block)["estimators"] == json.loads(CONTEST.to_json())


def test_no_table_unless_asked_for(tmp_path):
    page = dl.html([comparison()], tmp_path / "plane.html").read_text(encoding="utf-8")
    assert "As estimators" not in page and '"estimators"' not in page
