"""Arrays laid out for vector loads: every row starts on a cache line and is filled up to a whole number of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LINE, LANES = 64, 16


def whole(length: int) -> int:
    """Return a length rounded up to whole vectors."""
    return -(-length // LANES) * LANES


def aligned(shape: Sequence[int], dtype: type) -> np.ndarray:
    """Return a zero array of this shape that starts on a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, dtype=np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def rows(vectors: Sequence[Any], length: int, spare: int, dtype: type) -> np.ndarray:
    """Return the vectors, each of shape (length,), as rows (n + spare, length rounded up), filled up with zeros."""
    stacked = aligned((max(len(vectors) + spare, 1), whole(length)), dtype)
    for row, vector in zip(stacked, vectors, strict=False):
        row[:length] = vector
    return stacked


def filed(array: np.ndarray) -> np.ndarray:
    """Return the array in float64, C order and starting on a cache line; itself where it is so."""
    if array.dtype == np.float64 and array.flags.c_contiguous and array.ctypes.data % LINE == 0:
        return array
    found = aligned(array.shape, np.float64)
    found[:] = array
    return found
