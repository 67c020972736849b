"""The signature kernel and the neural signature kernel of ReLU, beside pySigLib where it is installed.

    python benchmarks/signature_speed.py [--rounds 7] [--peer-order 8]

Four workloads of Brownian-like paths, and a Gram matrix of 200 paths of length 100 in two threads. Each round times
all in turn, in one process; `ratio` is the median over rounds of our time over pySigLib's (its polynomial method of the
given order; `pip install pysiglib==4.0.0`), at most 1.0. `error` is the largest relative difference from our own result
with 24 terms. `relu` is the time of the neural signature kernel over that of the identity on the same Gram matrix, both
ours, at most 3.
"""

from __future__ import annotations

import argparse
import importlib
import time
from math import inf, sqrt
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import deeplimits as dl
from deeplimits.limits.controlled import lanes, linear, series

PAIRS = {"64 pairs, 50 points, d = 2": (64, 50, 2), "32 pairs, 200 points, d = 3": (32, 200, 3)}
PAIRS |= {"8 pairs, 500 points, d = 5": (8, 500, 5)}
GRAMS = {"Gram 32 x 32, 100 points, d = 8": (32, 100, 8), "Gram 200 x 200, 100 points, d = 8": (200, 100, 8)}


def paths(rng: np.random.Generator, count: int, points: int, channels: int) -> np.ndarray:
    return np.cumsum(rng.standard_normal((count, points, channels)) / sqrt(points * channels), axis=1)


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the kernel of pairs with 24 terms."""
    parts = [slice(at, at + series.LANES) for at in range(0, len(x), series.LANES)]
    packed = [[lanes.pack(list(np.diff(z[part], axis=1)), series.LANES) for part in parts] for z in (x, y)]
    return 1 + np.concatenate([series.solve(*both, 24)[0] for both in zip(*packed, strict=True)])[: len(x)]


def row(name: str, works: dict, error: str, rounds: int) -> None:
    times = {label: [] for label in works}
    for _ in range(rounds):
        for label, work in works.items():
            times[label].append(seconds(work))
    ours = times["identity"]
    cells = [f"{1e3 * min(ours):9.2f} ms", error]
    for label in ("pySigLib", "relu"):
        if label in times:
            base, other = (times[label], ours) if label == "pySigLib" else (ours, times[label])
            ratio = median(b / a for a, b in zip(base, other, strict=True))
            cells.append(f"{'ratio' if label == 'pySigLib' else 'relu'} {ratio:.2f}")
    print(f"{name:36s}", *cells, sep="  ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer-order", type=int, default=8)
    options = parser.parse_args()
    try:
        peer = importlib.import_module("pysiglib")
    except ImportError:
        peer = None
        print("pySigLib is not installed: our own times only")
    polynomial = {"method": "polynomial", "order": options.peer_order, "n_jobs": 1}
    rng = np.random.default_rng(0)
    identity, relu = dl.layer.ControlledResNet("identity"), dl.layer.ControlledResNet("relu")
    with threadpool_limits(1):
        for name, shape in PAIRS.items():
            x, y = paths(rng, *shape), paths(rng, *shape)

            def ours(x=x, y=y):
                return 1 + linear.paired(1.0, *(list(np.diff(z, axis=1)) for z in (x, y)))

            works = {"identity": ours}
            if peer is not None:
                works["pySigLib"] = lambda x=x, y=y: peer.sig_kernel(x, y, **polynomial)
            row(name, works, f"error {np.abs(ours() / exact(x, y) - 1).max():.0e}", options.rounds)
        for name, shape in GRAMS.items():
            x, y = paths(rng, *shape), paths(rng, *shape)
            works = {"identity": lambda x=x, y=y: dl.kernel(identity, x, y, depth=inf, get="nngp")}
            works["relu"] = lambda x=x, y=y: dl.kernel(relu, x, y, depth=inf, get="nngp")
            if peer is not None:
                jobs = polynomial | {"n_jobs": 2}
                works["pySigLib"] = lambda x=x, y=y, jobs=jobs: peer.sig_kernel_gram(x, y, **jobs)
            found = works["identity"]()[:8, 0]
            error = np.abs(found / exact(x[:8], np.repeat(y[:1], 8, axis=0)) - 1).max()
            row(name, works, f"error {error:.0e}", min(options.rounds, 3) if shape[0] > 100 else options.rounds)


if __name__ == "__main__":
    main()
