"""A plan and models that two processes share: torch's fully_shard (FSDP2) and DistributedDataParallel over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import deeplimits as dl
from tests.transfer.models import Gpt, Mlp
from tests.transfer.sharded import checks

ROOT = Path(__file__).parents[2]
SIZES = {"base": {"width": 32, "depth": 4}, "target": checks.TARGET}
SECONDS = 240


def tied(width, depth):
    return Gpt(width, depth, tied=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """{check: traceback, or nothing}, from one pair of processes; they meet in a file, and need no port."""
    folder = tmp_path_factory.mktemp("sharded")
    dl.transfer(Mlp, **SIZES).save(folder / "mlp.json")
    dl.transfer(tied, **SIZES).save(folder / "tied.json")
    with torch.device("meta"):
        large = Mlp(**SIZES["target"])
    dl.transfer(large, base=Mlp(**SIZES["base"])).save(folder / "instances.json")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    pair = []
    for rank in (0, 1):
        command = [sys.executable, "-m", "tests.transfer.sharded.worker", folder, str(rank), "2"]
        pair.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    said = []
    try:
        for process in pair:
            said.append(process.communicate(timeout=SECONDS)[1])
    except subprocess.TimeoutExpired:
        said.append(f"not finished after {SECONDS} s")
    finally:
        for process in pair:
            process.kill()
            process.wait()
    path = folder / "found.txt"
    return {"": "\n".join(said), **(json.loads(path.read_text()) if path.exists() else {})}


@pytest.mark.slow
@pytest.mark.parametrize("check", checks.__all__)
def test_two_processes(found, check):
    """Two processes start torch once for all the checks, which is most of what this takes."""
    assert check in found, found[""]
    assert found[check] == ""
