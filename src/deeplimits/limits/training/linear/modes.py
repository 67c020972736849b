"""Strength of one mode of a deep linear network over time: u' = N c u^(2 - 2/N) (s - u).

In the coordinate x = log(u / |s - u|) the equation reads dx/dt = k s^p (u/s)^(p - 1), with p = 2 - 2/N and k = N c. It
has closed forms at N = 1, 2 and, below the target, at infinity; time is an integral over x at every N.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, wrightomega

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.limits.training.linear.inputs import check_not_negative, check_share

Array = NDArray[np.float64]

STILL = 40.0  # from here on u is the target up to rounding, and dx/dt constant
NEWTON = 8
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def mode_strength(time: ArrayLike, target: ArrayLike, initial: ArrayLike, layers: float, speed: ArrayLike = 1.0) -> Any:
    """Return the strength u of modes of a product W_N ... W_1 at every time of gradient flow.

    du/dt = N c u^(2 - 2/N) (s - u). Matrices are aligned and balanced: each carries u^(1/N). At N = 2
    u = s e^q / (e^q - 1 + s/u(0)), q = 2 c s t.

    Args:
        time: rate times steps of gradient descent, any shape; for infinitely many matrices N times that.
        target: s >= 0, where the mode ends, a number or shape (m,).
        initial: u(0) >= 0, likewise.
        layers: N >= 1 weight matrices, one more than the hidden layers; may be infinite.
        speed: c > 0, likewise, the eigenvalue of X'X that the mode sees for the loss sum (f - y)^2 / 2.

    Returns:
        Strengths, the shape of `time` followed by that of the modes, as they are at times that are off by rounding:
        in closed form at N = 1, 2 and, below the target, infinity, else from the integral of `mode_time`, inverted.

    Valid when: the products are aligned with the data and balanced, and inputs are white as seen by each mode. A mode
    that starts at 0 stays there, unless N = 1.

    Raises:
        InputError: numbers that are negative, NaN or infinite, or no whole number of layers.

    Source: saxe-2013-deep-linear; arora-2018-implicit-acceleration (any N).

    Example:
        >>> mode_strength([0.0, 1.0, 2.0], target=1.0, initial=0.1, layers=2).round(4)
        array([0.1   , 0.4509, 0.8585])
    """
    where = "mode_strength"
    layers = whole(where, "layers", layers, infinite=True)
    times = check_not_negative(where, "time", time)
    given = [("target", target), ("initial", initial), ("speed", speed)]
    modes = _together(where, *(check_not_negative(where, name, value) for name, value in given))
    s, start, c = (np.atleast_1d(mode).ravel() for mode in modes)
    if times.ndim and not times.size:
        raise InputError(where, "time is empty", "give at least one")
    found = strengths(times.ravel(), s, start, layers, c)
    return found.reshape(times.shape + modes[0].shape)[()]


def mode_time(strength: ArrayLike, target: ArrayLike, initial: ArrayLike, layers: float, speed: ArrayLike = 1.0) -> Any:
    """Return the time at which modes reach a strength; infinity if they never do.

    At N = 2 t = log(u (s - u(0)) / (u(0) (s - u))) / 2cs; else t = integral of (u/s)^(2/N - 1) dx / (N c s^(2 - 2/N))
    over x = log(u / |s - u|), by Gauss and Legendre's rule to rounding. Arguments broadcast.

    Args:
        strength: u >= 0 to reach.
        target: s, as `mode_strength` takes it.
        initial: u(0), likewise.
        layers: N, likewise, and with it the unit of time.
        speed: c, likewise.

    Raises:
        InputError: numbers that are negative, NaN or infinite, or no whole number of layers.

    Source: saxe-2013-deep-linear; derived (the integral).

    Example:
        >>> float(mode_time(0.95, target=1.0, initial=0.1, layers=2).round(3))
        2.571
        >>> float(mode_time(1.0, target=1.0, initial=0.1, layers=2))
        inf
    """
    where = "mode_time"
    layers = whole(where, "layers", layers, infinite=True)
    given = [("strength", strength), ("target", target), ("initial", initial), ("speed", speed)]
    arrays = _together(where, *(check_not_negative(where, name, value) for name, value in given))
    rows = np.stack([array.ravel() for array in arrays], axis=1).tolist()
    times = [_reach(u, s, start, c, layers) for u, s, start, c in rows]
    return np.array(times).reshape(arrays[0].shape)[()]


def mode_delay(layers: float | Sequence[float], target: float = 1.0, initial: float = 0.1, share: float = 0.95) -> Any:
    """Return N times the time to learn a share of a mode: what training takes when the rate falls as 1/N.

    As N grows it tends to (1/s) [1/u(0) - 1/u + (1/s) log(u (s - u(0)) / (u(0) (s - u)))], u = share s, which is
    finite but grows as 1/u(0): depth costs nothing only if the product starts near the size of the target.

    Args:
        layers: N, one or several; may be infinite.
        target: s of the product.
        initial: u(0) of the product, below s.
        share: of the target, in (0, 1).

    Raises:
        InputError: numbers that are negative, NaN or infinite, a share outside (0, 1), a start beyond it, no whole
            number of layers.

    Source: saxe-2013-deep-linear.

    Example:
        >>> from math import inf
        >>> mode_delay([2, 32, inf]).round(2)
        array([ 5.14, 13.03, 14.09])
    """
    where = "mode_delay"
    wanted = check_share(where, share) * check_not_negative(where, "target", target)
    if np.any(check_not_negative(where, "initial", initial) >= wanted):
        why = f"initial={initial!r} is not below share={share:g} of target={target!r}"
        raise InputError(where, why, "give a smaller initial strength, or a larger share")
    if np.size(layers) == 0:
        raise InputError(where, "layers is empty", "give at least one number of matrices")
    found = []
    for number in np.atleast_1d(np.asarray(layers, dtype=object)):
        count = whole(where, "layers", number, infinite=True)
        found.append(mode_time(wanted, target, initial, count) * (1 if count == inf else count))
    return found[0] if np.ndim(layers) == 0 else np.array(found)


def strengths(times: Array, target: Array, initial: Array, layers: float, speed: Array) -> Array:
    """Return strengths of m modes at T times, shape (T, m); see `mode_strength`. Nothing is checked."""
    found = np.tile(initial, (len(times), 1))
    scale = speed if layers == inf else layers * speed
    power = _power(layers)
    aside = target == 0
    found[:, aside] = _decay(times[:, None], initial[aside], power, scale[aside])
    if layers == 1:
        passed = times[:, None] * speed
        return np.where(aside, found, initial * np.exp(-passed) - target * np.expm1(-passed))
    moves = ~aside & (initial > 0) & (initial != target)
    if moves.any():
        s, start = target[moves], initial[moves]
        elapsed = times[:, None] * scale[moves] * s**power
        moved = s * _share(_moved(_place(start, s), elapsed, start > s, layers), start > s)
        found[:, moves] = np.where(times[:, None] == 0, start, moved)
    return found


def _together(where: str, *arrays: Array) -> tuple[Array, ...]:
    try:
        return tuple(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(where, f"shapes {shapes} do not fit", "give numbers, or one a mode") from None


def _power(layers: float) -> float:
    return 2.0 if layers == inf else 2 - 2 / layers


def _decay(times: Array, initial: Array, power: float, scale: Array) -> Array:
    """Return strengths of modes that the data do not hold, s = 0."""
    if power == 0:
        return initial * np.exp(-times * scale)
    # u (1 + p k t u^p)^(-1/p) also holds at u = 0
    return initial * (1 + power * scale * times * initial**power) ** (-1 / power)


def _place(strength: Any, target: Any) -> Any:
    """Return x = log(u / |s - u|)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of the branch not taken
        above = np.log1p(target / (strength - target))
        return np.where(strength > target, above, np.log(strength) - np.log(target - strength))


def _share(x: Array, above: NDArray[np.bool_]) -> Array:
    """Return u/s at x, below the target or above it."""
    with np.errstate(over="ignore", divide="ignore"):  # of the branch not taken
        return np.where(above, -1 / np.expm1(-x), expit(x))


def _moved(start: Array, elapsed: Array, above: NDArray[np.bool_], layers: float) -> Array:
    """Return x after a time in units of 1/(k s^p), shape (T, m), from x = start, shape (m,)."""
    if layers == 2:
        return start + elapsed
    found = np.empty_like(elapsed)
    for mode, (x, over) in enumerate(zip(start, above, strict=True)):
        if layers == inf and not over:
            # e^-x - x = z is given: e^-x is Wright's omega of z
            z = np.exp(-x) - x - elapsed[:, mode]
            omega = np.real(wrightomega(z))
            found[:, mode] = np.where(z > 1, -np.log(np.maximum(omega, 1.0)), omega - z)
        else:
            found[:, mode] = _inverted(float(x), elapsed[:, mode], bool(over), layers)
    return found


def _inverted(start: float, elapsed: Array, above: bool, layers: float) -> Array:
    """Return x at which the integral from the start has the values `elapsed`."""
    edges = _edges(start, max(start, STILL), above)
    reached = np.concatenate([[0.0], np.cumsum(_pieces(edges[:-1], edges[1:], above, layers))])
    panel = np.minimum(np.searchsorted(reached, elapsed, side="right") - 1, len(edges) - 1)
    late = panel == len(edges) - 1
    panel = np.where(late, max(len(edges) - 2, 0), panel)
    left, right = edges[panel], edges[np.minimum(panel + 1, len(edges) - 1)]
    wanted, x = elapsed - reached[panel], left
    # within a panel the integrand changes by less than a factor e: steps soon converge
    for _ in range(NEWTON):
        slope = _share(x, np.array(above)) ** (2 / layers - 1)
        x = np.clip(x + (wanted - _pieces(left, x, above, layers)) / slope, left, right)
    return np.where(late, edges[-1] + elapsed - reached[-1], x)


def _reach(strength: float, target: float, initial: float, speed: float, layers: float) -> float:
    """Return the time to a strength."""
    scale, power = speed if layers == inf else layers * speed, _power(layers)
    if strength == initial:
        return 0.0
    between = min(initial, target) < strength < max(initial, target)
    if not between or scale == 0 or (initial == 0 and layers > 1):
        return inf
    if layers == 1:
        return float(np.log1p((initial - strength) / (strength - target))) / scale
    if target == 0:
        return (strength**-power - initial**-power) / (power * scale)
    ends = float(_place(initial, target)), float(_place(strength, target))
    return _integral(*ends, initial > target, layers) / (scale * target**power)


def _integral(start: float, end: float, above: bool, layers: float) -> float:
    """Return the integral of (u/s)^(2/N - 1) over x."""
    if layers == 2:
        return end - start
    if layers == inf and not above:
        return end - start + float(np.exp(-start) - np.exp(-end))
    edges = _edges(start, max(start, min(end, STILL)), above)
    return float(np.sum(_pieces(edges[:-1], edges[1:], above, layers))) + end - float(edges[-1])


def _edges(start: float, end: float, above: bool) -> Array:
    """Return panels of length one at most; near x = 0 above the target, where (u/s)^-1 behaves as x, they double."""
    middle = min(end, 1.0) if above and start < 1 else start
    graded = np.geomspace(start, middle, int(np.ceil(np.log2(middle / start))) + 1) if middle > start else [start]
    return np.concatenate([graded, np.linspace(middle, end, int(np.ceil(end - middle)) + 1)[1:]])


def _pieces(left: Array, right: Array, above: bool, layers: float) -> Array:
    """Return the integral of (u/s)^(2/N - 1) over every panel."""
    half = (right - left) / 2
    x = (left + half)[:, None] + half[:, None] * NODES
    return half * (_share(x, np.array(above)) ** (2 / layers - 1) @ WEIGHTS)
