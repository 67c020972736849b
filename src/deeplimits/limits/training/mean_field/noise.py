"""Gaussian noise that grows with time: quasi-random normals, and a factor of a covariance extended block by block."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from deeplimits.limits.training.mean_field.record import Array
from deeplimits.numerics.seeds import generator

DIRECTIONS = 256
"""Directions of noise that are taken from one scrambled Sobol sequence; later ones are independent."""
NEGLIGIBLE = 1e-6
"""A direction whose variance, given the earlier ones, is this share of the largest variance is left out."""


class Normals:
    """Rows of standard normals, one number a particle; the first rows are a scrambled Sobol sequence through Phi^-1.

    Every march has its own scrambling, so that marches are independent and each of them is unbiased.

    Args:
        count: particles.
        rows: most rows that may be asked for.
        seed: of the stream.
        names: of the stream.

    Source: owen-1998-scrambling.

    Example:
        >>> rows = Normals(64, 2, 0, "example").take(2)
        >>> rows.shape, bool(abs(rows.mean()) < 0.05)
        ((2, 64), True)
    """

    def __init__(self, count: int, rows: int, seed: int, *names: str | int):
        self.count, self.taken = count, 0
        self.stream = generator(seed, *names, "independent")
        engine = Sobol(min(max(rows, 1), DIRECTIONS), scramble=True, rng=generator(seed, *names, "Sobol"))
        points = engine.random_base2(max(count - 1, 1).bit_length())[:count]
        self.points = np.clip(points.T, 2.0**-54, 1 - 2.0**-53)

    def take(self, rows: int) -> Array:
        """Return the next rows, shape (rows, count)."""
        quasi = ndtri(self.points[self.taken : self.taken + rows])
        self.taken += rows
        return np.concatenate([quasi, self.stream.standard_normal((rows - len(quasi), self.count))])


class Growing:
    """Samples of a Gaussian process whose covariance becomes known block of rows by block of rows.

    A row is a combination of independent normals xi. Rows that are the earlier ones' combination, to `NEGLIGIBLE`, bring
    no new normal; the others are pivots, whose rows make a triangular factor F: pivot values = F xi.

    Args:
        capacity: most rows.
        normals: where xi comes from.
    """

    def __init__(self, capacity: int, normals: Normals):
        self.normals = normals
        self.factor, self.xi = np.zeros((capacity, capacity)), np.empty((capacity, normals.count))
        self.pivots: list[int] = []
        self.largest = 0.0

    def extend(self, rows: Array) -> Array:
        """Return samples of the new rows, shape (p, particles).

        Args:
            rows: their covariances with all earlier rows and among themselves, shape (p, n + p).
        """
        known, new = len(self.pivots), len(rows)
        first = rows.shape[1] - new
        given = self._given(rows)
        own = rows[:, first:]
        self.largest = max(self.largest, float(own.diagonal().max()))
        fresh, chosen = _pivoted(own - given @ given.T, NEGLIGIBLE * self.largest)
        weights = np.concatenate([given, fresh], axis=1)
        after = known + len(chosen)
        self.factor[known:after, :after] = weights[chosen]
        self.xi[known:after] = self.normals.take(len(chosen))
        self.pivots += [first + row for row in chosen]
        return weights @ self.xi[:after]

    def beside(self, rows: Array, own: Array, normals: Array) -> Array:
        """Return samples of further rows given this process, each with its own noise, shape (m, particles).

        Args:
            rows: their covariances with the process's rows, shape (m, n).
            own: their variances, shape (m,).
            normals: standard normals of their own, shape (m, particles).
        """
        weights = self._given(rows)
        left = np.maximum(own - (weights**2).sum(1), 0.0)
        return weights @ self.xi[: len(self.pivots)] + np.sqrt(left)[:, None] * normals

    def slopes(self, values: Array, columns: int) -> Array:
        """Return the mean derivatives of functions of the process in its rows, by Gaussian integration by parts.

        <v x^T> = <dv/dx> <x x^T>, solved on the pivots; the other rows' derivatives, which no combination of samples
        can tell from those, are 0.

        Args:
            values: of the functions, shape (m, particles).
            columns: number of rows of the process.
        """
        count = len(self.pivots)
        found = np.zeros((len(values), columns))
        moments = values @ self.xi[:count].T / self.normals.count
        factor = self.factor[:count, :count]
        found[:, self.pivots] = solve_triangular(factor, moments.T, trans="T", lower=True, check_finite=False).T
        return found

    def _given(self, rows: Array) -> Array:
        count = len(self.pivots)
        if not count:
            return np.zeros((len(rows), 0))
        factor = self.factor[:count, :count]
        return solve_triangular(factor, rows[:, self.pivots].T, lower=True, check_finite=False).T


def _pivoted(covariance: Array, least: float) -> tuple[Array, list[int]]:
    """Return a pivoted Cholesky factor, shape (p, k), and its k pivots; what is left has variances of at most `least`."""
    left = covariance.copy()
    columns, chosen = [], []
    for _ in range(len(left)):
        pivot = int(np.argmax(left.diagonal()))
        size = left[pivot, pivot]
        if not size > least:
            break
        column = left[:, pivot] / np.sqrt(size)
        column[chosen] = 0.0
        left -= np.outer(column, column)
        columns.append(column)
        chosen.append(pivot)
    return np.array(columns).reshape(len(chosen), len(left)).T, chosen
