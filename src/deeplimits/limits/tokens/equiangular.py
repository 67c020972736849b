"""Tokens at equal angles, and two clusters that wait exponentially long: what is known without following all tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import cos, exp, inf, log, log1p, pi, sin
from typing import Any

import numpy as np
from scipy.integrate import quad, solve_ivp

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.limits.tokens.inputs import Array, check_times, positive
from deeplimits.limits.tokens.sphere import LARGEST

ACCURACY = 1e-12


def equiangular(
    count: int, beta: float, time: float | Sequence[float], start: float = 0.0, normalised: bool = True
) -> Array:
    """Return 1 - g of tokens whose cosines are all g, as attention with A = V = I moves them on the sphere.

    g' = 2 e^(beta g) (1 - g) ((m - 1) g + 1) / (e^beta + (m - 1) e^(beta g)) normalised (softmax), or
    g' = (2/m) e^(beta g) (1 - g) ((m - 1) g + 1); solved for log(1 - g), so that the end is right to 1e-11 of itself
    however small it is. Late, 1 - g falls like e^(-2t) for softmax.

    Args:
        count: number of tokens m.
        beta: inverse temperature.
        time: the last time, or rising times.
        start: g at time 0, above -1/(m - 1) and below 1.
        normalised: whether weights sum to 1.

    Raises:
        InputError: numbers or times that cannot be; one token, which has no angle.

    Source: geshkovski-2023-perspective.

    Example:
        >>> gap = equiangular(16, beta=1.5, time=(20.0, 21.0))
        >>> round(float(np.log(gap[0] / gap[1])), 6)
        2.0
    """
    where = "equiangular"
    count, beta = whole(where, "count", count, minimum=2), positive(where, "beta", beta, LARGEST)
    times = check_times(where, time, whole=False)
    lowest = -1 / (count - 1)
    if isinstance(start, bool) or not isinstance(start, float | int) or not lowest < start < 1:
        why = f"start={start!r} is not a cosine that {count} tokens can share and leave, in ({lowest:.3g}, 1)"
        raise InputError(where, why, "give e.g. start=0.0, orthogonal tokens")

    def rate(_: float, y: Array) -> Array:
        gap = np.exp(y)
        pull = (count - 1) * (1 - gap) + 1
        if normalised:
            return -2 * pull / (np.exp(beta * gap) + count - 1)
        return -2 / count * np.exp(beta * (1 - gap)) * pull

    if times[-1] == 0:
        return np.full(1, 1.0 - start)
    y = np.array([log1p(-start)])
    found = solve_ivp(rate, (0.0, times[-1]), y, method="LSODA", t_eval=times, rtol=ACCURACY, atol=ACCURACY)
    return np.exp(found.y[0])


def merge_time(beta: float, start: float, end: float = 0.1, normalised: bool = True) -> float:
    """Return how long two clusters of half the mass each take from one angle between them to a smaller one.

    T = integral from `end` to `start` of (1 + e^(beta (1 - cos th))) / (2 sin th) dth for softmax, of
    e^(-beta cos th) / sin th for unnormalised attention: the clusters wait about e^(beta (1 - cos start)) long.

    Args:
        beta: inverse temperature.
        start: angle in radians, below pi.
        end: angle in radians, below `start`.
        normalised: whether weights sum to 1.

    Returns:
        The time, good to 1e-10 of itself.

    Raises:
        InputError: angles or numbers that cannot be; a time beyond float64, with its logarithm.

    Source: derived.

    Example:
        >>> round(merge_time(10.0, start=1.5), 5)
        570.08969
    """
    where = "merge_time"
    beta, start = positive(where, "beta", beta), positive(where, "start", start, pi)
    end = positive(where, "end", end, start)
    top = beta * (1 - cos(start)) if normalised else -beta * cos(start)

    def slowness(angle: float) -> float:
        """Return 1/speed at an angle, as a multiple of e^top."""
        if normalised:
            return (exp(-top) + exp(beta * (1 - cos(angle)) - top)) / (2 * sin(angle))
        return exp(-beta * cos(angle) - top) / sin(angle)

    width = max(start - 40 / (beta * sin(start)), end) if start <= pi / 2 else end
    total = sum(quad(slowness, *ends, epsabs=0.0, epsrel=1e-11, limit=500)[0] for ends in _pieces(end, width, start))
    size = top + log(total) if total > 0 else -inf
    if size > LARGEST:
        raise InputError(where, f"the time is e^{size:.1f}, beyond float64", "ask for a smaller beta or start")
    return total * exp(top)


def _pieces(*ends: float) -> Any:
    return [(low, high) for low, high in pairwise(ends) if high > low]
