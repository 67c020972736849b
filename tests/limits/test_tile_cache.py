"""Compiled code: the first call is quick, and a second process reads what the first one compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, time
import numpy as np
import numba, scipy.linalg
import deeplimits as dl
from deeplimits.limits.kernel.tile import blocks, compiled, interpreter

x = np.random.default_rng(0).standard_normal((40, 6))
net = dl.Mlp("erf", weight_std=1.3, bias_std=0.2)
start = time.process_time()
dl.kernel(net, x, depth=3)
seconds = time.process_time() - start
used = [blocks.affine, blocks.erf, interpreter.strip, interpreter.run]
hits = [compiled.compiled(function, np.float64, np.float64).cache_hits for function in used]
print(json.dumps({"hits": hits, "seconds": seconds}))
"""


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache")), "OMP_NUM_THREADS": "1"}
    run = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    return [json.loads(done.stdout) for done in run]


def test_the_second_process_hits_the_cache(processes):
    assert processes[0]["hits"] == [0, 0, 0, 0]
    assert processes[1]["hits"] == [1, 1, 1, 1]


def test_the_first_call_is_quick(processes):
    assert processes[0]["seconds"] < 6
    assert processes[1]["seconds"] < processes[0]["seconds"] / 2
