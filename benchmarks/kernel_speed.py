"""Speed and memory of `deeplimits.kernel`, NNGP and NTK together, against numpy's X @ X.T of the same dtype.

    python benchmarks/kernel_speed.py [--quick] [--rows 5000] [--rounds 5] [--only NAME]

Each round times X @ X.T and the kernel in turn, in one process; the ratio printed is the median over rounds.
`first` is the first call in a fresh process beyond imports, with an empty cache of compiled code and then with a full
one; `memory` is the peak above the inputs, in units of the results.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from statistics import median

import numpy as np

import deeplimits as dl

HERE = Path(__file__).resolve()
BIASED = {"weight_std": 1.3, "bias_std": 0.2}
# name: (network, depth, largest ratio allowed)
CASES = {
    "relu MLP, depth 3": (lambda: dl.Mlp("relu"), 3, 2.0),
    "relu MLP, depth 64": (lambda: dl.Mlp("relu"), 64, 2.0),
    "relu ResNet, depth 64": (lambda: dl.ResNet("relu"), 64, 2.0),
    "relu ResNet, depth inf": (lambda: dl.ResNet("relu"), inf, 2.0),
    "abs MLP, depth 64": (lambda: dl.Mlp("abs"), 64, 2.0),
    "relu MLP, biases, depth 64": (lambda: dl.Mlp("relu", bias_std=0.1), 64, None),
    "erf MLP, biases, depth 3": (lambda: dl.Mlp("erf", **BIASED), 3, 2.0),
    "erf MLP, biases, depth 64": (lambda: dl.Mlp("erf", **BIASED), 64, 8.0),
    "gelu MLP, biases, depth 10": (lambda: dl.Mlp("gelu", **BIASED), 10, 5.0),
    "tanh MLP, biases, depth 10": (lambda: dl.Mlp("tanh", **BIASED), 10, 30.0),
    "silu MLP, biases, depth 10": (lambda: dl.Mlp("silu", **BIASED), 10, 30.0),
    "softplus MLP, biases, depth 10": (lambda: dl.Mlp("softplus", **BIASED), 10, 30.0),
}


def inputs(rows: int, dtype: str, features: int = 784) -> np.ndarray:
    """Random directions, |x|/sqrt(d) log-uniform in [0.5, 2]."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, features))
    norms = np.exp(rng.uniform(np.log(0.5), np.log(2), (rows, 1)))
    return (x * norms / np.sqrt((x**2).mean(1, keepdims=True))).astype(dtype)


def seconds(work) -> float:
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def ratios(name: str, x: np.ndarray, rounds: int) -> tuple[float, float]:
    """Return the median time of X @ X.T, and the median ratio of the kernel's time to it."""
    build, depth, _ = CASES[name]
    net = build()
    dl.kernel(net, x, depth=depth)
    times = [(seconds(lambda: x @ x.T), seconds(lambda: dl.kernel(net, x, depth=depth))) for _ in range(rounds)]
    return median(gram for gram, _ in times), median(kernel / gram for gram, kernel in times)


def memory(line: str) -> int:
    """Return what the kernel says of this process: VmRSS, memory now; VmHWM, the most so far; in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(text for text in lines if text.startswith(line)).split()[1])


def alone(name: str, rows: int, dtype: str) -> None:
    """In a process of its own: print the seconds of the first call, and the memory of a call on all rows."""
    build, depth, _ = CASES[name]
    small, net = inputs(64, dtype), build()
    small @ small.T
    first = seconds(lambda: dl.kernel(net, small, depth=depth))
    x = inputs(rows, dtype)
    dl.kernel(net, x[:500], depth=depth)
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is now what is held
    before = memory("VmRSS")
    dl.kernel(net, x, depth=depth)
    print(first, (memory("VmHWM") - before) / (2 * rows * rows * x.itemsize))


def fresh(name: str, rows: int, dtype: str) -> tuple[float, float, float]:
    """Return the first call's seconds with an empty and with a full cache of compiled code, and the memory."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, str(HERE), "--alone", name, "--rows", str(rows), "--dtype", dtype]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        found = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(2)
        ]
    return float(found[0][0]), float(found[1][0]), float(found[1][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1500 rows, 3 rounds, no fresh processes")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--dtype", choices=("float64", "float32"), default=None)
    parser.add_argument("--alone", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        alone(options.alone, options.rows, options.dtype)
        return
    rows, rounds = (1500, 3) if options.quick else (options.rows, options.rounds)
    print(f"{rows} inputs of 784 features, NNGP and NTK, medians of {rounds}")
    print(f"{'':33}{'dtype':9}{'X @ X.T':>9}{'ratio':>8}{'allowed':>9}{'first':>8}{'cached':>8}{'memory':>8}")
    for name in (name for name in CASES if options.only in name):
        for dtype in [options.dtype] if options.dtype else ["float64", "float32"]:
            gram, ratio = ratios(name, inputs(rows, dtype), rounds)
            allowed = CASES[name][2]
            line = f"{name:33}{dtype:9}{gram:8.3f}s{ratio:8.2f}{allowed or float('nan'):9.1f}"
            if not options.quick:
                first, cached, memory = fresh(name, rows, dtype)
                line += f"{first:7.2f}s{cached:7.2f}s{memory:8.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
