"""Inputs that claims share."""

from __future__ import annotations

import numpy as np


def pair(correlation: float) -> np.ndarray:
    """Return two inputs in the plane with |x|^2/d = 1 and the given correlation, (2, 2).

    Example:
        >>> X = pair(0.2)
        >>> np.round(X @ X.T / 2, 12).tolist()
        [[1.0, 0.2], [0.2, 1.0]]
    """
    return 2**0.5 * np.array([[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]])


def sphere(count: int, dimension: int, seed: int) -> np.ndarray:
    """Return random inputs on the sphere |x|^2 = d, (count, dimension).

    Example:
        >>> sphere(3, 2, seed=0).shape
        (3, 2)
    """
    from deeplimits.numerics.seeds import generator

    x = generator(seed, "claims", "sphere").standard_normal((count, dimension))
    return x * (dimension / np.sum(x**2, axis=1, keepdims=True)) ** 0.5
