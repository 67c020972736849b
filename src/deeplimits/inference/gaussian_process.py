"""Gaussian-process regression: one Cholesky factor in place, and two laws that it gives.

`gp`: the posterior of a Gaussian process with the kernel as covariance.
`ensemble`: the law of networks trained to the end from random starts, of which the NTK gives the motion and the NNGP
kernel the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, eigvalsh, get_lapack_funcs, solve_triangular

from deeplimits.errors import InputError, PrecisionError
from deeplimits.inference.prior import Prior, Rows, row_blocks

EPSILON = float(np.finfo(np.float64).eps)
potrf, potri, pocon, lange, trtri = get_lapack_funcs(("potrf", "potri", "pocon", "lange", "trtri"), dtype=np.float64)


@dataclass(frozen=True)
class Factor:
    """L of L L^T = K + noise I, in the lower triangle of a matrix in Fortran order; what stands above is not read."""

    lower: np.ndarray

    @property
    def log_determinant(self) -> float:
        """log det(K + noise I)."""
        return 2.0 * float(np.log(self.lower.diagonal()).sum())

    def solve(self, y: np.ndarray) -> np.ndarray:
        """Return (K + noise I)^-1 y, shape of y."""
        return cho_solve((self.lower, True), y, check_finite=False)

    def half(self, y: np.ndarray) -> np.ndarray:
        """Return L^-1 y, in place where y is in Fortran order."""
        return solve_triangular(self.lower, y, lower=True, overwrite_b=True, check_finite=False)

    def inverse(self) -> np.ndarray:
        """Return (K + noise I)^-1, shape (N, N), with two matrices more on the way."""
        found, _ = potri(self.lower, lower=1)
        found = np.tril(found)
        found += found.T
        found.flat[:: len(found) + 1] /= 2
        return found

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of (K + noise I)^-1, shape (N,), with one matrix more on the way."""
        found, _ = trtri(self.lower, lower=1)
        return np.array([column[row:] @ column[row:] for row, column in enumerate(found.T)])


def factorise(where: str, matrix: np.ndarray, noise: float, rows: Rows, unit: float = 1.0) -> Factor:
    """Return the Cholesky factor of K + noise I, written over K.

    Args:
        where: named in errors.
        matrix: K, shape (N, N), symmetric, C order; its lower triangle (of the transpose) is overwritten.
        noise: variance added to the diagonal, at least 0.
        rows: the inputs of K, shape (N, d), looked at for duplicates where noise is 0.
        unit: what a variance of one stands for on the scale that the user knows; for the words of errors.

    Raises:
        InputError: noise is 0 and two rows are the same.
        PrecisionError: the matrix is not positive definite in float64; says its smallest eigenvalue.

    Source: definition.

    Example:
        >>> factorise("fit", np.eye(2), 3.0, np.eye(2)).lower.diagonal()
        array([2., 2.])
    """
    if noise == 0.0:
        _refuse_duplicates(where, rows)
    matrix.flat[:: len(matrix) + 1] += noise
    diagonal, turned = matrix.diagonal().copy(), matrix.T
    doubtful = noise < 100 * EPSILON * diagonal.sum()  # otherwise noise bounds the condition number
    size = lange("1", turned) if doubtful else 0.0
    lower, failed = potrf(turned, lower=1, clean=0, overwrite_a=1)
    if doubtful and failed == 0:
        condition, _ = pocon(lower, size, uplo="L")
        failed = condition < EPSILON
    if failed:
        _refuse(where, lower, diagonal, noise * unit, unit)
    return Factor(lower)


def _refuse_duplicates(where: str, rows: Rows) -> None:
    seen: dict[tuple[Any, bytes], int] = {}
    first = [seen.setdefault((row.shape, (row + 0.0).tobytes()), place) for place, row in enumerate(rows)]
    pairs = [f"{one} and {place}" for place, one in enumerate(first) if one != place]
    if pairs:
        why = f"noise=0 and rows {', '.join(pairs[:3])} are the same" + (", among others" if len(pairs) > 3 else "")
        raise InputError(where, why, "give a noise > 0, or drop the duplicates")


def _refuse(where: str, spoilt: np.ndarray, diagonal: np.ndarray, noise: float, unit: float) -> None:
    """Raise with the smallest eigenvalue; the upper triangle of the matrix is still as it was."""
    np.fill_diagonal(spoilt, diagonal)
    smallest = float(eigvalsh(spoilt, lower=False, subset_by_index=[0, 0])[0])
    needed = max(10 * EPSILON * float(diagonal.sum()), -2 * smallest)
    why = (
        f"the kernel of these {len(diagonal)} rows with noise={noise:g} is not positive definite in float64: its "
        f"smallest eigenvalue is {smallest * unit:.3g}, the mean of its diagonal {diagonal.mean() * unit:.3g}"
    )
    raise PrecisionError(
        where, why, f"raise noise to {noise + needed * unit:.1e} or more, or drop rows that are nearly the same"
    )


class Law:
    """A Gaussian law over functions, given N rows, of which subclasses say what the rows change.

    Attributes:
        prior: the network.
        kind: the kernel that carries the rows to new ones, "nngp" or "ntk".
        rows: the N inputs.
        weights: of the mean, kernel(X, rows) @ weights, shape (N,) or (N, outputs).
        start: NNGP kernel of the rows, for the law of trained networks with another kernel; else None.
    """

    prior: Prior
    kind: str
    rows: Rows
    weights: np.ndarray
    start: np.ndarray | None

    def mean(self, X: Rows) -> np.ndarray:
        """Return the mean at M rows, shape (M,) or (M, outputs), block by block."""
        parts = [self.prior.cross(X[part], self.rows, self.kind) @ self.weights for part in self._parts(X)]
        return np.concatenate(parts)

    def mean_and_variance(self, X: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the variance of each output, shapes (M,) or (M, outputs), and (M,), block by block."""
        means, variances = [], []
        for part in self._parts(X):
            mean, reduced = self._reduced(X[part], None)
            means.append(mean)
            variances.append(reduced)
        diagonal = self.prior.variances(X, self._start)
        return np.concatenate(means), np.maximum(diagonal + np.concatenate(variances), 0.0)

    def mean_and_covariance(self, X: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the covariance of each output, shapes (M,) or (M, outputs), and (M, M)."""
        mean, covariance = self._reduced(X, self.prior.matrix(X, self._start))
        return mean, (covariance + covariance.T) / 2

    @property
    def _start(self) -> str:
        return self.kind if self.start is None else "nngp"

    def _parts(self, X: Rows):
        return row_blocks(len(X), len(self.rows) * (1 if self.start is None else 3))

    def _reduced(self, X: Rows, full: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean, and what the data add to the covariance `full`, or to its diagonal where that is None."""
        raise NotImplementedError


@dataclass(frozen=True)
class Posterior(Law):
    """A Gaussian law over functions, given N rows.

    Attributes:
        prior: the network.
        kind: the kernel that is inverted, "nngp" or "ntk".
        rows: the N inputs.
        factor: of that kernel on the rows.
        weights: (K + noise I)^-1 y, shape (N,) or (N, outputs).
        start: NNGP kernel of the rows, for the law of trained networks; None for a Gaussian process.
    """

    prior: Prior
    kind: str
    rows: Rows
    factor: Factor
    weights: np.ndarray
    start: np.ndarray | None = None

    def _reduced(self, X: Rows, full: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if self.start is None:
            cross = self.prior.cross(X, self.rows, self.kind)
            mean, half = cross @ self.weights, self.factor.half(cross.T)
            return mean, -np.einsum("nm,nm->m", half, half) if full is None else full - half.T @ half
        nngp, ntk = self.prior.both(X, self.rows)
        mean, answer = ntk @ self.weights, self.factor.solve(ntk.T)  # answer = A^T
        pulled = self.start @ answer - 2 * nngp.T
        if full is None:
            return mean, np.einsum("nm,nm->m", answer, pulled)
        added = answer.T @ pulled
        return mean, full + (added + added.T) / 2
