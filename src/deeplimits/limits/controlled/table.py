"""Hermite coefficients at any variance, as polynomials in the standard deviation, an octave at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from deeplimits.numerics.gaussian.expansion import Expansion

BLOCK = 16
"""Coefficients are summed so many at a time."""
LOWEST, HIGHEST = -26, 500
"""Standard deviations 2**LOWEST to 2**HIGHEST have a table; smaller ones count as 2**LOWEST."""
COUNTS, AGREE, PROBES = (24, 48, 96, 192), 1e-13, 7
NOTHING = 1e-28
"""Share of Q and P below which coefficients count as zero: beside any others they add its root to V, 1e-14."""


class Table:
    """The coefficients of a family on the octaves of standard deviations asked for so far.

    Attributes:
        order: how many coefficients, a multiple of BLOCK.
        limits: limits[b] is the correlation up to which b + 1 blocks are enough.
        nodes: Chebyshev nodes in [-1, 1] and their barycentric weights, shape (2, count).
        values: coefficients at the nodes of each octave, shape (octaves, count, order).
        places: where in `values` octave n + LOWEST stands, or -1; shape (HIGHEST - LOWEST,).
    """

    def __init__(self, family: Expansion, tolerance: float, error: float = np.inf):
        """Start without octaves.

        Args:
            family: known by its coefficients.
            tolerance: share of Q and P that may be left out of their series.
            error: largest one of the family itself, relative; where it is more, there is no table.
        """
        self.family, self.tolerance, self.error, self.count, self.order = family, tolerance, error, COUNTS[0], BLOCK
        self.octaves: list[int] = []
        self.limits = np.full(1, 2.0)
        self._arrange()

    def add(self, octave: int) -> bool:
        """Add an octave; return whether its polynomials agree with the series."""
        if self.error < np.inf and not self.family.error(4.0 ** (octave + 1)) <= self.error:
            return False
        self.octaves.append(octave)
        order = order_for(self.family, max(self.octaves), self.tolerance)
        self.order = -(-order // BLOCK) * BLOCK
        while not all(_octave(self.family, n, self.count, self.order)[1] for n in self.octaves):
            if self.count == COUNTS[-1]:
                self.octaves.remove(octave)
                return False
            self.count = COUNTS[COUNTS.index(self.count) + 1]
        self._arrange()
        self.limits = self._limits()
        return True

    def cover(self, q: np.ndarray) -> bool:
        """Add the octaves of variances; return whether all have a table."""
        if not (q < 4.0**HIGHEST).all():
            return False
        missing = np.unique(octaves(q)[self.places[octaves(q) - LOWEST] < 0])
        return all(self.add(int(octave)) for octave in missing)

    def read(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (standard deviations and their inverses, (N, 2); coefficients, (N, order)) at covered variances."""
        roots, rows = np.sqrt(np.maximum(q, 4.0**LOWEST)), octaves(q)
        found = np.empty((len(q), self.order))
        for octave in np.unique(rows):
            here = rows == octave
            weights = _weights(self.nodes, 2 * roots[here] / 2.0**octave - 3)
            found[here] = weights @ self.values[self.places[octave - LOWEST]]
        return np.stack([roots, 1 / roots], axis=1), found

    def _arrange(self) -> None:
        self.nodes = nodes(self.count)
        self.values = np.zeros((max(1, len(self.octaves)), self.count, self.order))
        self.places = np.full(HIGHEST - LOWEST, -1)
        for n, octave in enumerate(self.octaves):
            self.values[n] = _octave(self.family, octave, self.count, self.order)[0]
            self.places[octave - LOWEST] = n

    def _limits(self) -> np.ndarray:
        """What n terms leave out at correlation c is at most c^n times the rest of the series at 1."""
        terms = self.values[self.octaves.index(max(self.octaves))] ** 2
        ends, worst = np.arange(BLOCK, self.order, BLOCK), np.zeros(self.order // BLOCK - 1)
        for weights in (np.ones(self.order), np.arange(self.order)):
            rest = np.cumsum((terms * weights)[:, ::-1], axis=1)[:, ::-1]
            worst = np.maximum(worst, (rest[:, ends] / np.maximum(rest[:, :1], 1e-300)).max(axis=0))
        enough = (self.tolerance / np.maximum(worst, 1e-300)) ** (1 / np.maximum(ends - 1, 1))
        return np.append(np.where(worst <= self.tolerance, 2.0, enough), 2.0)


def octaves(q: np.ndarray) -> np.ndarray:
    """Return the octave of the standard deviation of each variance."""
    return np.frexp(np.sqrt(np.maximum(q, 4.0**LOWEST)))[1] - 1


@lru_cache(maxsize=512)
def order_for(family: Expansion, octave: int, tolerance: float) -> int:
    """Return how many coefficients the standard deviations of an octave need."""
    return family.order_for(4.0 ** (octave + 1), 1.0, tolerance)


@lru_cache(maxsize=8)
def nodes(count: int) -> np.ndarray:
    """Return Chebyshev nodes and their barycentric weights, shape (2, count)."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return np.stack([np.cos(angles), (-1.0) ** np.arange(count) * np.sin(angles)])


def _weights(at: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the matrix from values at the nodes to values at x, shape (N, count)."""
    apart = x[:, None] - at[0]
    hit = apart == 0
    weights = np.where(hit.any(axis=1, keepdims=True), hit, at[1] / np.where(hit, 1, apart))
    return weights / weights.sum(axis=1, keepdims=True)


@lru_cache(maxsize=256)
def _octave(family: Expansion, octave: int, count: int, order: int) -> tuple[np.ndarray, bool]:
    """Return coefficients at the nodes of an octave, (count, order), and whether they say those between."""
    at, between = nodes(count), np.linspace(-0.99, 0.97, PROBES)
    x = np.concatenate([at[0], between])
    terms = min(order, order_for(family, octave, NOTHING))  # further ones may be wrong: the rule is that of the octave
    found = np.zeros((len(x), order))
    found[:, :terms] = family.coefficients(4.0**octave * ((x + 3) / 2) ** 2, terms).T
    values, exact = found[:count], found[count:]
    wrong = np.abs(_weights(at, between) @ values - exact).max(axis=1) / np.sqrt((exact**2).sum(axis=1) + 1e-300)
    agree = float(wrong.max()) <= AGREE or float(wrong.max()) <= family.error(4.0 ** (octave + 1))
    return np.ascontiguousarray(values), agree
