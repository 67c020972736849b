"""`deeplimits compare --estimators`: the table on the terminal, in the JSON and on the page."""

import json

import pytest

from deeplimits.cli import main

SMALL = ["compare", "resnet", "--data", "wine", "--scale", "standard", "--inputs", "3", "--widths", "8,16,32"]
SMALL += ["--depths", "2,4,8", "--networks", "10", "--estimators"]


@pytest.mark.slow
def test_table_everywhere(tmp_path, capsys):
    """Covers the whole command once as text with a page, once as JSON from the stored places."""
    out = ["--out", str(tmp_path)]
    assert main([*SMALL, *out]) == 0
    text = capsys.readouterr().out
    assert "Estimators on wine: 178 of 178 rows" in text
    assert text.count("NTK, ResNet, depth ") == 3 and "RBF support-vector machine" in text
    assert "As estimators" in (tmp_path / "plane.html").read_text(encoding="utf-8")
    assert main([*SMALL, *out, "--json", "--no-html"]) == 0
    found = json.loads(capsys.readouterr().out)["estimators"]
    assert len(found["entries"]) == 8
    assert min(entry["accuracy"] for entry in found["entries"]) > 0.9
    assert json.loads((tmp_path / "record.json").read_text())["estimators"]["data"] == found["data"]


def test_data_without_classes_is_refused(tmp_path, capsys):
    assert main(["compare", "resnet", "--data", "diabetes", "--estimators", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "--data diabetes comes without classes" in told and "digits, wine or breast-cancer" in told
