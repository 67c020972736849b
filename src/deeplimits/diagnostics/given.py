"""What measures are given: tensors, arrays or nested lists of finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from deeplimits.errors import InputError


def finite_matrix(given: Any, where: str, name: str) -> np.ndarray:
    """Return a matrix of finite numbers in float64.

    Args:
        given: (m, n), a tensor, array, data frame or nested list.
        where: who asks.
        name: of what is given.

    Raises:
        InputError: no matrix, an empty one, or entries that are no finite numbers, with the first of them.

    Example:
        >>> finite_matrix([[1, 2]], "channels", "weights")
        array([[1., 2.]])
    """
    if isinstance(given, Tensor):
        given = given.detach().cpu().double().numpy() if not given.is_complex() else given.detach().cpu().numpy()
    try:
        found = np.asarray(given)
    except ValueError as error:
        raise InputError(where, f"{name} of rows of unequal lengths", "give a matrix (m, n)") from error
    if found.dtype.kind not in "iuf":
        raise InputError(where, f"{name} of dtype {found.dtype}", "give real numbers")
    if found.ndim != 2 or not found.size:
        raise InputError(where, f"{name} of shape {found.shape}", "give a matrix (m, n) with m, n > 0")
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise InputError(where, f"{name} has {found[place]} at {place}", "look for where it first appears")
    return found
