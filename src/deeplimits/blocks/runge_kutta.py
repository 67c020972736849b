"""Ordinary differential equations on tensors: an adaptive method of order 5, and Euler's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite

import torch
from torch import Tensor

Field = Callable[[float, Tensor], Tensor]
Norm = Callable[[Tensor], Tensor]
Scale = Callable[[Tensor, Tensor, Tensor], Tensor]
Stop = Callable[[Tensor, Tensor], bool]


@dataclass(frozen=True)
class Path:
    """Where an integration ended: state, time, accepted steps, evaluations, and whether it came to its end."""

    state: Tensor
    time: float
    steps: int
    evaluations: int
    finished: bool


@dataclass(frozen=True)
class Pair:
    """Dormand and Prince's pair of orders 5 and 4: nodes, stages, weights, and the weights of the error."""

    nodes: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    error: tuple[float, ...]


@cache
def dormand_prince_5() -> Pair:
    """Return the pair, as scipy ships it.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, sec. II.5.

    Example:
        >>> round(sum(dormand_prince_5().weights), 12), round(sum(dormand_prince_5().error), 12)
        (1.0, 0.0)
    """
    from scipy.integrate import RK45

    stages = tuple(tuple(float(a) for a in row[:index]) for index, row in enumerate(RK45.A))
    nodes, weights, error = (tuple(float(a) for a in row) for row in (RK45.C, RK45.B, RK45.E))
    return Pair(nodes, stages, weights, error)


def euler(field: Field, state: Tensor, end: float, steps: int) -> Tensor:
    """Return z(end) by z <- z + h f(t, z) with h = end / steps: a residual network of that many layers."""
    length = end / steps
    for index in range(steps):
        state = state + length * field(index * length, state)
    return state


def largest(scaled: Tensor) -> Tensor:
    """Return the largest root mean square of a sample, (batch, ...) to a scalar."""
    return scaled.flatten(1).square().mean(dim=1).max().sqrt()


def within(tolerance: float) -> Scale:
    """Return the scale tolerance (1 + |z|) of an absolute and relative tolerance."""
    return lambda before, after, slope: tolerance * (1 + torch.maximum(before.abs(), after.abs()))


def adaptive(
    field: Field,
    state: Tensor,
    begin: float,
    end: float,
    scale: Scale,
    *,
    norm: Norm = largest,
    first: float | None = None,
    stop: Stop | None = None,
    evaluations: int = 100_000,
) -> Path:
    """Follow z' = f(t, z) from `begin` to `end` (which may be infinite, or earlier).

    Steps are those whose estimated error has norm(error / scale) <= 1.

    Args:
        field: f(t, z).
        state: z(begin).
        begin: first time.
        end: last time.
        scale: what a step's error is measured by, of z before and after the step and f(t, z) before it; see `within`.
        norm: of a scaled error, a scalar.
        first: length of the first step, by default one that moves z by a hundredth of itself.
        stop: called with z and f(t, z) after each step; ends the path where it is true.
        evaluations: of f at most.

    Returns:
        The path's end; not finished where the evaluations were used up, or where a step would vanish beside the time.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, sec. II.4.

    Example:
        >>> path = adaptive(lambda t, z: -z, torch.ones(1, 1, dtype=torch.float64), 0.0, 1.0, within(1e-10))
        >>> round(float(path.state), 9), path.finished
        (0.367879441, True)
    """
    if state.numel() == 0:
        return Path(state, end, 0, 0, True)
    sign = 1.0 if end >= begin else -1.0
    time, slope, count, taken = begin, field(begin, state), 1, 0
    length = _first_step(state, slope, scale, norm) if first is None else first
    while True:
        if time == end or (stop is not None and stop(state, slope)):
            return Path(state, time, taken, count, True)
        reach = min(length, abs(end - time))
        if count + 6 > evaluations or reach <= 8 * torch.finfo(torch.float64).eps * abs(time) or not isfinite(reach):
            return Path(state, time, taken, count, False)
        new, last, error = _step(field, time, state, slope, sign * reach)
        count += 6
        with torch.no_grad():
            size = float(norm(error / scale(state, new, slope)))
        size = size if isfinite(size) else inf
        if size <= 1:
            time = end if reach == abs(end - time) else time + sign * reach
            state, slope, taken = new, last, taken + 1
        length = reach * min(10.0, max(0.2, 0.9 * max(size, 1e-10) ** -0.2))


def _step(field: Field, time: float, state: Tensor, slope: Tensor, length: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return z(t + h), the slope there, and the estimated error."""
    pair, slopes = dormand_prince_5(), [slope]
    for node, row in zip(pair.nodes[1:], pair.stages[1:], strict=True):
        slopes.append(field(time + node * length, state + length * _sum(row, slopes)))
    new = state + length * _sum(pair.weights, slopes)
    slopes.append(field(time + length, new))
    return new, slopes[-1], length * _sum(pair.error, slopes)


def _sum(weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    total = weights[0] * slopes[0]
    for weight, slope in zip(weights[1:], slopes[1:], strict=True):
        if weight:
            total = total + weight * slope
    return total


def _first_step(state: Tensor, slope: Tensor, scale: Scale, norm: Norm) -> float:
    with torch.no_grad():
        unit = scale(state, state, slope)
        size, speed = float(norm(state / unit)), float(norm(slope / unit))
    return 0.01 * max(size, 1.0) / max(speed, 1e-10) if isfinite(speed) else 0.0
