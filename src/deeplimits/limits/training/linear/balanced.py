"""Layers of a deep linear network that start balanced."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.numerics.arrays import check
from deeplimits.numerics.seeds import generator

WHERE = "balanced"
Array = NDArray[np.float64]


def balanced(matrix: Any, layers: int, width: int | None = None, seed: SupportsIndex = 0) -> list[Array]:
    """Return weights W_1, ..., W_N whose product W_N ... W_1 is a matrix, and W_(j+1)' W_(j+1) = W_j W_j'.

    With the decomposition U diag(s) V' of the matrix, W_j = Q_j diag(s^(1/N)) Q_(j-1)', Q_N = U, Q_0 = V, and
    orthonormal columns Q_j, uniformly drawn, between.

    Args:
        matrix: the product, shape (C, d).
        layers: N >= 1.
        width: of the hidden layers, at least min(C, d), which is the default.
        seed: of the hidden directions.

    Returns:
        W_1, shape (width, d), to W_N, shape (C, width), in float64.

    Raises:
        InputError: no finite matrix, no whole numbers, hidden layers that are too narrow.

    Source: arora-2018-implicit-acceleration.

    Example:
        >>> first, second = balanced([[3.0, 4.0]], layers=2, width=5)
        >>> (second @ first).round(12).tolist(), round(float((first**2).sum()), 12)
        ([[3.0, 4.0]], 5.0)
    """
    try:
        product = np.asarray(check(WHERE, matrix).numpy()[0], dtype=np.float64)
    except InputError as error:
        raise InputError(WHERE, error.why.replace("X1", "matrix"), "give a finite matrix (C, d)") from None
    number, rank = whole(WHERE, "layers", layers), min(product.shape)
    wide = rank if width is None else whole(WHERE, "width", width)
    if wide < rank and number > 1:
        why = f"width={wide} is narrower than the {rank} singular values of the matrix"
        raise InputError(WHERE, why, f"give width >= {rank}")
    left, s, right = np.linalg.svd(product, full_matrices=False)
    random = generator(seed, "balanced")
    hidden = [np.linalg.qr(random.standard_normal((wide, rank)))[0] for _ in range(number - 1)]
    bases = [right.T, *hidden, left]
    share = s ** (1 / number)
    return [(out * share) @ into.T for into, out in pairwise(bases)]
