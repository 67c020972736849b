"""The covariance diffusion of the shaped Transformer: 4 tokens, 1000 paths, 200 steps, on one thread.

Prints the processor seconds of whole calls of `dl.proportional`, the median of seven: the full block, attention alone
and a shaped perceptron. The bound is 3 s.

    OMP_NUM_THREADS=1 python benchmarks/covariance_sde.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

import deeplimits as dl

BOUND = 3.0
TOKENS, PATHS, STEPS, RUNS = 4, 1000, 200, 7
NETS = {
    "attention and perceptron": dl.layer.ShapedTransformer(0.5, c_plus=1.0, c_minus=-1.0),
    "attention alone": dl.layer.ShapedTransformer(0.5, mlp=False),
    "shaped perceptron": dl.ShapedMlp(),
}


def seconds(net: dl.layer.Layer, X: np.ndarray) -> float:
    """Return the median of the processor seconds of one call."""
    taken = []
    for seed in range(RUNS):
        start = time.process_time()
        dl.proportional(net, X, ratio=0.5, samples=PATHS, seed=seed, steps=STEPS)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    """Print a line for each network, and the verdict."""
    torch.set_num_threads(1)
    X = np.random.default_rng(0).standard_normal((TOKENS, 8))
    found = {name: seconds(net, X) for name, net in NETS.items()}
    for name, value in found.items():
        print(f"{name:26} {value:6.2f} s")
    print(f"all below {BOUND:g} s: {max(found.values()) < BOUND}")


if __name__ == "__main__":
    main()
