"""Every command at a small size: what it prints where, its JSON, its files, its exit code."""

import json
import math
import re

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.cli import main
from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.record import Comparison

SMALL = ["--widths", "8,16,32", "--depths", "4,8,16", "--networks", "30", "--inputs", "3"]


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


def test_kernel_prints_a_summary(run):
    code, out, err = run("kernel", "resnet", "--rows", "10")
    assert (code, err) == (0, "")
    assert "digits: 10 of 1797 rows" in out
    assert re.search(rf"NNGP +{(1 + 1 / 128) ** 64:.6g}", out)


def test_kernel_json_is_one_document(run):
    code, out, err = run("kernel", "resnet", "--depth", "inf", "--rows", "5", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert np.diag(found["nngp"]) == pytest.approx([math.exp(0.5)] * 5, rel=1e-10)
    assert np.diag(found["ntk"]) == pytest.approx([2.5 * math.exp(0.5)] * 5, rel=1e-10)
    assert "flow" in found["limit"]


def test_kernel_writes_matrices(run, tmp_path):
    path = tmp_path / "new" / "k.npz"
    code, out, _ = run(
        "kernel", "mlp", "--activation", "erf", "--depth", "3", "--data", "wine", "--get", "ntk", "--out", path
    )
    assert code == 0
    assert str(path) in out
    with np.load(path) as archive:
        assert archive.files == ["ntk"]
        assert archive["ntk"].shape == (178, 178)
        np.testing.assert_allclose(archive["ntk"], archive["ntk"].T)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["resnt"], "did you mean 'resnet'"),
        (["mlp", "--activation", "rleu"], "did you mean 'relu'"),
        (["mlp", "--data", "digit"], "did you mean 'digits'"),
        (["mlp", "--depth", "0"], "'0' is not a whole number"),
        (["mlp", "--depth", "2,3"], "2 depths"),
        (["mlp", "--get", "nkt"], "did you mean 'ntk'"),
        (["mlp", "--json"], "1797 rows make a document too large"),
        (["mlp", "--out", "k.npy"], "is not a .npz file"),
        (["mlp", "--depht", "3"], "Did you mean --depth"),
        ([], "requires an argument"),
        (["mlp", "--depth", "inf", "--rows", "3"], "NTK"),
    ],
)
def test_bad_input_is_told_in_words(run, words, expected):
    code, out, err = run("kernel", *words)
    assert (code, out) == (2, "")
    assert re.search(re.escape(expected), err)
    assert err.startswith("error: ")
    assert "\nfix: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["kernel", "compare"])
def test_out_that_cannot_be_written(run, tmp_path, command):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / ("k.npz" if command == "kernel" else "report")
    code, out, err = run(command, "mlp", "--out", place, *(["--rows", "3"] if command == "kernel" else []))
    assert (code, out) == (2, "")
    assert "cannot be written" in err


def test_text_column_is_named(run, tmp_path):
    (tmp_path / "iris.csv").write_text("width,species\n1.0,setosa\n2.0,virginica\n")
    code, out, err = run("kernel", "mlp", "--data", tmp_path / "iris.csv")
    assert (code, out) == (2, "")
    assert "'species' holds text ('setosa' at row 0)" in err


def test_unknown_command_offers_the_nearest(run):
    code, _, err = run("compar")
    assert code == 2
    assert 'Did you mean "compare"' in err


@pytest.mark.slow
def test_compare_prints_writes_and_resumes(run, tmp_path):
    out_folder = tmp_path / "report"
    code, out, err = run("compare", "resnet", "--against", "mlp", "--get", "nngp", "--out", out_folder, *SMALL)
    assert code == 0
    assert out.count("VERDICT: ") == 2
    assert "digits: 3 of 1797 rows" in err
    page = out_folder / "plane.html"
    assert f"report: {page}" in out
    text = page.read_text(encoding="utf-8")
    assert "ResNet" in text
    assert "MLP" in text
    assert len(list(out_folder.glob("plane-*.png"))) == 5
    record = json.loads((out_folder / "record.json").read_text())
    assert [Comparison.from_json(json.dumps(one)).networks for one in record["comparisons"]] == [30, 30]
    stored = {path: path.stat().st_mtime_ns for path in (out_folder / "places").iterdir()}
    assert len(stored) == 18
    code, again, _ = run(
        "compare", "resnet", "--against", "mlp", "--get", "nngp", "--out", out_folder, "--no-html", *SMALL
    )
    assert code == 0
    assert again.split("record: ")[0] == out.split("record: ")[0]
    assert {path: path.stat().st_mtime_ns for path in (out_folder / "places").iterdir()} == stored


def test_compare_json_is_one_document(run, tmp_path):
    words = ["--get", "nngp", "--no-html", "--json", "--out", tmp_path, *SMALL]
    code, out, _ = run("compare", "resnet", *words)
    assert code == 0
    found = json.loads(out)
    record = Comparison.from_json(json.dumps(found["comparisons"][0]))
    assert record.widths == [8, 16, 32]
    assert "report" not in found
    assert not list(tmp_path.glob("*.html"))


def test_compare_on_the_diagonal_prints_and_writes(run, tmp_path):
    words = ["--ratio", "0.5", "--widths", "8,32", "--networks", "400", "--out", tmp_path]
    code, out, err = run("compare", "shaped-mlp", *words)
    assert code == 0
    assert "VERDICT: UNDECIDED (the predicted law)" in out
    assert re.search(r"take \d+\s+networks", out)
    assert "digits: 2 of 1797 rows" in err and "1 x 2 places, 400 networks each" in err
    code, out, _ = run("compare", "shaped-mlp", *words, "--json", "--no-html")
    record = LawComparison.from_json(json.dumps(json.loads(out)["comparisons"][0]))
    assert (record.ratio, record.depths, record.inputs) == (0.5, [4, 16], 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["resnet", "--ratio", "0.5", "--depths", "4"], "--depths and --ratio both"),
        (["mlp", "--ratio", "0.3"], "ratio=0.3 times width=16 is 4.8, no depth"),
        (["mlp", "--ratio", "-1"], "ratio=-1.0 is not a positive number"),
        (["resnet", "--depths", "4,inf", "--estimators"], "no part of a comparison of laws"),
        (["shaped-mlp:c_pls=1", "--ratio", "1"], "did you mean 'c_plus'"),
    ],
)
def test_compare_refuses_laws_that_cannot_be(run, tmp_path, words, expected):
    code, out, err = run("compare", *words, "--out", tmp_path)
    assert (code, out) == (2, "")
    assert expected in err


def test_interrupted_compare_says_how_to_go_on(run, tmp_path, monkeypatch):
    from deeplimits.plane import compare

    done = []

    def stop(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(arguments[-2:])
        return place(*arguments)

    place = compare._place
    monkeypatch.setattr(compare, "_place", stop)
    words = ["compare", "resnet", "--get", "nngp", "--no-html", "--out", tmp_path, *SMALL]
    code, out, err = run(*words)
    assert (code, out) == (130, "")
    assert f"finished places are kept in {tmp_path / 'places'}" in err
    assert len(list((tmp_path / "places").iterdir())) == 2
    monkeypatch.setattr(compare, "_place", lambda *arguments: done.append(arguments[-2:]) or place(*arguments))
    assert run(*words)[0] == 0
    assert len(done) == 9
    assert len(set(done)) == 9


def test_coverage_lists_every_rule(run):
    code, out, _ = run("coverage", "--json")
    assert code == 0
    table = json.loads(out)
    assert table["Dense"]["kernel"] == "rule"
    assert table["Relu"]["build"] == "rule"
    assert {"rule", "-"} <= {answer for row in table.values() for answer in row.values()}
    markdown = run("coverage", "--markdown")[1].splitlines()
    assert markdown[0].startswith("| layer | ")
    assert {layer for line in markdown[2:] for layer in line.split("|")[1].strip().split(", ")} == set(table)
    plain = run("coverage")[1].splitlines()
    assert len(plain) == len(table) + 1


def test_cite_prints_what_a_network_uses(run):
    code, out, _ = run("cite")
    assert code == 0
    assert out.count("@") == 1
    assert f"version = {{{dl.__version__}}}" in out
    code, out, _ = run("cite", "resnet", "--limit", "kernel")
    assert "@inproceedings{jacot-2018-ntk," in out
    assert "@article{hayou-2023-commute-ii," in out
    assert "mezzadri" not in out
    entries = json.loads(run("cite", "mlp", "--activation", "gelu", "--json")[1])
    assert "cho-saul-2009" not in entries["used"]
    assert set(entries["entries"]) == {"deeplimits", *entries["used"]}
    code, _, err = run("cite", "mlp", "--limit", "kernl")
    assert code == 2
    assert "did you mean 'kernel'" in err


@pytest.mark.slow
def test_doctor_finds_all_well(run):
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert [check["name"] for check in found["checks"] if not check["passed"]] == []
    assert (code, found["healthy"]) == (0, True)
    assert found["facts"]["deeplimits"] == dl.__version__


def test_doctor_fails_where_a_check_fails(run, monkeypatch):
    from deeplimits.cli import checks

    def broken():
        raise ValueError("no such number")

    monkeypatch.setattr(checks, "CHECKS", {"well": lambda: (True, "1"), "ill": broken})
    code, out, _ = run("doctor")
    assert code == 1
    assert re.search(r"FAILED +ill +ValueError: no such number", out)
    assert "something is wrong" in out
