"""Checks of what is given to samplers, before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError


def matrix(where: str, name: str, X: Any) -> NDArray[np.float64]:
    """Return X as a float64 matrix (k, d).

    Raises:
        InputError: not two-dimensional, empty, not numeric, or with a NaN or an infinity.
    """
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    try:
        array = np.asarray(X).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            where, f"{name} is not numeric ({error})", "give a matrix of numbers, one row an input"
        ) from None
    if array.ndim != 2:
        why = f"{name} has shape {array.shape}, not (inputs, features)"
        raise InputError(where, why, f"use {name}[None] for one input, or reshape to one row an input")
    if 0 in array.shape:
        raise InputError(where, f"{name} of shape {array.shape} is empty", "give at least one input with one feature")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row, column = bad[0]
        why = f"{name} has {array[row, column]} at row {row}, column {column}"
        raise InputError(where, why, "drop or impute that row")
    return array


def distinct_rows(array: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in order of first appearance, and for each row which of them it is."""
    _, first, which = np.unique(array + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return array[first[order]], np.argsort(order)[which.reshape(-1)]
