"""The report in a real browser: no error, no request off the page, everything visible and readable, light and dark."""

import pytest

import deeplimits as dl
from deeplimits.report.theme import contrast
from tests.report.browser import Browser, program
from tests.report.records import comparison

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="no chromium or google-chrome on the path"),
]
VIEWS = [(400, "light"), (400, "dark"), (1280, "light"), (1280, "dark")]

FIGURES = """[...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('path, use, text')].filter(e => e.getBoundingClientRect().width > 0);
  return {width: box.width, height: box.height, left: box.left, right: box.right, marks: marks.length};
})"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALLEST = """Math.min(...[...document.querySelectorAll('figure svg text')].map(text => {
  const scale = text.getScreenCTM();
  return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
}))"""
COLOURS = """[...document.querySelectorAll('body *')].filter(e =>
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getBoundingClientRect().width > 0
  && !['SCRIPT', 'STYLE', 'TITLE', 'DESC', 'title', 'desc'].includes(e.tagName)).map(e => {
    const style = getComputedStyle(e), svg = e.closest('svg');
    let back = null;
    for (let up = svg ? svg.parentElement : e; up && !back; up = up.parentElement) {
      const own = getComputedStyle(up).backgroundColor;
      if (own !== 'rgba(0, 0, 0, 0)') back = own;
    }
    if (svg) {
      const box = e.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
      for (const path of svg.querySelectorAll('path')) {
        const area = path.getBoundingClientRect(), fill = getComputedStyle(path).fill;
        const around = area.left < x && x < area.right && area.top < y && y < area.bottom;
        if (around && area.height > box.height && fill !== 'none' && fill.startsWith('rgb(')) back = fill;
      }
    }
    return {text: e.textContent.trim().slice(0, 40), colour: svg ? style.fill : style.color, back};
  })"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return dl.html([comparison(True), comparison(False)], folder / "plane.html", command="deeplimits compare resnet")


@pytest.fixture(scope="module")
def browser():
    with Browser(program()) as started:
        yield started


def _hex(colour):
    channels = colour[colour.index("(") + 1 : -1].split(",")[:3]
    return "#" + "".join(f"{round(float(channel)):02x}" for channel in channels)


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_report_in_a_browser(page, browser, width, scheme):
    browser.open(page.as_uri(), width, 900, scheme)
    figures = browser.evaluate(FIGURES)
    assert len(figures) == 9
    for figure in figures:
        assert figure["width"] > 300
        assert figure["height"] > 200
        assert figure["left"] >= 0
        assert figure["right"] <= width
        assert figure["marks"] >= 3
    assert sum(figure["marks"] for figure in figures) > 300
    assert browser.evaluate(OVERFLOW) == 0
    assert browser.evaluate(SMALLEST) > 7.5
    assert browser.evaluate("JSON.parse(document.getElementById('record').textContent).comparisons.length") == 2
    requests = [event["request"]["url"] for event in browser.seen("Network.requestWillBeSent")]
    assert [url for url in requests if url != page.as_uri() and not url.startswith("data:")] == []
    assert browser.seen("Runtime.exceptionThrown") == []
    assert browser.seen("Log.entryAdded") == []
    assert browser.seen("Runtime.consoleAPICalled") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(page, browser, scheme):
    browser.open(page.as_uri(), 1280, 900, scheme)
    texts = browser.evaluate(COLOURS)
    assert len(texts) > 200
    faint = {(t["text"], t["colour"], t["back"]) for t in texts if contrast(_hex(t["colour"]), _hex(t["back"])) < 4.5}
    assert faint == set()
    paper = _hex(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    assert (contrast(paper, "#ffffff") < 1.1) == (scheme == "light")
