"""Paths in: lists of arrays or one array, of equal or unequal length, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deeplimits.errors import InputError
from deeplimits.numerics.arrays import is_tensor

FIX = "give an array of shape (N, points, d), or a list of arrays of shape (points, d) each"


def check_paths(where: str, name: str, paths: Any, clock: int | None = None) -> list[np.ndarray]:
    """Return paths as float64 arrays of shape (points, d) each.

    Args:
        where: named in errors.
        name: of the argument.
        paths: shape (N, points, d), or N arrays of shape (points, d); numpy or torch.
        clock: the channel that holds times, or None.

    Raises:
        InputError: no paths, a single point, different dimensions, NaN or infinity, times that do not rise; says which
            path and point.

    Example:
        >>> [path.shape for path in check_paths("kernel", "X1", [np.zeros((3, 2)), np.ones((5, 2))])]
        [(3, 2), (5, 2)]
    """
    if isinstance(paths, str) or not (is_tensor(paths) or isinstance(paths, Sequence | np.ndarray)):
        raise InputError(where, f"{name} is a {type(paths).__name__}, not paths", FIX)
    if len(paths) == 0:
        raise InputError(where, f"{name} holds no paths", FIX)
    found = [_one(where, f"{name}[{index}]", path) for index, path in enumerate(paths)]
    for index, path in enumerate(found):
        if path.shape[1] != found[0].shape[1]:
            why = f"{name}[{index}] has {path.shape[1]} channels and {name}[0] has {found[0].shape[1]}"
            raise InputError(where, why, "give every path the same channels")
    if clock is not None:
        for index, path in enumerate(found):
            _rising(where, f"{name}[{index}]", path, clock)
    return found


def _rising(where: str, name: str, path: np.ndarray, clock: int) -> None:
    if not -path.shape[1] <= clock < path.shape[1]:
        why = f"{name} has {path.shape[1]} channels, none of them channel {clock}, which should hold the times"
        raise InputError(where, why, "set clock to the index of that channel")
    times = path[:, clock]
    late = np.flatnonzero(np.diff(times) <= 0)
    if len(late):
        point = int(late[0]) + 1
        how = "go backwards" if times[point] < times[point - 1] else "stand still"
        why = f"the times of {name}, channel {clock}, {how}: {times[point]:g} at point {point}"
        raise InputError(where, f"{why} after {times[point - 1]:g}", "sort the points by time, and merge those of one")


def _one(where: str, name: str, value: Any) -> np.ndarray:
    plain = value.detach().cpu().numpy() if is_tensor(value) else value
    try:
        path = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"{name} is not an array of numbers ({error})", FIX) from None
    if path.ndim != 2 or path.shape[1] == 0:
        raise InputError(where, f"{name} has shape {path.shape}, not (points, d)", FIX)
    if len(path) < 2:
        raise InputError(where, f"{name} has {len(path)} point", "give two or more points: a path is its steps")
    finite = np.isfinite(path)
    if not finite.all():
        point, channel = (int(n) for n in np.argwhere(~finite)[0])
        why = f"{name} has {path[point, channel]} at point {point}, channel {channel}"
        raise InputError(where, why, "drop or interpolate that point")
    return path


def with_time(path: np.ndarray) -> np.ndarray:
    """Return a path with the time as a last channel, from 0 to 1 evenly over the points.

    Example:
        >>> with_time(np.zeros((3, 1)))[:, 1].tolist()
        [0.0, 0.5, 1.0]
    """
    return np.column_stack([path, np.linspace(0.0, 1.0, len(path))])


def length(path: np.ndarray) -> float:
    """Return the length of a path, whatever its size.

    Example:
        >>> round(length(np.array([[0.0, 0.0], [3e200, 4e200]])) / 1e200, 12)
        5.0
    """
    steps = np.diff(path, axis=0)
    largest = float(np.abs(steps).max())
    return largest * float(np.sqrt(((steps / (largest or 1.0)) ** 2).sum(1)).sum())


def moments(path: np.ndarray, clock: int | None = None) -> np.ndarray:
    """Return when a path is at its points, from 0 to 1: evenly, or as channel `clock` says.

    Example:
        >>> moments(np.array([[5.0], [6.0], [9.0]]), 0).tolist()
        [0.0, 0.25, 1.0]
    """
    if clock is None:
        return np.linspace(0.0, 1.0, len(path))
    return (path[:, clock] - path[0, clock]) / (path[-1, clock] - path[0, clock])


def at(path: np.ndarray, times: np.ndarray, clock: int | None = None) -> np.ndarray:
    """Return a path at times in [0, 1], straight between its points.

    Example:
        >>> at(np.array([[0.0], [2.0], [3.0]]), np.array([0.25, 1.0])).tolist()
        [[1.0], [3.0]]
    """
    own = moments(path, clock)
    return np.column_stack([np.interp(times, own, channel) for channel in path.T])
