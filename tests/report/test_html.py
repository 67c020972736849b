"""The page: self-contained, the same bytes twice, its record readable again, its text safe."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

import deeplimits as dl
from deeplimits.plane.record import Comparison
from deeplimits.report.words import typeset
from tests.report.records import comparison


class Page(HTMLParser):
    """Tags, ids and references of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [found[name] for name in ("src", "href", "xlink:href", "data", "action") if name in found]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    records = [comparison(True), comparison(False)]
    path = dl.html(
        records, folder / "sub" / "plane.html", command="deeplimits compare resnet --against mlp", data="digits"
    )
    return records, path, path.read_text(encoding="utf-8")


def test_page_refers_to_nothing_outside_itself(written):
    page = Page(written[2])
    assert [link for link in page.links if not link.startswith(("#", "data:,"))] == []
    assert re.findall(r"url\((?!#)|@import", written[2]) == []
    scripts = [found for tag, found in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "record"}]


def test_ids_are_unique_and_every_reference_lands(written):
    page = Page(written[2])
    assert len(page.ids) == len(set(page.ids))
    inner = {link[1:] for link in page.links if link.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", written[2]))
    assert inner <= set(page.ids)


def test_every_figure_has_words(written):
    page = Page(written[2])
    drawings = [found for tag, found in page.tags if tag == "svg"]
    assert len(drawings) == 9
    for found in drawings:
        assert found["role"] == "img"
        assert set(found["aria-labelledby"].split()) <= set(page.ids)
        assert "width" not in found
        assert found["viewbox"]
    words = re.findall(r"<desc [^>]*>(.*?)</desc>", written[2])
    assert len(words) == 9
    assert all(len(text) > 20 for text in words)


def test_record_comes_back_from_the_page(written):
    records, _, text = written
    block = re.search(r'<script type="application/json" id="record">(.*?)</script>', text, flags=re.DOTALL)[1]
    found = json.loads(block)["comparisons"]
    assert [Comparison.from_json(json.dumps(one)) for one in found] == records


def test_page_says_verdict_command_seed_and_versions(written):
    text = written[2]
    for words in (
        "ResNet: width and depth commute",
        "MLP: width and depth do not commute",
        "deeplimits compare resnet --against mlp",
        "200 networks a place, seed 0",
        "deeplimits 0.1.0, Python 3.",
        "1,866 for one network",
        "Inputs: digits.",
    ):
        assert words in text


def test_text_of_a_record_is_escaped(written):
    assert "there is no limit: &lt;NTK&gt; grows as L &amp; does not stop" in written[2]
    assert "<NTK>" not in written[2]


def test_table_has_a_row_a_place(written):
    rows = re.findall(r"<tr><td>(\d+)</td><td>(\d+)</td>", written[2])
    assert len(rows) == 32
    assert rows[:2] == [("32", "16"), ("64", "16")]


def test_figures_lie_beside_the_page_as_png(written):
    _, path, text = written
    pictures = sorted(path.parent.glob("*.png"))
    assert [p.name for p in pictures] == [
        f"plane-{k}.png" for k in ("agreement", "depth", "diagonal", "plane", "width")
    ]
    for picture in pictures:
        with Image.open(picture) as image:
            assert min(image.size) > 500
            low, high = image.convert("L").getextrema()
            assert high - low > 150
        assert picture.name in text


def test_same_record_gives_the_same_bytes(written, tmp_path):
    records, path, text = written
    again = dl.html(records, tmp_path / "plane.html", command="deeplimits compare resnet --against mlp", data="digits")
    assert again.read_text(encoding="utf-8") == text
    for picture in path.parent.glob("*.png"):
        assert (tmp_path / picture.name).read_bytes() == picture.read_bytes()


def test_one_record_gives_its_call_of_compare(tmp_path):
    text = dl.html(comparison(True), tmp_path / "one.html").read_text(encoding="utf-8")
    assert "dl.compare(ResNet(activation=Relu()), X, widths=[32, 64, 128, 256]" in text.replace("&#34;", '"')


def test_undecided_record_without_a_diagonal(tmp_path):
    record = comparison(True)
    verdict = dataclasses.replace(record.verdict, word="undecided", slope=None, reason="too few places")
    text = dl.html(dataclasses.replace(record, rays=[], verdict=verdict), tmp_path / "u.html").read_text(
        encoding="utf-8"
    )
    assert "ResNet: undecided" in text
    assert "Width and depth together" not in text


@pytest.mark.parametrize("bad", [{}, [], [1]])
def test_html_refuses_what_it_cannot_draw(bad, tmp_path):
    with pytest.raises(dl.DeepLimitsError, match="html"):
        dl.html(bad, tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_html_names_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(dl.DeepLimitsError, match="cannot be written"):
        dl.html(comparison(True), tmp_path / "file" / "x.html")


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("L^-0.997, 99 %", "L<sup>−0.997</sup>, 99 %"),
        ("rms^2 = a^2/width", "rms<sup>2</sup> = a<sup>2</sup>/width"),
        ("[-1.3, -0.7]", "[−1.3, −0.7]"),
        ("max alpha -> 0", "max alpha → 0"),
        ("<script>", "&lt;script&gt;"),
        ("mlp-64", "mlp-64"),
    ],
)
def test_typeset(plain, shown):
    assert typeset(plain) == shown
