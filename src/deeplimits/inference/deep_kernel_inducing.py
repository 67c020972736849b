"""Inducing points of a deep kernel machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.inference.inputs import plain
from deeplimits.numerics.seeds import sequence


def inducing(where: str, asked: Any, rows: np.ndarray, seed: Any) -> np.ndarray:
    """Return the rows of the Gram matrices: the training rows themselves, centres of k-means, or what was given.

    Args:
        where: named in errors.
        asked: None, a number, or rows (B, d).
        rows: of training, shape (N, d).
        seed: of k-means.

    Raises:
        InputError: a number below 1 or above that of distinct rows, or rows that are not (B, d) finite numbers.

    Example:
        >>> inducing("fit", 1, np.array([[0.0, 1.0], [2.0, 1.0]]), 0).tolist()
        [[1.0, 1.0]]
    """
    state = int(sequence(seed, "inducing points").generate_state(1)[0])
    if asked is None:
        return rows
    if np.ndim(plain(asked)) == 0:
        count = whole(where, "inducing_points", asked)
        distinct = len(np.unique(rows, axis=0))
        if count > distinct:
            fix = "give fewer, or None for every row"
            raise InputError(where, f"inducing_points={count} of {distinct} distinct rows", fix)
        from sklearn.cluster import KMeans

        return KMeans(count, n_init="auto", random_state=state).fit(rows).cluster_centers_
    try:
        points = np.asarray(plain(asked), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(where, "inducing_points is neither a number nor rows of numbers", "give e.g. 50") from None
    if points.ndim != 2 or points.shape[1] != rows.shape[1] or not len(points):
        why = f"inducing_points has shape {points.shape} for rows of {rows.shape[1]} columns"
        raise InputError(where, why, f"give shape (B, {rows.shape[1]})")
    if not np.isfinite(points).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(points))[0])
        raise InputError(where, f"inducing_points has {points[row, column]} at row {row}, column {column}", "drop it")
    return np.array(points)
