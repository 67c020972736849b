"""What is given to samplers, before any work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distinct_rows(array: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in order of first appearance, and for each row which of them it is."""
    _, first, which = np.unique(array + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return array[first[order]], np.argsort(order)[which.reshape(-1)]
