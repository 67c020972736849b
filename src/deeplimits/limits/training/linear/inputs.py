"""What is asked of linear networks, checked before any work."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.numerics.arrays import check, is_tensor

Array = NDArray[np.float64]

LARGEST = 1e100  # products of three such numbers, and their inverses, still fit float64


def check_not_negative(where: str, name: str, value: Any) -> Array:
    """Return finite numbers >= 0 as float64; but for 0 they lie between 1/LARGEST and LARGEST.

    Raises:
        InputError: one that does not, or no numbers.

    Example:
        >>> check_not_negative("mode_time", "target", 2).tolist()
        2.0
    """
    array = _numbers(where, name, value)
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        at = f"[{', '.join(map(str, place))}]" if place else ""
        why = f"{name}{at}={array[place]:g} is not a finite number >= 0"
        raise InputError(where, why, f"give {name} >= 0")
    far = (array > LARGEST) | ((array > 0) & (array < 1 / LARGEST))
    if far.any():
        why = f"{name}={array[tuple(np.argwhere(far)[0])]:g} is not between {1 / LARGEST:g} and {LARGEST:g}"
        raise InputError(where, why, "measure in other units")
    return array


def _numbers(where: str, name: str, value: Any) -> Array:
    if is_tensor(value):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"its type is {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        why = f"{name}={value!r} is not made of numbers ({error})"
        raise InputError(where, why, f"give {name} as numbers") from None


def check_share(where: str, share: Any) -> float:
    """Return a number in (0, 1).

    Raises:
        InputError: it is none.
    """
    if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < 1:
        raise InputError(where, f"share={share!r} is not a number between 0 and 1", "give e.g. share=0.95")
    return float(share)


def check_data(where: str, X: Any, y: Any) -> tuple[Array, Array, bool]:
    """Return inputs (P, d) and targets (P, C) in float64, and whether the targets were one column of shape (P,).

    Raises:
        InputError: not numbers, NaN or infinity, shapes that do not fit.

    Example:
        >>> X, y, flat = check_data("deep_linear", [[1.0, 0.0], [0.0, 1.0]], [1, 2])
        >>> y.shape, flat
        ((2, 1), True)
    """
    x = _matrix(where, "X", X)
    columns = y.detach().cpu().numpy() if is_tensor(y) else y
    try:
        shape: tuple[int, ...] = np.shape(columns)
    except ValueError as error:
        raise InputError(where, f"y is not an array ({error})", "give rows of equal length") from None
    if len(shape) not in (1, 2) or shape[0] != len(x) or 0 in shape:
        why = f"y has shape {shape}, and X has {len(x)} rows"
        raise InputError(where, why, f"give y of shape ({len(x)},) or ({len(x)}, outputs)")
    flat = len(shape) == 1
    columns = np.asarray(columns)
    return x, _matrix(where, "y", columns[:, None] if flat else columns), flat


def _matrix(where: str, name: str, value: Any) -> Array:
    try:
        return np.array(check(where, value).numpy()[0], dtype=np.float64)
    except InputError as error:
        raise InputError(where, error.why.replace("X1", name), error.fix) from None


def check_positive(where: str, name: str, value: Any, zero: bool = False) -> float:
    """Return a positive finite number, or 0 where `zero` allows it.

    Raises:
        InputError: it is none.
    """
    real = isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < inf
    if not real or not (value or zero):
        kind = "0 or a positive number" if zero else "a positive number"
        raise InputError(where, f"{name}={value!r} is not {kind}", f"give e.g. {name}=0.1")
    return float(value)
