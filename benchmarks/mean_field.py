"""The mean-field march against training the wide networks that it predicts.

    python benchmarks/mean_field.py [--width 2000] [--networks 3] [--particles 8000] [--steps 29] [--rounds 5]

`ratio` is the processor time of `dl.mean_field` (tanh, two hidden layers, two inputs, gamma 2) over that of training
the networks on the same data, in float32 with hand-written gradients and updates of rank two in place, the quickest way
that they can be trained. Each round times both in turn, in one process and one thread; the median over rounds is
printed. At most 1 is allowed. The standard errors of both, and `apart`, the distance (rms over steps and inputs) of the
mean network from the march, say what the time buys.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import deeplimits as dl

ALLOWED = 1.0
GAMMA, RATE = 2.0, 0.15


def seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@torch.no_grad()
def trained(X: np.ndarray, y: np.ndarray, width: int, steps: int, seed: int) -> np.ndarray:
    """Return the outputs of one network at every step, (steps + 1, P)."""
    draw = torch.Generator().manual_seed(seed)
    x, targets = (torch.tensor(part, dtype=torch.float32) for part in (X.T / X.shape[1] ** 0.5, y))
    first, second = (torch.randn(width, size, generator=draw) for size in (X.shape[1], width))
    readout = torch.randn(width, generator=draw)
    outputs = []
    for _ in range(steps + 1):
        low = torch.tanh(first @ x)
        high = torch.tanh(second @ low / width**0.5)
        f = readout @ high / (GAMMA * width)
        outputs.append(f.numpy())
        push = RATE * GAMMA * (targets - f)
        above = (1 - high**2) * readout[:, None]
        below = (1 - low**2) * (second.T @ above) / width**0.5
        readout += high @ push
        second.addmm_(above * push, low.T, alpha=width**-0.5)
        first += (below * push) @ x.T
    return np.array(outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=2000)
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--particles", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=29)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    X, y, net = np.random.default_rng(0).standard_normal((2, 5)), np.array([1.0, -1.0]), dl.Mlp("tanh")
    asked = {"depth": 2, "gamma": GAMMA, "steps": options.steps, "rate": RATE, "samples": options.particles}
    torch.set_num_threads(1)
    with threadpool_limits(1):
        record = dl.mean_field(net, X, y, **asked)
        found, outputs = [], {}

        def train() -> None:
            for seed in range(options.networks):
                outputs[seed] = trained(X, y, options.width, options.steps, seed)

        for _ in range(options.rounds):
            found.append((seconds(lambda: dl.mean_field(net, X, y, **asked)), seconds(train)))
    march, networks = (median(column) for column in zip(*found, strict=True))
    ratio = median(a / b for a, b in found)
    made = np.array(list(outputs.values()))
    apart = np.sqrt(np.mean((made.mean(0) - record.outputs) ** 2))
    error = np.sqrt(np.mean(made.var(0, ddof=1)) / options.networks)
    print(f"march of {options.particles} particles: {march:.3f} s, standard error {record.outputs_error.max():.1e}")
    print(f"{options.networks} networks of width {options.width}: {networks:.3f} s, standard error {error:.1e}")
    print(f"apart {apart:.1e}; ratio {ratio:.2f} ({'met' if ratio <= ALLOWED else 'NOT met'}: at most {ALLOWED:g})")


if __name__ == "__main__":
    main()
