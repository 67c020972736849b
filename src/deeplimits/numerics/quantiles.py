"""Quantiles over samples, each with its standard error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def quantiles(values: Array, levels: Sequence[float]) -> tuple[Array, Array]:
    """Return quantiles over the first axis and their standard errors, found from the order statistics alone.

    The error is half the distance between the quantiles of levels p - s and p + s, s = sqrt(p (1 - p)/S).

    Args:
        values: shape (S, ...).
        levels: P numbers in (0, 1).

    Returns:
        Two arrays of shape (P, ...).

    Source: definition (binomial law of the rank of a quantile).

    Example:
        >>> value, error = quantiles(np.arange(101.0), [0.5])
        >>> value, np.round(error, 2)
        (array([50.]), array([4.98]))
    """
    p = np.asarray(levels, dtype=np.float64)
    spread = np.sqrt(p * (1 - p) / len(values))
    low, middle, high = (np.quantile(values, np.clip(at, 0, 1), axis=0) for at in (p - spread, p, p + spread))
    return middle, (high - low) / 2
