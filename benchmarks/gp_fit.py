"""A fit of the regressors against the two things it cannot do without: the kernel, and one Cholesky factorisation.

    python benchmarks/gp_fit.py [--rows 10000] [--new 50000] [--rounds 3] [--posterior gp]

`ratio` is the time of `fit` over the time of `dl.kernel` on the same rows (the kernels that the posterior needs: the
NTK, for posterior="ensemble" the NNGP kernel as well) plus that of LAPACK's dpotrf, in place, on a matrix of that size;
each round times the three in turn, in one process, and the median over rounds is printed. At most 1.2 is allowed.
`memory` is the peak of the fit above its inputs, in units of the N x N float64 matrices it holds (1 or 2).
Then the mean of many new rows is predicted: their kernel with themselves is never formed, as the peak shows.
"""

from __future__ import annotations

import argparse
import time
from math import inf
from pathlib import Path
from statistics import median

import numpy as np
from scipy.linalg import lapack

import deeplimits as dl

ALLOWED = 1.2


def seconds(work) -> float:
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def memory(line: str) -> int:
    """Return what the kernel says of this process: VmRSS, memory now; VmHWM, the most so far; in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(text for text in lines if text.startswith(line)).split()[1])


def peak(work) -> int:
    """Return the most memory held while something runs, above what is held before."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def cholesky(rows: int) -> float:
    """Time dpotrf in place on a positive definite matrix in Fortran order."""
    matrix = np.full((rows, rows), 0.5, order="F")
    matrix.flat[:: rows + 1] = 2.0
    return seconds(lambda: lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--new", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--posterior", choices=("ensemble", "gp"), default="ensemble")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.features))
    y, net = np.sin(X.sum(1)), dl.ResNet("relu")
    get, held = (("nngp", "ntk"), 2) if options.posterior == "ensemble" else ("ntk", 1)
    model = dl.learn.NTKRegressor(net, depth=inf, noise=0.1, posterior=options.posterior)
    model.fit(X[:500], y[:500]).predict(X[:10])
    dl.kernel(net, X, depth=inf)  # the steps of the flow depend on the norms of the rows, and are found once for them
    found = []
    for _ in range(options.rounds):
        fit = seconds(lambda: model.fit(X, y))
        del model.posterior_
        kernel = seconds(lambda: dl.kernel(net, X, depth=inf, get=get))
        found.append((fit, kernel, cholesky(options.rows)))
    fit, kernel, factor = (median(column) for column in zip(*found, strict=True))
    ratio = median(a / (b + c) for a, b, c in found)
    print(f"{options.rows} rows of {options.features} features, posterior={options.posterior}, depth infinity")
    print(f"fit {fit:.2f} s, kernel {kernel:.2f} s, Cholesky {factor:.2f} s, ratio {ratio:.2f} (allowed {ALLOWED})")
    used = peak(lambda: model.fit(X, y)) / (8 * options.rows**2)
    print(f"memory of the fit: {used:.2f} matrices, {held} held")
    new = rng.standard_normal((options.new, options.features))
    start = time.perf_counter()
    most = peak(lambda: model.predict(new))
    elapsed = time.perf_counter() - start
    square = 8 * options.new**2
    print(
        f"mean of {options.new} rows: {elapsed:.1f} s, {most / 1e6:.0f} MB at most; their kernel: {square / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
