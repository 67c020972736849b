"""Hermite coefficients of a family as data of the tile engine: a table in log q, and how many a cosine needs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.errors import AccuracyWarning
from deeplimits.limits.kernel.tile.mehler import UNROLL

TOLERANCE, STENCIL, FEW, MOST, LEAST = 1e-13, 8, 192, 3072, 1e-15
LEVELS = np.append(1 - 2.0 ** (-np.arange(1, 90) / 3), 1.0)
"""Largest |cosine| in a block, from which the number of coefficients is looked up."""


@dataclass(frozen=True)
class Table:
    """Coefficients at nodes.

    Attributes:
        values: shape (nodes, even + odd): a_0, a_2, ... then a_1, a_3, ...
        even, odd: how many of each parity are not negligible, rounded up to a multiple of UNROLL with zeros.
        stencil: number of nodes a coefficient is interpolated from; 1 where every variance is a node.
        orders: shape (levels,), the number of coefficients (of both parities) that |cosine| <= level needs.
        first, step: log q of node 0, and between nodes (stencil > 1).
        nodes: the variances at the nodes (stencil 1).
    """

    values: np.ndarray
    even: int
    odd: int
    stencil: int
    orders: np.ndarray
    first: float
    step: float
    nodes: np.ndarray

    def position(self, q: np.ndarray) -> np.ndarray:
        """Return where variances lie between the nodes, in nodes."""
        if self.stencil == 1:
            return np.searchsorted(self.nodes, q).astype(np.float64)
        return (np.log(q) - self.first) / self.step


def build(family: Any, variances: Sequence[np.ndarray]) -> Table:
    """Return the table of a family for all the variances at which it is used."""
    distinct = np.unique(np.concatenate(variances))
    order = family.order_for(float(distinct[-1]), 1.0, TOLERANCE)
    if len(distinct) <= FEW:
        return _table(family.coefficients(distinct, order).T, distinct, 1, 0.0, 1.0)
    step = min(np.log(distinct[-1] / distinct[0]) / STENCIL, 1 / 16)
    count = int(np.ceil(np.log(distinct[-1] / distinct[0]) / step)) + STENCIL
    first = np.log(distinct[0]) - (STENCIL // 2 - 1) * step
    values = family.coefficients(np.exp(first + step * np.arange(count)), order).T
    while True:
        middles = family.coefficients(np.exp(first + step * (np.arange(count - 1) + 0.5)), order).T
        wrong = _disagreement(values, middles)
        if wrong <= TOLERANCE or 2 * count > MOST:
            break
        both = np.empty((2 * count - 1, values.shape[1]))
        both[::2], both[1::2] = values, middles
        skip = STENCIL // 2 - 1
        values, step, first = both[skip : len(both) - skip], step / 2, first + skip * step / 2
        count = len(values)
    if wrong > 100 * TOLERANCE:
        text = f"kernel: the Hermite coefficients of {family} are interpolated to {wrong:.1e} of the diagonal only"
        warnings.warn(text, AccuracyWarning, stacklevel=2)
    return _table(values, np.exp(first + step * np.arange(count)), STENCIL, first, step)


def weights(fraction: float) -> np.ndarray:
    """Return the weights of Lagrange's interpolation between the middle two of STENCIL equidistant nodes."""
    x = np.arange(STENCIL) - (STENCIL // 2 - 1)
    apart = x[:, None] - x[None, :] + np.eye(STENCIL)
    factors = np.where(np.eye(STENCIL, dtype=bool), 1, (fraction - x[None, :]) / apart)
    return factors.prod(axis=1)


def _disagreement(values: np.ndarray, middles: np.ndarray) -> float:
    inner = len(values) - STENCIL + 1
    guess = sum(w * values[n : n + inner] for n, w in enumerate(weights(0.5)))
    gap = np.abs(guess - middles[STENCIL // 2 - 1 : STENCIL // 2 - 1 + inner])
    root = np.sqrt(np.arange(values.shape[1]))
    sizes = (np.linalg.norm(middles[STENCIL // 2 - 1 :][:inner] * r, axis=1) for r in (1, root))
    return max(float(np.max((gap * r).max(axis=1) / size)) for r, size in zip((1, root), sizes, strict=True))


def _table(values: np.ndarray, nodes: np.ndarray, stencil: int, first: float, step: float) -> Table:
    probes = values[np.linspace(0, len(values) - 1, min(len(values), 16)).round().astype(int)]
    even, odd = (_significant(probes, parity) for parity in (0, 1))
    counts = [-(-count // UNROLL) * UNROLL for count in (even, odd)]
    together = np.zeros((len(values), sum(counts)))
    together[:, :even], together[:, counts[0] : counts[0] + odd] = values[:, ::2][:, :even], values[:, 1::2][:, :odd]
    even, odd = counts
    return Table(together, even, odd, stencil, _orders(probes), first, step, nodes)


def _significant(values: np.ndarray, parity: int) -> int:
    k = np.arange(values.shape[1])
    count = 0
    for weight in (np.ones(len(k)), k):
        terms = weight * values**2
        left = np.cumsum(terms[:, parity::2][:, ::-1], axis=1)[:, ::-1]
        needed = (left > LEAST * terms.sum(axis=1, keepdims=True)).any(axis=0)
        count = max(count, int(needed.sum()))
    return count


def _orders(values: np.ndarray) -> np.ndarray:
    k = np.arange(values.shape[1])
    result = np.ones(len(LEVELS), dtype=np.int64)
    for weight, shift in ((np.ones(len(k)), 0), (k, 1)):
        terms = weight * values**2
        allowed = TOLERANCE * terms.sum(axis=1, keepdims=True)
        for n, level in enumerate(LEVELS):
            left = np.cumsum((terms * level ** np.maximum(k - shift, 0))[:, ::-1], axis=1)[:, ::-1]
            result[n] = max(result[n], int((left > allowed).any(axis=0).sum()))
    return result
