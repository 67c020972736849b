"""Means and variances over samples, each with its standard error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def standard_error(values: Array) -> Array:
    """Return the standard error of the mean over the first axis."""
    return values.std(0, ddof=1) / np.sqrt(len(values))


def variance(values: Array) -> tuple[Array, Array]:
    """Return the unbiased variance v over the first axis (S samples) and its standard error.

    The error is sqrt((m4 - (S-3)/(S-1) v^2) / S), m4 the fourth central moment.

    Example:
        >>> [part.tolist() for part in variance(np.array([-1.0, 1.0, -1.0, 1.0]))]
        [1.3333333333333333, 0.3191423692521127]
    """
    count = len(values)
    centred = values - values.mean(0)
    found = (centred**2).sum(0) / (count - 1)
    fourth = (centred**4).mean(0)
    return found, np.sqrt(np.maximum(fourth - (count - 3) / (count - 1) * found**2, 0.0) / count)
