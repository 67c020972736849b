"""`deeplimits criticality`: what it prints, its JSON, its figure, and what it refuses."""

import json

import pytest

from deeplimits.cli import main


@pytest.fixture
def run(capsys):
    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


def test_edge_in_words_and_numbers(run):
    code, out, err = run("criticality", "relu")
    assert (code, err) == (0, "")
    assert "Relu() at weight_std = 1.41421356237, bias_std = 0 is critical" in out
    assert "44.4132" in out
    assert "--out figure.png draws the phase diagram" in out


def test_json_is_one_document(run):
    code, out, err = run("criticality", "erf", "--bias-std", 0.05**0.5, "--weight-std", 1.2, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["phase"] == "chaotic"
    assert 0 < found["correlation"] < 1
    assert found["closing_constant"] is None
    code, out, _ = run("criticality", "erf", "--json")
    assert json.loads(out)["correlation_length"] == "inf"


def test_figure_is_written(run, tmp_path):
    path = tmp_path / "new" / "phase.png"
    code, out, _ = run("criticality", "erf", "--bias-std", "0.1", "--out", path)
    assert code == 0
    assert str(path) in out
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("tahn",), "did you mean 'tanh'"),
        (("relu", "--bias-std", "0.1"), "no edge with biases"),
        (("tanh", "--out", "figure.doc"), "is not a figure"),
        (("tanh", "--bias-std", "-1"), "bias_std=-1.0"),
    ],
)
def test_refused(run, words, told):
    code, out, err = run("criticality", *words)
    assert (code, out) == (2, "")
    assert told in err
