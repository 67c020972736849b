"""What is given to samplers, before any work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import MemoryNeeded
from deeplimits.numerics.arrays import available_bytes


def distinct_rows(array: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in order of first appearance, and for each row which of them it is."""
    _, first, which = np.unique(array + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return array[first[order]], np.argsort(order)[which.reshape(-1)]


def check_memory(where: str, what: str, needed: int, fix: str) -> None:
    """Refuse what does not fit into the free memory, with the bytes needed.

    Raises:
        MemoryNeeded: more bytes needed than free.
    """
    free = available_bytes()
    if needed > free:
        raise MemoryNeeded(where, f"{what} take {needed:,} bytes and {free:,} are free", fix)
