"""The recursion for pairs whose angle is near 0 or pi, written in what is small there.

Instead of k it carries gap = s - k and span = s + k with s = sqrt(q1 q2): every formula below adds positive terms
only, so that the angle keeps its relative accuracy however small it is. Slower than the tile engine, and run on
the few pairs that need it (and on the nodes of the one-dimensional fit, in extended precision).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deeplimits.architecture.layer import as_float
from deeplimits.limits.kernel.tape import Add, Affine, Collapse, Copy, Dual, Normalise, Tape


@dataclass(frozen=True)
class Pairs:
    """State of a list of pairs: gap, span, NTK and the two diagonals, each of shape (P,)."""

    gap: np.ndarray
    span: np.ndarray
    theta: np.ndarray
    q1: np.ndarray
    q2: np.ndarray

    @property
    def k(self) -> np.ndarray:
        """The covariance (span - gap) / 2."""
        return (self.span - self.gap) / 2


def from_vectors(x1: np.ndarray, x2: np.ndarray) -> Pairs:
    """Return the state of pairs of inputs, row against row.

    The angle comes from the unit vectors u, v as |u - v| and |u + v|, never from their product.

    Args:
        x1: shape (P, d).
        x2: shape (P, d).
    """
    x1, x2 = np.asarray(x1, dtype=np.float64), np.asarray(x2, dtype=np.float64)
    n1, n2 = np.linalg.norm(x1, axis=1), np.linalg.norm(x2, axis=1)
    u = x1 / np.where(n1 > 0, n1, 1.0)[:, None]
    v = x2 / np.where(n2 > 0, n2, 1.0)[:, None]
    s = n1 * n2 / x1.shape[1]
    gap, span = (0.5 * s * np.einsum("pd,pd->p", w, w) for w in (u - v, u + v))
    return Pairs(gap, span, np.zeros_like(s), n1**2 / x1.shape[1], n2**2 / x1.shape[1])


def from_angles(angles: np.ndarray) -> Pairs:
    """Return the state of pairs of unit inputs at the given angles (in the angles' own precision)."""
    one = np.ones_like(angles)
    half = angles / 2
    return Pairs(2 * np.sin(half) ** 2, 2 * np.cos(half) ** 2, 0 * angles, one, one)


def run(tape: Tape, start: Pairs) -> Pairs:
    """Run a tape on a list of pairs."""
    registers: list[Pairs] = [start] * tape.registers
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for step in tape.steps:
            match step:
                case Affine(r, weight, bias, gain, shift):
                    registers[r] = _affine(registers[r], *(as_float(value) for value in (weight, bias, gain, shift)))
                case Dual(r, family):
                    registers[r] = _dual(registers[r], family)
                case Normalise(r, epsilon):
                    registers[r] = _normalise(registers[r], epsilon)
                case Copy(target, source):
                    registers[target] = registers[source]
                case Add(target, source, factor):
                    registers[target] = _add(registers[target], registers[source], as_float(factor))
                case Collapse(r):
                    p = registers[r]
                    registers[r] = replace(p, gap=0 * p.gap, span=2 * np.sqrt(p.q1 * p.q2))
    return registers[0]


def _affine(p: Pairs, weight: float, bias: float, gain: float, shift: float) -> Pairs:
    q1, q2 = weight * p.q1 + bias, weight * p.q2 + bias
    theta = weight * p.theta + gain * p.k + shift
    if bias == 0:
        return Pairs(weight * p.gap, weight * p.span, theta, q1, q2)
    s, new = np.sqrt(p.q1 * p.q2), np.sqrt(q1 * q2)
    apart = weight * bias * (np.sqrt(p.q1) - np.sqrt(p.q2)) ** 2 / (new + weight * s + bias)
    together = (weight * bias * (p.q1 + p.q2) + bias**2) / (new + weight * s)
    return Pairs(weight * p.gap + apart, weight * p.span + together + bias, theta, q1, q2)


def _add(t: Pairs, o: Pairs, factor: float) -> Pairs:
    q1, q2 = t.q1 + factor * o.q1, t.q2 + factor * o.q2
    st, so = np.sqrt(t.q1 * t.q2), np.sqrt(o.q1 * o.q2)
    total = np.sqrt(q1 * q2) + st + factor * so
    apart = factor * (np.sqrt(t.q1 * o.q2) - np.sqrt(o.q1 * t.q2)) ** 2 / np.where(total > 0, total, 1)
    return Pairs(t.gap + factor * o.gap + apart, t.span + factor * o.span + apart, t.theta + factor * o.theta, q1, q2)


def _dual(p: Pairs, family) -> Pairs:
    q1, q2 = np.maximum(p.q1, 0), np.maximum(p.q2, 0)
    gap, span, slope = family.near(p.gap, p.span, q1, q2)
    return Pairs(gap, span, slope * p.theta, family.diagonal(q1)[0], family.diagonal(q2)[0])


def _normalise(p: Pairs, epsilon: float) -> Pairs:
    n1, n2 = (np.where(q + epsilon > 0, q + epsilon, 1.0) for q in (p.q1, p.q2))
    n = np.sqrt(n1) * np.sqrt(n2)
    return replace(p, gap=p.gap / n, span=p.span / n, theta=p.theta / n, q1=p.q1 / n1, q2=p.q2 / n2)
