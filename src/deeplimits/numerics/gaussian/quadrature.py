"""Hermite coefficients by the trapezoidal rule, which converges geometrically for smooth functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import pi

import numpy as np

from deeplimits.numerics.gaussian.hermite import ENTRIES

Function = Callable[[np.ndarray], np.ndarray]

REACH = 13.0
"""The rule covers |z| <= REACH, beyond which the normal density is below 1e-37."""
CAPS = (1024, 4096)
"""Largest numbers of coefficients used; the second for analytic functions that the first does not exhaust."""
SPARE = 16
"""Coefficients beyond the cap that derivatives of phi need."""
STEPS = tuple(0.1 / 2**halvings for halvings in range(5))
SETTLED = 4e-15
MANY, AGREE = 512, 1e-14


@dataclass(frozen=True)
class Rule:
    """The step of the rule, the largest useful number of coefficients, and the disagreement left.

    The disagreement is relative to sqrt(E[phi^2]); it also holds the part of E[phi^2] at the ends of the rule.
    """

    step: float
    cap: int
    error: float


@lru_cache(maxsize=6)
def basis(step: float, cap: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes z (M,), weights (M,), and weights times h_k(z), shape (cap + SPARE, M).

    Runs the three-term recurrence on h_k sqrt(density), which neither overflows nor loses accuracy.
    """
    count = round(REACH / step)
    z = step * np.arange(-count, count + 1)
    root = (2 * pi) ** -0.25 * np.exp(-(z**2) / 4)
    table = np.empty((cap + SPARE, len(z)))
    table[0], table[1] = root, z * root
    for k in range(1, cap + SPARE - 1):
        table[k + 1] = (z * table[k] - np.sqrt(k) * table[k - 1]) / np.sqrt(k + 1)
    table *= step * root
    return z, step * root**2, table


def project(function: Function, q: np.ndarray, step: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `order` coefficients, shape (order, N), and E[phi^2], shape (N,), at variances q.

    Many variances are served by Chebyshev interpolation in log q, where it agrees with the rule to rounding.
    """
    positive = q > 0
    table = _interpolated(function, q[positive], step, order) if positive.sum() >= MANY else None
    if table is None:
        table = _direct(function, q, step, order)
    elif not positive.all():
        whole = np.empty((order + 1, len(q)))
        whole[:, positive], whole[:, ~positive] = table, _direct(function, np.zeros(1), step, order)
        table = whole
    return table[:order], table[order]


def _direct(function: Function, q: np.ndarray, step: float, order: int) -> np.ndarray:
    z, weights, table = basis(step, CAPS[0] if order <= CAPS[0] + SPARE else CAPS[1])
    result = np.empty((order + 1, len(q)))
    root, size = np.sqrt(q), max(1, ENTRIES // len(z))
    for start in range(0, len(q), size):
        rows = slice(start, start + size)
        values = function(root[rows, None] * z)
        result[:order, rows] = table[:order] @ values.T
        result[order, rows] = np.einsum("nm,nm,m->n", values, values, weights)
    return result


def _interpolated(function: Function, q: np.ndarray, step: float, order: int) -> np.ndarray | None:
    low, high = float(q.min()), float(q.max())
    probes = np.sort(q)[np.linspace(0, len(q) - 1, 17).round().astype(int)]
    exact = _direct(function, probes, step, order)
    scale = np.sqrt(exact[order])
    middle, half = (np.log(high) + np.log(low)) / 2, (np.log(high) - np.log(low)) / 2
    for count in (32, 64, 128) if half > 0 else ():
        angles = np.pi * (np.arange(count) + 0.5) / count
        nodes = np.cos(angles)
        values = _direct(function, np.exp(middle + half * nodes), step, order)
        wrong = np.abs(values @ _barycentric(nodes, angles, (np.log(probes) - middle) / half) - exact)
        if np.all(wrong[:order] <= AGREE * scale) and np.all(wrong[order] <= AGREE * exact[order]):
            return values @ _barycentric(nodes, angles, (np.log(q) - middle) / half)
    return None


def _barycentric(nodes: np.ndarray, angles: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the matrix from values at Chebyshev nodes to values at x, shape (nodes, N)."""
    apart = x[None, :] - nodes[:, None]
    hit = apart == 0
    signs = (-1.0) ** np.arange(len(nodes)) * np.sin(angles)
    weights = signs[:, None] / np.where(hit, 1, apart)
    weights = np.where(hit.any(axis=0), hit, weights)
    return weights / weights.sum(axis=0)


def mean_square(function: Function, q: np.ndarray, step: float) -> np.ndarray:
    """Return E[phi(sqrt(q) z)^2], shape (N,)."""
    return project(function, q, step, 0)[1]


def settle(function: Function, q: float) -> Rule:
    """Return the coarsest rule whose coefficients agree with those of half the step."""
    rule, terms = _settle(function, q, CAPS[0], STEPS)
    left = terms[-CAPS[0] // 8 :].sum() / max(terms.sum(), np.finfo(float).tiny)
    if rule.error <= SETTLED and left > 1e-15:
        wide, _ = _settle(function, q, CAPS[1], STEPS[min(STEPS.index(rule.step), 2) : 4])
        return wide if wide.error <= max(left, SETTLED) else rule
    return rule


def _settle(function: Function, q: float, cap: int, steps: tuple[float, ...]) -> tuple[Rule, np.ndarray]:
    variance, k, change = np.array([q]), np.arange(cap), np.inf
    before, square = project(function, variance, steps[0], cap)
    for step, finer in pairwise(steps):
        after, finer_square = project(function, variance, finer, cap)
        terms = k * after[:, 0] ** 2
        if not np.isfinite(finer_square[0]):
            return Rule(step, cap, np.inf), terms
        scale = max(float(finer_square[0]), np.finfo(float).tiny)
        change = float(np.max(np.abs(after - before))) / np.sqrt(scale)
        change = max(change, abs(float(finer_square[0] - square[0])) / scale)
        if change <= SETTLED:
            return Rule(step, cap, max(change, _ends(function, q, step) / scale)), terms
        before, square = after, finer_square
    return Rule(steps[-1], cap, change), terms


def _ends(function: Function, q: float, step: float) -> float:
    z, weights, _ = basis(step, CAPS[0])
    return float(np.max(function(np.sqrt(q) * z[[0, -1]]) ** 2 * weights[[0, -1]])) * REACH
