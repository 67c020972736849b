"""Inputs on the unit sphere: their cosines to rounding, and which of them coincide."""

from __future__ import annotations

import numpy as np

from deeplimits.errors import InputError
from deeplimits.limits.depth.dual_map import Cosines

COINCIDENT = 16 * np.finfo(float).eps
"""Unit rows at most this far apart are one input: rows that are multiples of each other differ by rounding."""
CLOSE = 1e-3
_ENTRIES = 4_000_000


def unit_rows(where: str, X: np.ndarray) -> np.ndarray:
    """Return the rows divided by their norms, shape (N, d), whatever their size.

    Raises:
        InputError: a row of zeros, which has no direction.
    """
    X = np.asarray(X, dtype=np.float64)
    largest = np.abs(X).max(axis=1)
    if (largest == 0).any():
        row = int(np.argmax(largest == 0))
        raise InputError(where, f"row {row} is zero: it has no direction on the sphere", "drop it, or add a feature")
    scaled = X / largest[:, None]
    return scaled / np.linalg.norm(scaled, axis=1)[:, None]


def cosines(U: np.ndarray, V: np.ndarray) -> Cosines:
    """Return the cosines of unit rows, 1 - c = |u - v|^2 / 2 and 1 + c likewise with their own relative accuracy.

    Shapes: U (M, d), V (N, d), the result (M, N).
    """
    c = np.clip(U @ V.T, -1, 1)
    gap, span = 1 - c, 1 + c
    for small, sign in ((gap, -1.0), (span, 1.0)):
        rows, columns = np.nonzero(small < CLOSE)
        size = max(1, _ENTRIES // U.shape[1])
        for start in range(0, len(rows), size):
            i, j = rows[start : start + size], columns[start : start + size]
            apart = U[i] + sign * V[j]
            small[i, j] = 0.5 * np.einsum("pd,pd->p", apart, apart)
    limit = COINCIDENT**2 / 2
    gap[gap <= limit], span[span <= limit] = 0, 0
    return Cosines(c, gap, span)


def merge(U: np.ndarray, targets: np.ndarray, parity: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct unit rows and the mean target of each: what a least-squares fit makes of equal inputs.

    Opposite rows are one input of an even activation, and of an odd one with the opposite target.

    Args:
        U: unit rows, shape (N, d).
        targets: shape (N, K).
        parity: 1 for an even activation, -1 for an odd one, else 0.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    if parity:
        largest = np.abs(U)
        lead = np.argmax(largest >= largest.max(axis=1)[:, None] * (1 - 1e-8), axis=1)
        side = np.sign(U[np.arange(len(U)), lead])
        U = U * side[:, None]
        targets = targets * side[:, None] if parity < 0 else targets
    rows, where = np.unique(U, axis=0, return_inverse=True)
    where = where.ravel()
    pairs = KDTree(rows).query_pairs(COINCIDENT, output_type="ndarray")
    links = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(rows), len(rows)))
    count, label = connected_components(links, directed=False)
    group = label[where]
    _, first = np.unique(group, return_index=True)
    sums = np.zeros((count, targets.shape[1]))
    np.add.at(sums, group, targets)
    order = np.argsort(first)
    return U[first[order]], (sums / np.bincount(group)[:, None])[order]
