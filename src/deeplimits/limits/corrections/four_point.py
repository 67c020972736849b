"""Four-point moments of activations, contracted with a matrix before they are formed: P^2 numbers instead of P^4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.seeds import generator

Array = NDArray[np.float64]
EXACT, QUADRATURE, SAMPLED = "exact", "quadrature", "quasi-random points"
STEPS, REACH = (0.36, 0.24), 8.4  # of the trapezoidal rule: the second is used, their difference is its error
GOOD = 1e-6  # of the largest entry: a quadrature with a larger error is not used
LARGEST_RANK = 3
NULL = 1e-14  # eigenvalues below this share of the largest are rounding
COPIES = 16  # independent scrambles of the quasi-random points, whose spread is the standard error


@dataclass(frozen=True, eq=False)
class FourPoint:
    """Cov(phi_i phi_j, sum of B_kl phi_k phi_l) over z ~ N(0, k).

    Attributes:
        value: shape (P, P), symmetric.
        error: of each entry: 0 where it is exact, else the quadrature's error, or a standard error.
        method: "exact", "quadrature" or "quasi-random points".
    """

    value: Array
    error: Array
    method: str


def four_point(family: Family, k: Array, weights: Array, samples: int, seed: int, layer: int = 0) -> FourPoint:
    """Return the covariance of phi_i phi_j with phi^T B phi.

    The identity: 2 k B k. Otherwise the trapezoidal rule, which converges geometrically for smooth functions, in the
    directions that k spans, where those are at most three and the rule settles; otherwise scrambled Sobol points, whose
    error falls nearly as 1/samples.

    Args:
        family: the activation phi.
        k: covariance of z, shape (P, P), positive semi-definite.
        weights: B, shape (P, P), symmetric.
        samples: number of quasi-random points, over all scrambles.
        seed: of the scrambles.
        layer: which of a network's layers asks, so that each has points of its own.

    Source: derived (Isserlis' theorem for the identity).

    Example:
        >>> found = four_point(Linear(), np.eye(2), np.diag([1.0, 0.0]), 1024, 0)
        >>> found.value.tolist(), found.method
        ([[2.0, 0.0], [0.0, 0.0]], 'exact')
    """
    if isinstance(family, Linear):
        return FourPoint(2 * k @ weights @ k, np.zeros_like(k), EXACT)
    root = spanned(k)
    if not root.shape[1]:  # z is zero, phi a constant
        return FourPoint(np.zeros_like(k), np.zeros_like(k), EXACT)
    if root.shape[1] <= LARGEST_RANK:
        coarse, fine = (_over(family, root, weights, *_grid(step, root.shape[1])) for step in STEPS)
        error = np.abs(fine - coarse)
        if error.max(initial=0.0) <= GOOD * np.abs(fine).max(initial=0.0):
            return FourPoint(fine, error, QUADRATURE)
    found = np.stack([_over(family, root, weights, *points) for points in _sobol(root.shape[1], samples, seed, layer)])
    return FourPoint(found.mean(0), found.std(0, ddof=1) / sqrt(COPIES), SAMPLED)


def spanned(k: Array) -> Array:
    """Return R, shape (P, rank), with R R^T = k.

    Example:
        >>> spanned(np.ones((2, 2))).shape
        (2, 1)
    """
    values, vectors = np.linalg.eigh(k)
    kept = values > NULL * max(values[-1], 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])


def _over(family: Family, root: Array, weights: Array, points: Array, shares: Array) -> Array:
    """Return the covariance over points (M, rank) with shares (M,) that sum to one."""
    phi = family.function(points @ root.T)
    square = np.einsum("mi,mi->m", phi @ weights, phi)
    centred = shares * (square - shares @ square)
    return (phi * centred[:, None]).T @ phi


def _grid(step: float, rank: int) -> tuple[Array, Array]:
    x = np.arange(-REACH, REACH + step / 2, step)
    density, shares = np.exp(-(x**2) / 2), np.ones(1)
    for _ in range(rank):
        shares = np.multiply.outer(shares, density / density.sum()).ravel()
    return np.stack(np.meshgrid(*[x] * rank, indexing="ij"), axis=-1).reshape(-1, rank), shares


def _sobol(rank: int, samples: int, seed: int, layer: int) -> Iterator[tuple[Array, Array]]:
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    count = 2 ** max(4, (max(samples, 1) // COPIES).bit_length() - 1)
    for copy in range(COPIES):
        uniform = Sobol(rank, rng=generator(seed, "four-point", layer, copy)).random(count)
        yield ndtri(np.clip(uniform, 1e-16, 1 - 1e-16)), np.full(count, 1 / count)
