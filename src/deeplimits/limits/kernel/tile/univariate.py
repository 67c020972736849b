"""Homogeneous networks without biases: at any depth the kernel is |x| |x'| times one function of the angle.

The function is fitted once by a Chebyshev series in a rational map of the angle, which resolves what depth does near
angle 0 or pi; depth 64, or a flow to depth infinity, then costs what depth 1 costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual, Tape
from deeplimits.limits.kernel.tile import blocks, memory
from deeplimits.limits.kernel.tile.compiled import address
from deeplimits.limits.kernel.tile.interpreter import Program

PI = np.arccos(np.longdouble(-1))
TOLERANCES = {np.float64: 1e-14, np.float32: 2e-8}
STRETCHES = (64.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015)
SHORTEST = 3
STEEPEST, WIDEST = 5.0, 0.05
"""In float32, pairs where a unit error of the cosine moves a kernel by more than STEEPEST diagonals are done elsewhere,
if they lie within 1 - WIDEST < |cosine|."""


@dataclass(frozen=True)
class Map:
    """A map x of angles to [-1, 1] that is steeper at angle 0 ("left"), at pi ("right") or at both the smaller a is.

    Left: x = 2 (1 + a) t / (t + pi a) - 1; right: its mirror image; both: x = a w / (1 + a - w**2), w = 2 t / pi - 1.
    """

    kind: str
    a: float

    def angles(self, x: np.ndarray) -> np.ndarray:
        """Return the angles of points, in their precision."""
        a, one = np.longdouble(self.a), np.longdouble(1)
        if self.kind == "both":
            return PI / 2 * (1 + 2 * x * (one + a) / (a + np.sqrt(a**2 + 4 * x**2 * (one + a))))
        u = (1 + x if self.kind == "left" else 1 - x) / 2
        t = u * PI * a / (one + a - u)
        return t if self.kind == "left" else PI - t

    def points(self, angles: np.ndarray) -> np.ndarray:
        """Return x of angles, in their precision."""
        front, slope, *square, shift = (np.longdouble(number) for number in self.numbers(PI))
        bottom = square[0] + angles * (square[1] + angles * square[2])
        return ((front + slope * angles) / bottom + shift) / 2

    def numbers(self, pi: Any) -> tuple[Any, ...]:
        """Return A to F of 2 x = (A + B t) / (C + D t + E t**2) + F."""
        a = self.a
        if self.kind == "left":
            return 0, 4 * (1 + a), pi * a, 1, 0, -2
        if self.kind == "right":
            return -4 * (1 + a) * pi, 4 * (1 + a), pi * (1 + a), -1, 0, 2
        return -2 * a, 4 * a / pi, a, 4 / pi, -4 / pi**2, 0


SAMPLES = (
    *((64, Map("left", 8.0)), (64, Map("right", 1.0)), (128, Map("left", 0.5)), (128, Map("both", 1.0))),
    *((256, Map("left", 0.1)), (256, Map("both", 1.0)), (512, Map("left", 0.03)), (1024, Map("left", 0.01))),
)


@dataclass(frozen=True)
class Fit:
    """Chebyshev series, in a map of the angle, of both kernels of inputs with |x|^2 = d.

    Attributes:
        map: the map.
        nngp, ntk: coefficients, shape (n,), extended precision.
    """

    map: Map
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
    return isinstance(step, Copy | Add)


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
    row = np.zeros(blocks.HEAD + 2 * count)
    row[:7] = *(float(number) for number in found.map.numbers(np.pi)), count
    for start, series in ((blocks.HEAD, found.nngp), (blocks.HEAD + count, found.ntk)):
        row[start : start + len(series)] = series
    return memory.rows([row], len(row), 0, real)


def shortest(sampled: Fit, tolerance: float) -> Fit | None:
    """Return the shortest series found, over several maps, whose tail is below the tolerance."""
    best = None
    for kind in ("left", "right", "both"):
        for a in STRETCHES:
            candidate = Map(kind, a)
            coefficients = _series(_evaluate(sampled, candidate.angles(_nodes(len(sampled.nngp)))))
            tails = np.cumsum(np.abs(coefficients[:, ::-1]), axis=1)[:, ::-1]
            enough = np.flatnonzero((tails <= tolerance * tails[:, :1]).all(axis=0))
            if len(enough) and (best is None or enough[0] < len(best.nngp)):
                best = Fit(candidate, *coefficients[:, : max(enough[0], 1)])
    return best


def _sample(tape: Tape, tolerance: float) -> Fit | None:
    """Return a series whose last coefficients are below the tolerance, in extended precision."""
    for size, place in SAMPLES:
        end = near.run(tape, near.from_angles(place.angles(_nodes(size))))
        coefficients = _series(np.stack([end.k, end.theta]))
        scale = np.abs(coefficients).sum(axis=1, keepdims=True)
        if not np.isfinite(scale).all():
            return None
        if (np.abs(coefficients[:, -size // 8 :]) <= tolerance * scale).all():
            return Fit(place, *coefficients)
    return None


def _nodes(size: int) -> np.ndarray:
    return np.cos((np.arange(size, dtype=np.longdouble) + 0.5) * PI / size)


@lru_cache(maxsize=8)
def _cosines(size: int) -> np.ndarray:
    k = np.arange(size, dtype=np.longdouble)
    table = np.cos(k[:, None] * (k[None, :] + 0.5) * PI / size) * 2 / size
    table[0] /= 2
    return table.T


def _series(values: np.ndarray) -> np.ndarray:
    """Return Chebyshev coefficients (functions, n) from values at the n nodes."""
    return values @ _cosines(values.shape[1])


def _evaluate(series: Fit, angles: np.ndarray) -> np.ndarray:
    """Return both functions at angles, shape (2, n)."""
    x = series.map.points(angles)
    coefficients = np.stack([series.nngp, series.ntk])
    last, before = np.zeros((2, len(x)), dtype=np.longdouble), np.zeros((2, len(x)), dtype=np.longdouble)
    for column in coefficients.T[::-1]:
        last, before = column[:, None] + 2 * x * last - before, last
    return last - x * before
