"""`deeplimits transfer`: targets are read or refused in words, and every command does what the library does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import optuna
import pytest

from deeplimits.cli import main
from deeplimits.cli import read as reading
from deeplimits.cli.transfer import options
from deeplimits.errors import InputError
from deeplimits.transfer.plan import Plan

MODULE = """
import os
import time
import torch
from torch import nn

three = 3

def wide(width):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))

def words(width, depth):
    return nn.Sequential(nn.Embedding(17, width), nn.Linear(width, 17))

def other(width):
    return nn.Sequential(nn.Linear(63, width), nn.ReLU(), nn.Linear(width, 10))

def number(width):
    return 3

def breaks(width):
    raise ValueError("as it should")

def layers(n_layers):
    return nn.Linear(2, 2)

def quick(model, groups, seed):
    return float(sum(group["lr"] for group in groups) + model[0].out_features + 2 - 4 * (groups[0]["lr"] == 0.25))

def stops(model, groups, seed):
    if seed == 1 and model[0].out_features == 64 and not os.path.exists("mended"):
        torch.zeros(2).reshape(3)
    return quick(model, groups, seed)

def slow(model, groups, seed):
    print("training", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MODULE)

    def call(*words):
        code = main(["transfer", *map(str, words)])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plan", "nothing.here:make"], "no module 'nothing' is found"),
        (["plan", "mine:wid"], "did you mean 'wide'"),
        (["plan", "mine:three"], "it is no function"),
        (["plan", "mine"], "names no function"),
        (["plan", "mine:layers"], "takes (n_layers): it cannot be called with width= and depth= alone"),
        (["plan", "mine:number"], "mine:number(width=32) is no torch.nn.Module: int"),
        (["plan", "mine:breaks"], "mine:breaks(width=32) raised ValueError: as it should"),
        (["plan", "mine:wide", "--depth", "3"], "mine:wide takes no depth"),
        (["plan", "mine:wide", "--width", "a"], "'a' is not a whole number"),
        (["plan", "mlp", "--rule", "mupp"], "did you mean 'mup'"),
        (["plan", "mlp", "--optimizer", "adamm"], "no known family"),
        (["plan", "mine:wide", "--save", "mine.py/plan.json"], "cannot be written"),
        (["plan", "mine:wide", "--lr", "-1"], "lr=-1.0"),
        (["plan", "mine:wide", "--lr", "0.1", "--weight-decay", "-0.1"], "weight_decay=-0.1"),
        (["check", "mine:wide", "--lr", "-1"], "lr=-1.0"),
        (["sweep", "mine:wide", "--weight-decay", "-1"], "weight_decay=-1.0"),
        (["check", "mine:wide", "--width", "32"], "both axes have one size"),
        (["sweep", "mine:other", "--lr", "0.1,0.2,0.4"], "takes neither the bundled digits nor text"),
        (["sweep", "mine:wide", "--lr", "2^-3..2^-5"], "falls"),
        (["sweep", "mine:wide", "--lr", "-1"], "not a learning rate above zero"),
        (["sweep", "mlp", "--width", "32,64", "--depth", "4,8,16"], "--width has 2, --depth has 3"),
        (["sweep", "mine:wide", "--train", "mine:nothing"], "'mine' has no 'nothing'"),
        (["sweep", "mine:wide", "--store", "mine.py/runs.db"], "cannot be written"),
        (["sweep", "mlp", "--seeds", "1"], "seeds=1"),
        (["report", "mlp", "--seeds", "1"], "seeds=1"),
        (["report", "mlp", "--width", "32,64", "--depth", "4,8"], "an exponent with an interval needs three sizes"),
        (["rules", "explain", "muP"], "did you mean 'mup'"),
    ],
)
def test_bad_input_is_refused_in_words(run, words, told):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert "fix: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["sweep", "report"])
def test_too_few_seeds_are_refused_before_any_work(run, tmp_path, monkeypatch, command):
    for worker in ("make.transfer", "evidence.sweep.lr_transfer", "evidence.coordinates.coordinate_check"):
        monkeypatch.setattr(f"deeplimits.transfer.{worker}", lambda *_, **__: pytest.fail("work"))
    before = sorted(tmp_path.rglob("*"))
    assert run(command, "mlp", "--seeds", "1")[0] == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_plan_is_printed_and_saved(run, tmp_path):
    code, out, _ = run("plan", "mine:wide", "--width", "64,256", "--rule", "mup", "--save", "plan.json")
    assert code == 0
    assert re.search(r"^ *2\.weight +256x256 +hidden +1 +0\.25 +4 +0\.25", out, flags=re.MULTILINE)
    assert Plan.load(tmp_path / "plan.json")["2.weight"].lr_mult == 0.25
    code, out, _ = run("plan", "mine.py:wide", "--width", "64,256", "--rule", "mup", "--json")
    assert json.loads(out)["rows"][2]["lr_mult"] == 0.25
    _, out, _ = run("plan", "mine:wide", "--width", "64,256", "--rule", "mup", "--lr", "0.1", "--weight-decay", "0.5")
    assert re.search(r"^ *2\.weight .* 0\.025 +2 +2\.5e-09", out, flags=re.MULTILINE)
    _, out, _ = run("plan", "mine:wide", "--width", "64,256", "--rule", "mup", "--optimizer", "sgd", "--lr", "0.1")
    assert re.search(r"role +init +LR +decay +why", out) and "e-08" not in out


def test_blocks_share_a_line_unless_every_one_is_asked_for(run):
    _, out, _ = run("plan", "mlp", "--width", "32,64", "--depth", "4,8")
    assert "blocks.*.down.weight (8)" in out
    _, out, _ = run("plan", "mlp", "--width", "32,64", "--depth", "4,8", "--every")
    assert "blocks.7.down.weight" in out


def test_a_check_tells_by_its_exit_code(run):
    grid = ("--width", "32,64,128", "--seeds", "2", "--steps", "3")
    code, out, _ = run("check", "mine:wide", "--rule", "mup", *grid)
    assert code == 0
    assert out.startswith("mup, adamw, from width 32 to width 128")
    code, out, _ = run("check", "mine:wide", "--rule", "sp", "--against", "mup", "--json", *grid)
    found = json.loads(out)["checks"]
    assert code == 1
    assert [check["rule"] for check in found] == ["sp", "mup"]
    assert found[0]["verdict"] == "fail"


def test_a_sweep_is_kept_and_refused_for_another_rule(run, tmp_path):
    words = (
        "sweep",
        "mine:wide",
        "--width",
        "32,64",
        "--train",
        "mine:quick",
        "--lr",
        "2^-4..1",
        "--store",
        "a/runs.db",
    )
    code, out, err = run(*words, "--rule", "mup", "--json")
    (found,) = json.loads(out)["transfers"]
    assert (code, err) == (0, "")
    assert found["verdict"] == "transfers"
    assert (tmp_path / "a" / "runs.db").exists()
    code, out, err = run(*words, "--rule", "sp")
    assert code == 2
    assert "rule is 'mup' there and 'sp' here" in err
    code, out, _ = run(*words, "--rule", "mup", "--against", "sp")
    assert [line.partition(":")[0] for line in out.splitlines() if "octaves" in line] == ["mup", "sp"]


def test_an_error_in_train_is_told_with_its_place_and_the_sweep_goes_on(run, tmp_path):
    sweep = ("--width", "32,64", "--train", "mine:stops", "--lr", "2^-4..1", "--rule", "mup", "--seeds", "2")
    code, out, err = run("sweep", "mine:wide", *sweep, "--store", "runs.db")
    assert (code, out) == (2, "") and "Traceback" not in err
    line = MODULE[: MODULE.index("reshape(3)")].count("\n") + 1
    told = "at width 64, learning rate 0.0625, seed 1 train raised RuntimeError: shape '[3]' is invalid"
    assert told in err and f"({tmp_path / 'mine.py'}, line {line}, in stops)" in err
    assert "fix: mend what broke and make the same call again" in err
    assert _states() == {"COMPLETE": 11, "FAIL": 1, "WAITING": 8}
    (tmp_path / "mended").touch()
    code, out, _ = run("sweep", "mine:wide", *sweep, "--store", "runs.db")
    assert code == 0 and out.startswith("mup: transfers")
    assert _states() == {"COMPLETE": 20, "FAIL": 1}


def _states():
    study = optuna.load_study(study_name="lr_transfer", storage="sqlite:///runs.db")
    return Counter(trial.state.name for trial in study.get_trials(deepcopy=False))


def test_models_without_training_take_the_bundled_data(run):
    """Perceptrons of 64 inputs are trained on digits, models of characters on text."""
    few = ("--width", "32,64", "--lr", "2^-6..2^-4", "--rule", "mup", "--seeds", "2")
    code, out, _ = run("sweep", "mine:wide", *few, "--store", "digits.db")
    assert code in (0, 1)
    assert "trained for 60 steps" in out
    from deeplimits.cli.transfer.target import read

    inputs, labels = read("mine:words").batch(0)
    assert int(inputs.max()) < 17
    assert int(labels.max()) < 17


def test_the_report_is_one_page(run, tmp_path):
    code, out, _ = run(
        "report", "mine:wide", "--width", "32,64,128", "--train", "mine:quick", "--lr", "2^-4..1", "--rule", "mup",
        "--seeds", "2", "--steps", "2", "--out", "page",
    )  # fmt: skip
    assert code == 0
    page = (tmp_path / "page" / "transfer.html").read_text()
    assert f"report: {tmp_path / 'page' / 'transfer.html'}" in out
    for words in ("The static audit", "The coordinate check", "Loss against learning rate", "2.weight"):
        assert words in page
    for name in ("coordinates", "growth", "rates", "optima"):
        assert (tmp_path / "page" / f"transfer-{name}.png").exists()


def test_the_demo_sets_rules_side_by_side(run, tmp_path, monkeypatch):
    from deeplimits.claims import dey_2025_completep as claim

    rates = {"sp": (-7.0, -6.0, -5.0), "completep": (-6.0, -5.0, -4.0)}
    row = claim.Row(((32, 4), (32, 8)), rates, {"sp": 0.5})
    monkeypatch.setattr(claim, "FULL", claim.Sizes(row, row, row))
    code, out, err = run("demo", "--seeds", "2", "--json")
    found = json.loads(out)
    assert code in (0, 1)
    assert [one["rule"] for one in found["transfers"]] == ["CompleteP", "standard"]
    assert "sp done" in err
    assert (tmp_path / "out" / "transfer-demo" / "transfer-rates.png").exists()
    assert "--seeds" in run("demo", "--seeds", "1")[2]


def test_rules_are_listed_and_explained(run):
    code, out, _ = run("rules", "--json")
    assert code == 0
    assert {"mup", "completep", "sp"} <= {rule["name"] for rule in json.loads(out)}
    code, out, _ = run("rules", "explain", "completep")
    assert code == 0
    assert re.search(r"^hidden +m\^-1/2", out, flags=re.MULTILINE)


def test_learning_rates_are_read():
    assert reading.rates("--lr", "2^-2..2^0") == [0.25, 0.5, 1.0]
    assert reading.rates("--lr", "1e-3, 0.01") == [0.001, 0.01]
    with pytest.raises(InputError, match="above zero"):
        reading.rates("--lr", "x")


def test_sizes_are_taken_side_by_side():
    assert options.joined({"width": [32, 64], "depth": [4, 8]})[1] == {"width": 64, "depth": 8}
    with pytest.raises(InputError, match="side by side"):
        options.joined({"width": [32, 64], "depth": [4, 8, 16]})


@pytest.mark.slow
def test_ctrl_c_in_a_sweep_says_how_to_go_on(tmp_path):
    """A process is interrupted while it trains: it ends at once with the line that resumes it."""
    (tmp_path / "mine.py").write_text(MODULE)
    words = ["sweep", "mine:wide", "--train", "mine:slow", "--width", "32,64", "--rule", "mup", "--lr", "2^-4..1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "deeplimits.cli", "transfer", *words, "--store", "runs.db"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "finished runs are kept in runs.db: the same command goes on from there" in err
    assert "Traceback" not in err
