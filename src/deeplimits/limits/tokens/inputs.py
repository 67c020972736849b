"""What is asked of tokens, checked before any work."""

from __future__ import annotations

from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError, nearest
from deeplimits.numerics.arrays import check, is_tensor

Array = NDArray[np.float64]

POINTS = 201
OPTIONS: dict[str, dict[str, Any]] = {
    "softmax": {"beta": 1.0, "query_key": None, "value": None, "accuracy": 1e-6},
    "unnormalised": {"beta": 1.0, "query_key": None, "value": None, "accuracy": 1e-6},
    "hardmax": {"query_key": None, "step": 1.0, "ties": 1e-12},
    "sinkhorn": {"epsilon": 0.1, "query_key": None, "value": None, "accuracy": 1e-6, "iterations": 300},
}


def check_tokens(where: str, X: Any, directions: bool) -> Array:
    """Return tokens as float64, shape (m, d); divided by their norms where only directions count.

    Raises:
        InputError: not numbers of shape (m, d), NaN or infinity; a token without a direction.

    Example:
        >>> check_tokens("tokens", [[3.0, 4.0]], directions=True).tolist()
        [[0.6, 0.8]]
    """
    x = np.array(check(where, X).numpy()[0], dtype=np.float64)
    if not directions:
        return x
    norms = np.linalg.norm(x, axis=1)
    if not norms.all():
        why = f"token {int(np.argmin(norms))} is zero and has no direction on the sphere"
        raise InputError(where, why, "drop it, or use kind='hardmax' or 'sinkhorn', which move in space")
    return x / norms[:, None]


def check_options(where: str, kind: Any, given: dict[str, Any], dimension: int) -> dict[str, Any]:
    """Return every option of a kind of attention, the given ones checked, the others as in OPTIONS.

    Raises:
        InputError: an unknown kind, an option that the kind does not have, or a value that cannot be.
    """
    options = dict(OPTIONS[check_kind(where, kind)])
    for name, value in given.items():
        if value is None:
            continue
        if name not in options:
            why = f"{name}={value!r} has no meaning for kind={kind!r}"
            raise InputError(where, why, f"leave it out: this kind has {', '.join(OPTIONS[kind])}")
        options[name] = value
    for name in ("beta", "step", "epsilon", "ties", "accuracy"):
        if name in options:
            options[name] = positive(where, name, options[name])
    for name in ("query_key", "value"):
        if name in options:
            options[name] = check_matrix(where, name, options[name], dimension)
    return options


def check_kind(where: str, kind: Any) -> str:
    """Return the kind if it is one of OPTIONS.

    Raises:
        InputError: it is not.
    """
    if not isinstance(kind, str):
        raise InputError(where, f"kind={kind!r} is not a name", f"give one of {', '.join(map(repr, OPTIONS))}")
    if kind not in OPTIONS:
        raise InputError(where, f"there is no kind {kind!r} of attention", nearest(kind, OPTIONS))
    return kind


def positive(where: str, name: str, value: Any, below: float = inf) -> float:
    """Return a positive finite number.

    Raises:
        InputError: it is none, or not below the bound.
    """
    good = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value) and 0 < float(value) < below
    if not good:
        bound = "" if below == inf else f" below {below:g}"
        raise InputError(where, f"{name}={value!r} is not a positive number{bound}", f"give e.g. {name}=0.5")
    return float(value)


def check_matrix(where: str, name: str, value: Any, dimension: int) -> Array | None:
    """Return a matrix of shape (d, d), or None for the identity; a number stands for that many times the identity.

    Raises:
        InputError: another shape, NaN or infinity.

    Example:
        >>> check_matrix("tokens", "value", 2, dimension=2).tolist()
        [[2.0, 0.0], [0.0, 2.0]]
    """
    if value is None:
        return None
    if is_tensor(value):
        value = value.detach().cpu().numpy()
    try:
        matrix = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"{name} is not a matrix of numbers ({error})", "give a (d, d) array") from None
    matrix = float(matrix) * np.eye(dimension) if matrix.ndim == 0 else matrix
    if matrix.shape != (dimension, dimension):
        why = f"{name} has shape {matrix.shape}, and the tokens have {dimension} coordinates"
        raise InputError(where, why, f"give {name} of shape ({dimension}, {dimension}), or leave it out: the identity")
    if not np.isfinite(matrix).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise InputError(
            where, f"{name} has {matrix[row, column]} at row {row}, column {column}", "give finite numbers"
        )
    return matrix


def check_times(where: str, time: Any, whole: bool) -> Array:
    """Return times to look at, shape (T,): those given, or evenly spread ones from 0 to the one given.

    Args:
        where: named in errors.
        time: a number, or numbers that rise.
        whole: whether times count steps; a number then gives every step up to it.

    Raises:
        InputError: times that are negative, go backwards, are not finite, or not whole where they count steps.

    Example:
        >>> check_times("tokens", 2, whole=True).tolist()
        [0.0, 1.0, 2.0]
    """
    fix = "give the last time, or times that rise from 0 on, e.g. (0, 1, 10)"
    try:
        times = np.atleast_1d(np.array(time, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(where, f"time={time!r} is not a number or a list of numbers", fix) from None
    if times.ndim != 1 or not times.size or isinstance(time, bool):
        raise InputError(where, f"time={time!r} is not a number or a list of numbers", fix)
    bad = ~np.isfinite(times) | (times < 0)
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(where, f"time {place} is {times[place]:g}, not a finite number >= 0", fix)
    back = np.diff(times) <= 0
    if back.any():
        place = int(np.argmax(back))
        says = "go backwards" if times[place + 1] < times[place] else "stand still"
        why = f"times {says}: {times[place + 1]:g} follows {times[place]:g} at place {place + 1}"
        raise InputError(where, why, fix)
    if whole and (times % 1 != 0).any():
        place = int(np.argmax(times % 1 != 0))
        raise InputError(where, f"time {place} is {times[place]:g}: hardmax attention counts steps", "give whole times")
    if np.ndim(time) == 0:
        return np.arange(times[0] + 1) if whole else np.linspace(0.0, times[0], POINTS if times[0] > 0 else 1)
    return times
