"""Kernels of controlled networks whose equation is linear, as for the identity: exact, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log

import numpy as np

from deeplimits.limits.controlled import lanes, series

ROUNDING, TINY = 1e-15, 1e-300
Paths = Sequence[np.ndarray]


def matrix(weight: float, dx: Paths, dy: Paths | None) -> np.ndarray:
    """Return u / weight of all pairs, (N, M), with u of `series` for z = weight <x', y'>; its limit for weight 0.

    Args:
        weight: variance of the weights.
        dx: steps of N paths, shape (n, d) each.
        dy: of M paths, or None for x against itself.
    """
    other = dx if dy is None else dy
    columns = lanes.groups(list(map(len, other)), series.LANES)
    rows = [lanes.pack([path * (weight or 1.0)] * series.LANES, series.LANES) for path in dx]
    packed = [lanes.pack([other[j] for j in group], series.LANES) for group in columns]
    first = _order(weight, dx, other)

    def run(i: int, group: int) -> np.ndarray:
        return _exact(rows[i], packed[group], weight, first)

    return lanes.matrix(len(dx), columns, dy is None, run)


def paired(weight: float, dx: Paths, dy: Paths) -> np.ndarray:
    """Return u / weight of each path in x with the one at its place in y, shape (N,)."""
    found, first = np.empty(len(dx)), _order(weight, dx, dy)
    for group in lanes.groups([max(len(a), len(b)) for a, b in zip(dx, dy, strict=True)], series.LANES):
        x, y = (lanes.pack([steps[i] for i in group], series.LANES) for steps in (dx, dy))
        found[group] = _exact(x * (weight or 1.0), y, weight, first)[: len(group)]
    return found


def _order(weight: float, dx: Paths, dy: Paths) -> int:
    """Return where in ORDERS to begin: the terms of an edge fall like S^n / n!^2, S the largest <x_t - x_0, dy>."""
    reach = max(_reach(dx) * _longest(dy), _reach(dy) * _longest(dx)) * weight
    size = log(max(reach, TINY))
    fits = [n for n, order in enumerate(series.ORDERS) if order * size <= log(ROUNDING) + 2 * lgamma(order + 1)]
    return fits[0] if fits else len(series.ORDERS) - 1


def _reach(steps: Paths) -> float:
    return max(float(np.sqrt((np.cumsum(path, axis=0) ** 2).sum(1)).max()) for path in steps)


def _longest(steps: Paths) -> float:
    return max(float(np.sqrt((path**2).sum(1)).max()) for path in steps)


def _exact(x: np.ndarray, y: np.ndarray, weight: float, first: int) -> np.ndarray:
    """Return u / weight of a vector of pairs: by more terms, then by smaller cells, until the rest is rounding."""
    if not weight:
        return (x.sum(0) * y.sum(0)).sum(0)
    place = first
    while True:
        u, error = series.solve(x, y, series.ORDERS[place])
        if not np.isfinite(u).all() or (error <= ROUNDING * np.maximum(1.0, np.abs(u))).all():
            return u / weight
        if place + 1 < len(series.ORDERS):
            place += 1
        else:
            x, y = np.repeat(x, 2, axis=0) / 2, np.repeat(y, 2, axis=0) / 2
