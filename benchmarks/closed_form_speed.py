"""Closed-form cells beside a solver of liquid time-constant neurons: processor time along sequences, forward.

    python benchmarks/closed_form_speed.py [--rounds 7]

A batch of 32 sequences of 50 observations at random times, 32 features, one thread, no gradients. Each round runs all
in turn, in one process; `ratio` is the median over rounds of the solver's time over that of the exact liquid cell (f
held over each interval) and over that of the CfC cell. `error` is the largest difference of states to tolerance 1e-9.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from deeplimits.blocks import CfCCell, LTCCell, TimedSequence
from deeplimits.blocks.runge_kutta import adaptive, within

BATCH, OBSERVATIONS, FEATURES = 32, 50, 32


def solved(cell: LTCCell, seen: torch.Tensor, gaps: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Return the states of the liquid cell's own equation, its f following x."""
    x, states = seen.new_zeros(len(seen), cell.features), []
    for index in range(seen.shape[1]):

        def field(now: float, z: torch.Tensor, index: int = index) -> torch.Tensor:
            rate = torch.sigmoid(cell.drive(torch.cat([seen[:, index], z], dim=-1)))
            return -(cell.log_leak.exp() + rate) * z + cell.target * rate

        x = adaptive(field, x, 0.0, float(gaps[index]), within(tolerance)).state
        states.append(x)
    return torch.stack(states, dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cell = LTCCell(3, FEATURES, recurrent=True)
    liquid, gated = TimedSequence(cell), TimedSequence(CfCCell(3, FEATURES))
    seen, gaps = torch.randn(BATCH, OBSERVATIONS, 3), torch.rand(OBSERVATIONS)
    works = {"liquid": lambda: liquid(seen, gaps), "CfC": lambda: gated(seen, gaps)}
    works |= {tolerance: lambda tolerance=tolerance: solved(cell, seen, gaps, tolerance) for tolerance in (1e-3, 1e-5)}
    times: dict = {name: [] for name in works}
    with torch.no_grad():
        fine = solved(cell.double(), seen.double(), gaps.double(), 1e-9)
        cell.float()
        for _ in range(options.rounds):
            for name, work in works.items():
                start = time.process_time()
                result = work()
                times[name].append(time.process_time() - start)
                if name != "CfC" and len(times[name]) == 1:
                    print(f"{name!s:8s} error {float((result - fine).abs().max()):.1e}")
    for name in (1e-3, 1e-5):
        for base in ("liquid", "CfC"):
            ratio = median(a / b for a, b in zip(times[name], times[base], strict=True))
            print(f"solver at {name:g} / {base:6s} ratio {ratio:.1f}  ({1e3 * median(times[base]):.1f} ms)", flush=True)


if __name__ == "__main__":
    main()
