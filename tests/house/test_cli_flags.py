"""The command line is a promise: commands and flags change only on purpose, and help comes at once."""

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(sys.executable).with_name("deeplimits")
FLAGS = {
    (): {"--help", "--version"},
    ("kernel",): {"--activation", "--data", "--depth", "--get", "--json", "--out", "--rows", "--scale"},
    ("compare",): {
        *("--activation", "--against", "--data", "--depths", "--estimators", "--get", "--html", "--inputs", "--json"),
        *("--networks", "--ratio"),
        *("--no-html", "--out", "--scale", "--seed", "--store", "--widths"),
    },
    ("claims",): {"--again", "--html", "--json", "--list", "--markdown", "--out", "--reduced"},
    ("transfer",): set(),
    ("transfer", "plan"): {
        *("--alpha", "--depth", "--every", "--json", "--lr", "--optimizer", "--rule", "--save", "--weight-decay"),
        "--width",
    },
    ("transfer", "check"): {
        *(
            "--against",
            "--alpha",
            "--depth",
            "--json",
            "--lr",
            "--optimizer",
            "--rule",
            "--seeds",
            "--steps",
            "--width",
        ),
    },
    ("transfer", "sweep"): {
        *("--against", "--alpha", "--depth", "--json", "--lr", "--margin", "--optimizer", "--rule", "--seeds"),
        *("--store", "--train", "--weight-decay", "--width"),
    },
    ("transfer", "report"): {
        *("--against", "--alpha", "--check-lr", "--depth", "--json", "--lr", "--optimizer", "--out", "--rule"),
        *("--seeds", "--steps", "--store", "--train", "--width"),
    },
    ("transfer", "demo"): {"--json", "--out", "--row", "--seeds"},
    ("transfer", "rules"): {"--json"},
    ("transfer", "rules", "explain"): {"--alpha"},
    ("criticality",): {"--bias-std", "--json", "--out", "--weight-std"},
    ("doctor",): {"--json"},
    ("coverage",): {"--json", "--markdown"},
    ("cite",): {"--activation", "--json", "--limit"},
}
HEAVY = {"torch", "numba", "numpy", "scipy", "sklearn", "matplotlib", "jinja2", "optuna", "pandas"}


def shown(*words):
    run = subprocess.run([TOOL, *words, "--help"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("command", FLAGS, ids=lambda words: " ".join(words) or "deeplimits")
def test_flags(command):
    first_column = re.findall(r"^│ +(?:\* +)?((?:--[a-z-]+ )+)", shown(*command), flags=re.MULTILINE)
    assert set(" ".join(first_column).split()) == FLAGS[command]


def test_commands():
    listed = re.findall(r"^│ ([a-z]+) ", shown(), flags=re.MULTILINE)
    assert set(listed) == {words[0] for words in FLAGS if words}


@pytest.mark.parametrize("command", FLAGS, ids=lambda words: " ".join(words) or "deeplimits")
def test_help_imports_nothing_heavy(command):
    code = (
        "import sys\nfrom deeplimits.cli import main\n"
        f"try: main([*{command!r}, '--help'])\n"
        "except SystemExit: pass\n"
        "print('\\nimported:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    imported = set(run.stdout.rpartition("imported:")[2].split())
    assert "deeplimits" in imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize("command", [(), ("kernel",), ("compare",)], ids=lambda words: " ".join(words) or "deeplimits")
def test_help_takes_half_a_second_of_one_core(command):
    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown(*command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.5
