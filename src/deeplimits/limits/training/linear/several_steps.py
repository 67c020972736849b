"""The loss of linear networks after several steps, at many learning rates at once, and where it is lowest."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WINDOW, SPACING = 8.0, 0.5  # octaves of a search, and between its rates
RATES = int(WINDOW / SPACING) + 1
FINER = (4.0, 16.0)  # finenesses of the searches around its minimum, over that of the first
REACH = 40  # half windows that a search may move before it gives up


def losses(x: Array, y: Array, weights: tuple[Array, list[Array], Array], rates: Array, steps: int) -> Array:
    """Return the loss sum (f - y)^2 / 2P after gradient descent at every rate, shape (R,); infinite where it diverges.

    The change of W_l stays a sum of outer products, one a step, rate and output: A_l B_l', both (R, n, steps C).

    Args:
        x: inputs over sqrt(d), (P, d).
        y: targets, (P, C).
        weights: W_0 (n, d) of standard normals, W_1, ..., W_L (n, n) and V (C, n).
        rates: shape (R,).
        steps: of gradient descent on W_1, ..., W_L.
    """
    first, hidden, readout = weights
    many, (rows, outputs), size = len(rates), y.shape, len(first)
    _, length, right = np.linalg.svd(x, full_matrices=False)
    right = right[length > 1e-12 * length[0]].T
    # states of all rows are those of as many directions as the rank of x, times T
    bottom, T, top = first @ right, (x @ right).T, np.broadcast_to(readout.T, (many, size, outputs))
    changes = [(np.zeros((many, size, 0)), np.zeros((many, size, 0))) for _ in hidden]
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(steps + 1):
            states = [np.broadcast_to(bottom, (many, *bottom.shape))]
            for W, (a, b) in zip(hidden, changes, strict=True):
                states.append(_times(W, states[-1]) + a @ (b.mT @ states[-1]))
            wrong = T.T @ (states[-1].mT @ top) - y
            if step == steps:
                break
            back = [top]
            for W, (a, b) in zip(hidden[:0:-1], changes[:0:-1], strict=True):
                back.append(_times(W.T, back[-1]) + b @ (a.mT @ back[-1]))
            changes = [
                (
                    np.concatenate([a, -rates[:, None, None] * move], -1),
                    np.concatenate([b, state @ (T @ wrong / rows)], -1),
                )
                for (a, b), move, state in zip(changes, reversed(back), states[:-1], strict=True)
            ]
        found = np.square(wrong).sum((1, 2)) / (2 * rows)
    return np.where(np.isfinite(found), found, np.inf)


def _times(matrix: Array, columns: Array) -> Array:
    """Return matrix @ columns for (R, n, k) columns, as one product."""
    many, n, k = columns.shape
    return (matrix @ columns.transpose(1, 0, 2).reshape(n, many * k)).reshape(n, many, k).transpose(1, 0, 2)


def drawn(
    width: int, features: int, hidden: int, outputs: int, readout_std: float, random: np.random.Generator
) -> tuple[Array, list[Array], Array]:
    """Return weights of one network: W_0 of standard normals, W_l of N(0, 1/n), V of the standard deviation given."""
    first = random.standard_normal((width, features))
    matrices = [random.standard_normal((width, width)) / sqrt(width) for _ in range(hidden)]
    return first, matrices, readout_std * random.standard_normal((outputs, width))


def search(loss: Callable[[Array], Array], unit: float) -> float:
    """Return the rate of the lowest loss near `unit`: a window of octaves, shifted until it holds a minimum, refined.

    Args:
        loss: (R,) rates to (R,) losses.
        unit: a rate of the size that is looked for.

    Returns:
        A rate within 1e-3 of itself of the minimum, from a parabola through three losses 1/32 of an octave apart; NaN
        if the loss has no minimum within 2^(+-100) of the unit.

    Example:
        >>> round(search(lambda rates: (rates - 3.0) ** 2, 0.1), 2)
        3.0
    """
    middle = 0.0
    for _ in range(REACH):
        grid = middle + np.arange(-WINDOW / 2, WINDOW / 2 + SPACING / 2, SPACING)
        place = int(np.argmin(loss(unit * 2.0**grid)))
        if 0 < place < len(grid) - 1:
            break
        middle += WINDOW / 2 * (1 if place else -1)
    else:
        return np.nan
    middle, low, lowest, high = grid[place], np.nan, np.nan, np.nan
    for finer in FINER:
        grid = middle + SPACING / finer * np.arange(-4, 5)
        found = loss(unit * 2.0**grid)
        place = min(max(int(np.argmin(found)), 1), len(grid) - 2)
        middle, (low, lowest, high) = grid[place], found[place - 1 : place + 2]
    bend = low - 2 * lowest + high
    shift = SPACING / FINER[-1] * (low - high) / (2 * bend) if 0 < bend < np.inf else 0.0
    return float(unit * 2.0 ** (middle + shift))
