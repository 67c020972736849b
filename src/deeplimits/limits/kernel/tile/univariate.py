"""Homogeneous networks without biases: at any depth the kernel is |x| |x'| times one function of the angle.

The function is fitted once by a Chebyshev series in u = (1 + a) t / (t + pi a), whose stretch a resolves what depth
does near angle 0; depth 64, or a flow to depth infinity, then costs what depth 1 costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual, Multiply, Tape
from deeplimits.limits.kernel.tile import blocks, memory
from deeplimits.limits.kernel.tile.compiled import address
from deeplimits.limits.kernel.tile.interpreter import Program

PI = np.arccos(np.longdouble(-1))
TOLERANCES = {np.float64: 1e-14, np.float32: 2e-8}
SIZES = ((64, 4.0), (128, 0.5), (256, 8.0), (256, 0.1), (512, 0.03), (1024, 0.01))
STRETCHES = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015)
SHORTEST = 3
STEEPEST, WIDEST = 5.0, 0.05
"""In float32, pairs where a unit error of the cosine moves a kernel by more than STEEPEST diagonals are done elsewhere,
if they lie within 1 - WIDEST < |cosine|."""


@dataclass(frozen=True)
class Fit:
    """Chebyshev series of both kernels of inputs with |x|^2 = d.

    Attributes:
        stretch: the a of the map.
        nngp, ntk: coefficients, shape (n,), extended precision.
    """

    stretch: float
    nngp: np.ndarray
    ntk: np.ndarray


def homogeneous(tape: Tape) -> bool:
    """Return whether the kernels of a tape are |x| |x'| times functions of the angle."""
    return all(_scales(step) for step in tape.steps)


def _scales(step: Any) -> bool:
    match step:
        case Affine(_, _, bias, _, shift):
            return float(bias) == 0 and float(shift) == 0
        case Dual(_, family):
            return family.code == 7 or (family.code == 0 and family.power == 1)
    return isinstance(step, Copy | Add | Multiply)


@dataclass(frozen=True)
class Plan:
    """How a homogeneous tape is evaluated.

    Attributes:
        fit: the series.
        real: dtype of the registers.
        close: pairs with |cosine| > 1 - close are left out.
    """

    fit: Fit
    real: type
    close: float


@lru_cache(maxsize=64)
def plan(tape: Tape, dtype: type) -> Plan | None:
    """Return how to evaluate a homogeneous tape; None where it has too few steps or no series is found."""
    if sum(isinstance(step, Dual) for step in tape.steps) < SHORTEST or not homogeneous(tape):
        return None
    sampled = _sample(tape, TOLERANCES[dtype] / 100)
    if sampled is None:
        return None
    if dtype == np.float32:
        close = _steep(sampled)
        if close <= WIDEST:
            return _planned(sampled, np.float32, max(close, 5e-3), TOLERANCES[dtype])
    return _planned(sampled, np.float64, 1e-3, TOLERANCES[dtype])


def _planned(sampled: Fit, real: type, close: float, tolerance: float) -> Plan | None:
    found = shortest(sampled, tolerance)
    return None if found is None else Plan(found, real, close)


def _steep(sampled: Fit) -> float:
    """Return the largest 1 - |cosine| beyond which the kernels are too steep for a rounded cosine."""
    angles = np.arccos(1 - np.geomspace(1e-4, 0.9, 200).astype(np.longdouble))
    angles, step = np.concatenate([angles, PI - angles]), np.longdouble(1e-6)
    rise = _evaluate(sampled, angles + step) - _evaluate(sampled, angles - step)
    slope = np.abs(rise / (2 * step * np.sin(angles)) / _evaluate(sampled, np.zeros(1, dtype=np.longdouble)))
    steep = 1 - np.abs(np.cos(angles[(slope > STEEPEST).any(axis=0)]))
    return float(steep.max(initial=0.0))


def program(planned: Plan, q1: np.ndarray, q2: np.ndarray | None) -> Program:
    """Return the one-step program of a plan.

    Args:
        planned: the plan.
        q1: |x|^2 / d of the rows.
        q2: the same of the columns; None: the same inputs.
    """
    real = planned.real
    rows = _columns(q1, real)
    columns = rows if q2 is None else _columns(q2, real)
    addresses = [address(function, real) for function in (blocks.chebyshev, blocks.turn)]
    ops = np.array([[*addresses, 0, 0, 0, -1]], dtype=np.int64)
    return Program(ops, _numbers(planned.fit, real), rows, columns)


def _columns(q: np.ndarray, real: type) -> np.ndarray:
    root = np.sqrt(q)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return memory.rows([inverse, root], len(q), 1, real)


def _numbers(found: Fit, real: type) -> np.ndarray:
    count = -(-len(found.nngp) // blocks.UNROLL) * blocks.UNROLL
    row = np.zeros(4 + 2 * count)
    row[:3] = 4 * (1 + found.stretch), np.pi * found.stretch, count
    row[4 : 4 + len(found.nngp)] = found.nngp
    row[4 + count : 4 + count + len(found.ntk)] = found.ntk
    return memory.rows([row], len(row), 0, real)


def shortest(sampled: Fit, tolerance: float) -> Fit | None:
    """Return the shortest series found, over several stretches, whose tail is below the tolerance."""
    best = None
    for stretch in STRETCHES:
        coefficients = _series(_evaluate(sampled, _angles(len(sampled.nngp), stretch)))
        tails = np.cumsum(np.abs(coefficients[:, ::-1]), axis=1)[:, ::-1]
        enough = np.flatnonzero((tails <= tolerance * tails[:, :1]).all(axis=0))
        if len(enough) and (best is None or enough[0] < len(best.nngp)):
            best = Fit(stretch, *coefficients[:, : max(enough[0], 1)])
    return best


def _sample(tape: Tape, tolerance: float) -> Fit | None:
    """Return a series whose last coefficients are below the tolerance, in extended precision."""
    for size, stretch in SIZES:
        end = near.run(tape, near.from_angles(_angles(size, stretch)))
        coefficients = _series(np.stack([end.k, end.theta]))
        scale = np.abs(coefficients).sum(axis=1, keepdims=True)
        if not np.isfinite(scale).all():
            return None
        if (np.abs(coefficients[:, -size // 8 :]) <= tolerance * scale).all():
            return Fit(stretch, *coefficients)
    return None


def _angles(size: int, stretch: float) -> np.ndarray:
    half = np.cos((np.arange(size, dtype=np.longdouble) + 0.5) * PI / size) / 2
    u = half + np.longdouble(0.5)
    return u * PI * stretch / (1 + stretch - u)


def _series(values: np.ndarray) -> np.ndarray:
    """Return Chebyshev coefficients (functions, n) from values at the n nodes."""
    size = values.shape[1]
    k = np.arange(size, dtype=np.longdouble)
    table = np.cos(k[:, None] * (k[None, :] + 0.5) * PI / size) * 2 / size
    table[0] /= 2
    return values @ table.T


def _evaluate(series: Fit, angles: np.ndarray) -> np.ndarray:
    """Return both functions at angles, shape (2, n)."""
    x = 2 * (1 + series.stretch) * angles / (angles + PI * series.stretch) - 1
    coefficients = np.stack([series.nngp, series.ntk])
    last, before = np.zeros((2, len(x)), dtype=np.longdouble), np.zeros((2, len(x)), dtype=np.longdouble)
    for column in coefficients.T[::-1]:
        last, before = column[:, None] + 2 * x * last - before, last
    return last - x * before
