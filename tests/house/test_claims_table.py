"""The README's table of claims is the record of a full run, and the record knows every claim."""

from pathlib import Path

from deeplimits.claims.claim import from_json
from deeplimits.claims.registry import keys
from deeplimits.report.claims import markdown

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- claims: begin -->\n", "<!-- claims: end -->"
RECORD = from_json((ROOT / "docs" / "claims.json").read_text(encoding="utf-8"))


def test_readme_table_is_the_record():
    page = (ROOT / "README.md").read_text()
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == markdown(RECORD).strip()


def test_the_record_is_of_a_full_run_of_every_claim():
    assert [found.key for found in RECORD] == keys()
    assert {found.size for found in RECORD} == {"full"}
