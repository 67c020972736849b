"""The lowest point of a learning-rate curve: where it lies, and how far from there it may lie."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np


def minimum(log2_lrs: np.ndarray, losses: np.ndarray) -> tuple[float, float, bool]:
    """Return (best log2 learning rate, loss there, whether it lies at an end of the grid); NaN where none trains.

    Args:
        log2_lrs: shape (R,), rising.
        losses: shape (R, S); diverged runs are infinite. Averaged in logarithms where all are positive.

    Example:
        >>> x = np.arange(-4.0, 1.0)
        >>> best, loss, edge = minimum(x, np.exp((x - (-1.7)) ** 2)[:, None])
        >>> round(best, 6), round(loss, 6), edge
        (-1.7, 1.0, False)
    """
    level, back = _level(losses)
    place = int(np.argmin(level))
    if not np.isfinite(level[place]):
        return nan, inf, False
    if place in (0, len(level) - 1) or not np.isfinite(level[place - 1 : place + 2]).all():
        return float(log2_lrs[place]), float(back(level[place])), place in (0, len(level) - 1)
    c, b, a = np.polynomial.polynomial.polyfit(
        log2_lrs[place - 1 : place + 2] - log2_lrs[place], level[place - 1 : place + 2], 2
    )
    offset = -b / (2 * a) if a > 0 else 0.0
    return float(log2_lrs[place] + offset), float(back(c + b * offset + a * offset**2)), False


def _level(losses: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return the mean over seeds at each learning rate, of logarithms where all are positive, and the way back."""
    positive = bool((losses > 0).all())
    return (np.log(losses).mean(1), np.exp) if positive else (losses.mean(1), float)


def room(log2_lrs: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """Return how far (below, above) the best learning rate tried the optimum may lie, beyond what the seeds tell.

    Nothing between two learning rates that train, where the parabola tells; a spacing of the grid to both sides where
    one of the two diverges; infinite beyond an end of the grid.

    Args:
        log2_lrs: shape (R,), rising.
        losses: shape (R, S); diverged runs are infinite.

    Example:
        >>> x = np.arange(-4.0, 1.0)
        >>> room(x, np.array([[3.0], [2], [1], [2], [3]])), room(x, np.array([[3.0], [2], [1], [inf], [inf]]))
        ((0.0, 0.0), (1.0, 1.0))
        >>> room(x, np.array([[5.0], [4], [3], [2], [1]]))
        (1.0, inf)
    """
    level, _ = _level(losses)
    place = int(np.argmin(level))
    around = np.isfinite(level[max(place - 1, 0) : place + 2])
    if not np.isfinite(level[place]) or (0 < place < len(level) - 1 and around.all()):
        return 0.0, 0.0
    padded = np.concatenate([[-inf], log2_lrs, [inf]])
    below, above = np.diff(padded[place : place + 3])
    return float(below), float(above)
