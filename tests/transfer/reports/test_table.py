"""Every report has one row in docs/transfer-reports.md, and one file of tests that carries its number."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNT = 37
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "transfer-reports.md").read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]
TESTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for folder in ("transfer", "integrations")
    for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
}


def test_every_report_once_and_in_order():
    assert [int(row[0]) for row in ROWS] == list(range(1, COUNT + 1))
    assert all(len(row) == 4 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"report {row[0]}")
def test_the_row_names_its_tests(row):
    number, source, _, where = row
    files = re.findall(r"`([^`]+)`", where)
    holding = {path for path, text in TESTS.items() if re.search(rf"def (?:test_)?report_{int(number):02d}_", text)}
    assert set(files) == holding
    assert files or len(where.split()) >= 5, "a test, or a sentence that says why there is none"
    for path in files:
        start = re.search(rf"def (?:test_)?report_{int(number):02d}_", TESTS[path])
        assert start is not None
        assert source.partition(",")[0].rpartition("/")[2] in TESTS[path][start.end() : start.end() + 400]
