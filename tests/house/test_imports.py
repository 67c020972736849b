"""A room imports only rooms below it; a description never imports torch."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold():
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 kept, 0 broken" in run.stdout


def test_descriptions_import_without_torch():
    code = (
        "import sys, deeplimits as dl; net = dl.ResNet(activation='relu') ; net.hyperparameters(); "
        "dl.act.Gelu(), dl.layer.Dense(); print(sorted({'torch', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"
