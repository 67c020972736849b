"""Gaussian noise that grows with time: quasi-random normals, and a factor of a covariance extended block by block."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from deeplimits.limits.training.mean_field.record import Array
from deeplimits.numerics.seeds import generator

BITS = 30
DIRECTIONS = 256
"""Directions of noise taken from one Sobol sequence, the last for inputs aside; further ones are independent."""
NEGLIGIBLE = 1e-4
"""A direction whose variance, given the earlier ones, is this share of the largest variance is left out."""
RIDGE = 0.5
"""Variances below this share of the largest over the particles say less of a derivative than noise does."""


class Normals:
    """Rows of standard normals, one number a particle: a randomly shifted Sobol sequence, taken through Phi^-1.

    Each point of the sequence, as `BITS` bits, is combined with the stream's own bits by exclusive or: streams are
    independent, and a mean over the particles of one of them is unbiased.

    Args:
        count: particles.
        seed: of the stream.
        names: of the stream.

    Source: owen-1998-scrambling (random digital shifts).

    Example:
        >>> rows = Normals(64, 0, "example").take(2)
        >>> rows.shape, bool(abs(rows.mean()) < 0.05)
        ((2, 64), True)
    """

    def __init__(self, count: int, seed: int, *names: str | int):
        self.count, self.taken = count, 0
        self.shift = generator(seed, *names, "shift").integers(2**BITS, size=(DIRECTIONS, 1), dtype=np.int32)
        self.stream = generator(seed, *names, "independent")

    def take(self, rows: int) -> Array:
        """Return the next rows, shape (rows, count)."""
        chosen = slice(self.taken, min(self.taken + rows, DIRECTIONS - 1))
        quasi = self._normal(chosen) if chosen.start < chosen.stop else np.empty((0, self.count))
        self.taken += rows
        return np.concatenate([quasi, self.stream.standard_normal((rows - len(quasi), self.count))])

    @property
    def aside(self) -> Array:
        """The row kept for inputs of which only each one's own law counts, shape (count,)."""
        return self._normal(slice(DIRECTIONS - 1, DIRECTIONS))[0]

    def _normal(self, rows: slice) -> Array:
        return ndtri(((_sobol(self.count)[rows] ^ self.shift[rows]) + 0.5) / 2**BITS)


@lru_cache(maxsize=2)
def _sobol(count: int) -> NDArray[np.int32]:
    points = Sobol(DIRECTIONS, scramble=False, bits=BITS).random_base2(max(count - 1, 1).bit_length())
    return (points[:count].T * 2**BITS).astype(np.int32)


class Growing:
    """Samples of a Gaussian process whose covariance becomes known block of rows by block of rows.

    A row is a combination of independent normals xi. Rows that are the earlier ones' combination, to `NEGLIGIBLE`,
    bring no new normal; the others are pivots, with values F xi, F triangular.

    Args:
        capacity: most rows.
        normals: where xi comes from.
    """

    def __init__(self, capacity: int, normals: Normals):
        self.normals = normals
        self.factor, self.inverse = np.zeros((capacity, capacity)), np.zeros((capacity, capacity))
        self.xi = np.empty((capacity, normals.count))
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
        self.inverse[known:after, known:after] = inverse = np.linalg.inv(fresh[chosen])
        self.inverse[known:after, :known] = -inverse @ given[chosen] @ self.inverse[:known, :known]
        self.xi[known:after] = self.normals.take(len(chosen))
        self.pivots += [first + row for row in chosen]
        return weights @ self.xi[:after]

    def beside(self, rows: Array, own: Array) -> Array:
        """Return samples of further rows given this process, each right alone, shape (m, particles).

        Args:
            rows: their covariances with the process's rows, shape (m, n).
            own: their variances, shape (m,).
        """
        weights = self._given(rows)
        left = np.maximum(own - (weights**2).sum(1), 0.0)
        return weights @ self.xi[: len(self.pivots)] + np.sqrt(left)[:, None] * self.normals.aside

    def slopes(self, values: Array, columns: int) -> Array:
        """Return the mean derivatives of functions of the process in its rows, by Gaussian integration by parts.

        <v x^T> = <dv/dx> (<x x^T> + ridge), on the pivots; the other rows' derivatives, which samples cannot tell from
        those, are 0. The ridge falls as 1/particles; without it noise in directions of little variance, drawn from the
        particles that it then moves, biases their means.

        Args:
            values: of the functions, shape (m, particles).
            columns: number of rows of the process.
        """
        count = len(self.pivots)
        found = np.zeros((len(values), columns))
        factor, particles = self.factor[:count, :count], self.normals.count
        covariance = factor @ factor.T + RIDGE * self.largest / particles * np.eye(count)
        moments = values @ self.xi[:count].T @ factor.T / particles
        found[:, self.pivots] = np.linalg.solve(covariance, moments.T).T
        return found

    def _given(self, rows: Array) -> Array:
        """Return what rows are of xi so far: F^-1 applied to their covariances with the pivots, (p, pivots)."""
        count = len(self.pivots)
        return rows[:, self.pivots] @ self.inverse[:count, :count].T


def _pivoted(covariance: Array, least: float) -> tuple[Array, list[int]]:
    """Return a pivoted Cholesky factor, shape (p, k), and its k pivots; variances left over are at most `least`."""
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
