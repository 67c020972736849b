"""Networks with weights of their own in every layer: dk/dt = (a V(k) + b) <x', y'>, three covariances for two paths."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from deeplimits.errors import AccuracyWarning
from deeplimits.limits.controlled.general import Equation
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.path import at, moments

ACCURACY, MOST_STEPS = 1e-7, 32


def network(
    x: Sequence[np.ndarray], y: Sequence[np.ndarray], equation: Equation, layers: int, clock: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return k at the end of all pairs, of x and of y, for networks of that many layers: exactly, layer by layer.

    Args:
        x: N paths.
        y: M paths.
        equation: what is solved.
        layers: number of layers.
        clock: the channel that holds times, or None.

    Returns:
        shapes (N, M), (N,) and (M,).
    """
    times = np.linspace(0.0, 1.0, layers + 1)
    dx, dy = (torch.from_numpy(_differences(paths, times, clock)) for paths in (x, y))
    state = _start(len(x), len(y), equation)
    for step in range(layers):
        rates = _rates(state, dx[:, step] * layers, dy[:, step] * layers, equation)
        state = [k + rate / layers for k, rate in zip(state, rates, strict=True)]
    return state[0], state[1], state[2]


def limit(
    x: Sequence[np.ndarray], y: Sequence[np.ndarray], equation: Equation, clock: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return k at the end of all pairs, of x and of y, for infinitely many layers.

    The method of Runge and Kutta, of fourth order, between the points of all paths, with steps halved until the result
    stops moving.

    Args:
        x: N paths.
        y: M paths.
        equation: what is solved.
        clock: the channel that holds times, or None.
    """
    times = _all_moments((*x, *y), clock)
    dx, dy = (_differences(paths, times, clock) for paths in (x, y))
    if isinstance(equation.family, Linear):
        return _closed(dx, dy, equation, times)
    before, steps = _march(dx, dy, equation, times, 1), 2
    while True:
        found = _march(dx, dy, equation, times, steps)
        size = torch.sqrt(found[1][:, None].abs() * found[2].abs()) + equation.start
        moved = float(((found[0] - before[0]).abs() / size).max()) / 15
        if moved <= ACCURACY or steps >= MOST_STEPS or not np.isfinite(moved):
            break
        before, steps = found, 2 * steps
    if moved > ACCURACY:
        text = f"kernel: good to {moved:.1e} of the diagonal after {steps} steps between points"
        warnings.warn(f"{text}; scale the paths or weight_std down", AccuracyWarning, stacklevel=4)
    return found


def _all_moments(paths: Sequence[np.ndarray], clock: int | None) -> np.ndarray:
    """Return the times at which any of the paths has a point."""
    kinds = {len(path): path for path in paths}.values() if clock is None else paths
    return np.unique(np.concatenate([moments(path, clock).round(14) for path in kinds]))


def _differences(paths: Sequence[np.ndarray], times: np.ndarray, clock: int | None) -> np.ndarray:
    return np.stack([np.diff(at(path, times, clock), axis=0) for path in paths])


def _closed(dx: np.ndarray, dy: np.ndarray, equation: Equation, times: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Solve dk/dt = (a k + b) z: k = start + (start + b / a) (exp(a int z dt) - 1)."""
    gaps = np.sqrt(np.diff(times))[:, None]
    u, v = ((steps / gaps).reshape(len(steps), -1) for steps in (dx, dy))
    found = []
    for product in (u @ v.T, (u * u).sum(1), (v * v).sum(1)):
        grown = np.expm1(equation.weight * product) / equation.weight if equation.weight else product
        found.append(torch.from_numpy(equation.start + (equation.start * equation.weight + equation.bias) * grown))
    return found[0], found[1], found[2]


def _march(
    x: np.ndarray, y: np.ndarray, equation: Equation, times: np.ndarray, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    gaps = np.diff(times)
    dx, dy = (torch.from_numpy(path / gaps[:, None]) for path in (x, y))
    state = _start(len(x), len(y), equation)
    for segment, gap in enumerate(gaps):
        step = gap / steps
        for _ in range(steps):
            total, there = [0.0] * 3, state
            for weight, reach in ((1, 0.5), (2, 0.5), (2, 1.0), (1, 0.0)):
                rates = _rates(there, dx[:, segment], dy[:, segment], equation)
                total = [sum_ + weight * rate for sum_, rate in zip(total, rates, strict=True)]
                there = [k + reach * step * rate for k, rate in zip(state, rates, strict=True)]
            state = [k + step / 6 * sum_ for k, sum_ in zip(state, total, strict=True)]
    return state[0], state[1], state[2]


def _start(n: int, m: int, equation: Equation) -> list[Tensor]:
    return [torch.full(shape, equation.start, dtype=torch.float64) for shape in ((n, m), (n,), (m,))]


def _rates(state: list[Tensor], dx: Tensor, dy: Tensor, equation: Equation) -> list[Tensor]:
    k, q1, q2 = state
    return [
        equation.growth(k, q1[:, None], q2[None, :])[0] * (dx @ dy.T),
        equation.growth(q1, q1, q1)[0] * (dx * dx).sum(1),
        equation.growth(q2, q2, q2)[0] * (dy * dy).sum(1),
    ]
