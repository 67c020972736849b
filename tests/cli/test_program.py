"""The program as a process: how fast help comes, what goes to which stream, how it stops."""

import os
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "deeplimits.cli"]
HELP = [["--help"], *([name, "--help"] for name in ("compare", "kernel", "coverage", "cite", "doctor"))]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys; from deeplimits.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'numpy', 'numba', 'sklearn', 'matplotlib', 'scipy', 'jinja2'} & set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0
    assert "Usage: deeplimits" in run.stdout
    assert run.stderr.strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["kernel", "--help"]], ids=" ".join)
def test_help_costs_less_than_half_a_second(words):
    def seconds():
        before = os.times()
        subprocess.run([*COMMAND, *words], capture_output=True, timeout=60, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(5)) < 0.5


def test_version_and_help_name_the_exit_codes():
    run = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, timeout=60)
    assert "2 bad input" in run.stdout
    version = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, timeout=60)
    assert version.stdout.strip() == "0.1.0"


def test_bad_input_leaves_stdout_empty():
    run = subprocess.run([*COMMAND, "kernel", "resnt", "--json"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (2, "")
    assert "did you mean 'resnet'" in run.stderr


@pytest.mark.slow
def test_interrupt_ends_without_a_traceback(tmp_path):
    words = ["compare", "resnet", "--widths", "512", "--depths", "256", "--networks", "2000", "--out", str(tmp_path)]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "1 x 1 places" in process.stderr.readline() + process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
