"""ReLU states of width 2 at infinite depth: the angle of the state is a diffusion of its own, solved as a PDE."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from deeplimits.architecture.layer import number
from deeplimits.errors import InputError

Array = NDArray[np.float64]
CELLS = 24
FAR = 40.0
BEND = 0.5


@dataclass(frozen=True, eq=False)
class WidthTwo:
    """What a ReLU residual network of width 2 does over layer time, given that it is not dead at the start.

    Attributes:
        times: layer times, shape (T,).
        positive: E N_t, the mean number of positive coordinates, (T,).
        log_norm: E log(R_t/R_0), R = |relu(X)|, (T,).
        error: estimated error of the finer grid, a third of the change from the coarser; the extrapolated numbers
            given here are more accurate.
    """

    times: Array
    positive: Array
    log_norm: Array
    error: float


def width_two(times: Any, weight_std: float = 1.0) -> WidthTwo:
    """Return E N_t and E log(R_t/R_0) of ResNet("relu") at width 2 and infinite depth, X_0 ~ N(0, I), R_0 > 0.

    The angle of X moves without drift, d theta = g(theta)/sqrt(2) d beta: g = 1 where both coordinates are positive,
    |cos theta| or |sin theta| where one is, 0 where none is. v(theta, t) = P(both positive at t) solves
    v_t = g^2/4 v'', E N_t = 1 + the mean of v over the start, and d E log R / dt = (E N_t/2 - 1)/2. Finite volumes in
    y, dy = d theta/g, where the absorbing edge lies at infinity; in time the tridiagonal matrix is diagonalised, so
    that only the grid is approximate. Two grids are extrapolated (order 2).

    Args:
        times: layer times >= 0.
        weight_std: of the branch; time runs weight_std^2 times as fast.

    Raises:
        InputError: times that are negative or not finite.

    Source: hayou-2022-infinite-depth (the process); derived (its angle).

    Example:
        >>> found = width_two([1.0])
        >>> found.positive.round(4).tolist(), found.log_norm.round(4).tolist()
        ([1.3063], [-0.1696])
    """
    given = np.asarray(times, dtype=np.float64).reshape(-1)
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(bad):
        raise InputError("width_two", f"times[{bad[0]}] is {given[bad[0]]}", "give layer times >= 0")
    number("width_two", "weight_std", weight_std)
    own = weight_std**2 * given
    coarse, fine = _solve(own, CELLS), _solve(own, 2 * CELLS)
    error = float(np.abs(fine - coarse).max(initial=0.0)) / 3
    both, area = fine + (fine - coarse) / 3
    return WidthTwo(given, 1 + both, (area - own) / 4, error)


def _solve(times: Array, cells: int) -> Array:
    """Return P(both positive) and its integral over time, (2, T), with `cells` cells on half the quadrant of both.

    In s, y = s below 0 (both positive, reflected at -pi/4) and sinh(BEND s)/BEND above:
    v_t = (1/4) (1/w) d/ds (f dv/ds), w = m y', f = m/y', m = cosh y above 0, else 1.
    """
    step = pi / 4 / cells
    count = cells + int(np.ceil(np.arcsinh(BEND * FAR) / BEND / step))
    faces = step * (np.arange(count + 1) - cells)
    middles = (faces[1:] + faces[:-1]) / 2
    (y, bent, m), (_, bend, n) = _stretched(middles), _stretched(faces[1:-1])
    flow, weight = n / bend / step**2 / 4, m * bent
    inner = -(np.append(flow, 0) + np.insert(flow, 0, 0)) / weight
    values, vectors = eigh_tridiagonal(inner, flow / np.sqrt(weight[1:] * weight[:-1]))
    share = bent / np.cosh(np.maximum(y, 0)) * step / (3 * pi / 4)  # of the start, uniform in the angle
    rates = np.minimum(values, 0)[:, None] * times
    parts = (vectors.T @ (share / np.sqrt(weight))) * (vectors.T @ (np.sqrt(weight) * (y < 0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        area = np.where(rates < 0, np.expm1(rates) / rates, 1.0) * times
    return np.stack([parts @ np.exp(rates), parts @ area])


def _stretched(s: Any) -> tuple[Array, Array, Array]:
    """Return y, y' and m at s."""
    above = np.maximum(s, 0)
    y = np.where(s > 0, np.sinh(BEND * above) / BEND, s)
    return y, np.cosh(BEND * above), np.cosh(np.maximum(y, 0))
