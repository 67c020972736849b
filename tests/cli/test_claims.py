"""`deeplimits claims`: lists, runs, resumes, refuses, and tells by its exit code what was found."""

import json

import pytest

from deeplimits.claims import registry
from deeplimits.claims import run as room
from deeplimits.claims.claim import from_json
from deeplimits.cli import main
from tests.claims.fake import Fake


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    for place in (registry, room):
        monkeypatch.setattr(place, "chosen", lambda asked=(): ["fake-2001-claim"])
        monkeypatch.setattr(place, "claim", lambda key: made.claim(key))
    monkeypatch.setattr(registry, "keys", lambda: ["fake-2001-claim"])
    return made


def test_list_runs_nothing(run):
    code, out, err = run("claims", "--list", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [one["key"] for one in found] == registry.keys()
    assert all(one["statement"] and one["source"] for one in found)
    code, out, _ = run("claims", "jacot-2018-ntk", "--list")
    assert code == 0
    assert "jacot-2018-ntk" in out.splitlines()[1]


def test_an_unknown_key_offers_the_nearest(run, tmp_path):
    code, out, err = run("claims", "jacot-2018-nkt", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "did you mean 'jacot-2018-ntk'" in err


def test_json_is_one_document(run, fake, tmp_path):
    code, out, err = run("claims", "--json", "--out", tmp_path)
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    names = {"key", "statement", "source", "predicted", "measured", "standard_error", "verdict", "seconds"}
    assert names <= set(found)
    assert (found["predicted"], found["measured"], found["verdict"]) == (1.0, 1.1, "confirmed")
    assert [part["test"] for part in found["parts"]] == ["a test"] * 2


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(("confirmed", "confirmed"), 0), (("confirmed", "undecided"), 0), (("not confirmed", "confirmed"), 1)],
)
def test_the_exit_code_tells_what_was_found(run, fake, tmp_path, verdicts, code):
    fake.verdicts = verdicts
    found, out, _ = run("claims", "--out", tmp_path)
    assert found == code
    assert "fake-2001-claim" in out
    assert f"record: {tmp_path / 'claims.json'}" in out


def test_an_interrupted_run_says_how_to_go_on_and_resumes(run, fake, tmp_path):
    fake.stop = "second"
    code, out, err = run("claims", "--out", tmp_path)
    assert (code, out) == (130, "")
    assert f"finished steps are kept in {tmp_path / 'steps'}" in err
    assert not (tmp_path / "claims.json").exists()
    fake.stop = None
    assert run("claims", "--out", tmp_path)[0] == 0
    assert fake.measured == ["first", "second"]
    assert run("claims", "--again", "--out", tmp_path)[0] == 0
    assert len(fake.measured) == 4


def test_markdown_is_made_from_the_stored_record(run, fake, tmp_path):
    code, out, err = run("claims", "--markdown", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "run deeplimits claims first" in err
    assert run("claims", "--out", tmp_path)[0] == 0
    code, out, _ = run("claims", "--markdown", "--out", tmp_path)
    assert code == 0
    assert out.splitlines()[-1] == ("| `fake-2001-claim` | first number | 1 | 1.10 ± 0.10 | confirmed | 2 of 2 |")
    assert len(fake.measured) == 2


def test_the_record_keeps_other_claims(run, fake, tmp_path, monkeypatch):
    assert run("claims", "--out", tmp_path)[0] == 0
    monkeypatch.setattr(registry, "keys", lambda: ["fake-2001-claim", "other-2002-claim"])
    for place in (registry, room):
        monkeypatch.setattr(place, "chosen", lambda asked=(): ["other-2002-claim"])
    assert run("claims", "--out", tmp_path)[0] == 0
    record = from_json((tmp_path / "claims.json").read_text())
    assert [one.key for one in record] == ["fake-2001-claim", "other-2002-claim"]


def test_the_page_is_written(run, fake, tmp_path):
    code, out, _ = run("claims", "--out", tmp_path, "--html", tmp_path / "page.html")
    assert code == 0
    assert f"report: {tmp_path / 'page.html'}" in out
    assert (tmp_path / "page-fake-2001-claim.png").exists()
