"""The law of networks in training against the one thing it cannot do without: a symmetric eigendecomposition.

    python benchmarks/gradient_flow.py [--rows 2000] [--new 200] [--times 3] [--rounds 5]

`ratio` is the time of `dl.gradient_flow` (means and variances at new rows, at several times) less that of the kernels
it asks for, over that of LAPACK's dsyevd on the same kernel; `with the kernels` is the whole call over the same. Each
round times all in turn, in one process and one thread, by processor time; the median over rounds is printed. At most
1.2 is allowed. `loss` is what the loss at these times costs on top, `again` what other times cost from the modes kept.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

import deeplimits as dl
from deeplimits.limits.kernel.ask import variances

ALLOWED = 1.2


def seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--new", type=int, default=200)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng, net, depth = np.random.default_rng(0), dl.Mlp("relu"), 2
    X, new = (rng.standard_normal((count, options.features)) for count in (options.rows, options.new))
    y, times = np.sin(X.sum(1)), np.geomspace(0.1, 100.0, options.times)

    def kernels():
        dl.kernel(net, X, depth=depth), dl.kernel(net, new, X, depth=depth), variances(net, new, depth)

    with threadpool_limits(1):
        theta = dl.kernel(net, X, depth=depth, get="ntk")
        dl.gradient_flow(net, X[:50], y[:50], new, depth, times)
        found = []
        for _ in range(options.rounds):
            copy = theta.copy(order="F")
            modes = seconds(lambda copy=copy: eigh(copy, driver="evd", overwrite_a=True, check_finite=False))
            kept = []
            whole = seconds(lambda kept=kept: kept.append(dl.gradient_flow(net, X, y, new, depth, times)))
            loss = seconds(lambda kept=kept: kept[0].loss)
            again = seconds(lambda kept=kept: kept[0].losses_at(2 * times))
            found.append((modes, whole, seconds(kernels), loss, again))
    modes, whole, kernel, loss, again = (median(column) for column in zip(*found, strict=True))
    ratio = median((b - c) / a for a, b, c, *_ in found)
    print(f"{options.rows} rows, {options.new} new ones, {options.times} times, one thread, processor time")
    print(f"dsyevd {modes:.2f} s, gradient_flow {whole:.2f} s, of which kernels {kernel:.2f} s")
    print(f"ratio {ratio:.2f} (allowed {ALLOWED}), with the kernels {whole / modes:.2f}")
    print(f"loss {loss / modes:.2f}, again {again / modes:.4f}, in units of dsyevd")


if __name__ == "__main__":
    main()
