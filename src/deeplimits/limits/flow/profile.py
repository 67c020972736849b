"""What a sequence of branch scales does at infinite depth: a flow, a discrete product, nothing, or an explosion."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import zeta

from deeplimits.architecture.layer import Power, as_float
from deeplimits.architecture.scale import Decreasing, alpha, is_sequence
from deeplimits.errors import DescriptionError
from deeplimits.numerics.accelerate import accelerate

DISCRETE_LAYERS = 256
ROUNDING = 1e-6  # sequences may be computed in float32
_DEPTHS = tuple(2**power for power in range(5, 14))


@dataclass(frozen=True)
class Profile:
    """The limit of the squared branch scales.

    Attributes:
        kind: "flow", "discrete", "trivial" or "explodes".
        time: limit of sum alpha^2 (infinite where it explodes).
        why: the reason, in words.
        first: squared scales of the first layers (discrete only).
        tail: sum of alpha^2 beyond them (discrete only).
        tail_squares: sum of alpha^4 beyond them (discrete only).
        growth: exponent p of sum alpha^2 ~ L^p (explodes only).
    """

    kind: str
    time: Any
    why: str
    first: tuple[Any, ...] = ()
    tail: Any = 0.0
    tail_squares: Any = 0.0
    growth: float = 0.0


def profile(scale: Any) -> Profile:
    """Return what a branch scale does as depth goes to infinity.

    Source: hayou-2023-commute-ii: the covariance converges iff sum alpha^2 stays bounded; to a flow at time
        lim sum alpha^2 if max alpha -> 0, to the infinite discrete recursion if alpha_l does not depend on L.

    Example:
        >>> profile(Power(-0.5)).kind, profile(1.0).kind, round(profile(Decreasing()).time, 6)
        ('flow', 'explodes', 1.644934)
    """
    if isinstance(scale, Power):
        return _power(scale)
    if isinstance(scale, Decreasing):
        return _decreasing(scale)
    if is_sequence(scale):
        return _sequence(scale)
    value = as_float(scale)
    if value == 0:
        return Profile("trivial", 0.0, "the branches are scaled by 0")
    why = f"every branch is scaled by {value:g}, so sum alpha^2 = {value**2:g} L diverges"
    return Profile("explodes", float("inf"), why, growth=1.0)


def _power(scale: Power) -> Profile:
    exponent, factor = scale.exponent, scale.factor
    if as_float(factor) == 0 or exponent < -0.5:
        why = f"sum alpha^2 = {as_float(factor) ** 2:g} L^{2 * exponent + 1:g} tends to 0: the blocks vanish"
        return Profile("trivial", 0.0, why)
    if exponent == -0.5:
        why = f"sum alpha^2 = {as_float(factor) ** 2:g} and max alpha -> 0: the kernel follows an ODE in layer time"
        return Profile("flow", factor**2, why)
    growth = 2 * exponent + 1
    why = f"sum alpha^2 = {as_float(factor) ** 2:g} L^{growth:g} diverges"
    return Profile("explodes", float("inf"), why, growth=growth)


def _decreasing(scale: Decreasing) -> Profile:
    exponent, factor = scale.exponent, scale.factor
    if exponent <= 0.5:
        why = f"sum alpha_l^2 with alpha_l = {as_float(factor):g} l^-{exponent:g} diverges"
        return Profile("explodes", float("inf"), why, growth=1 - 2 * exponent)
    first = tuple(factor**2 * float(place) ** (-2 * exponent) for place in range(1, DISCRETE_LAYERS + 1))
    time = factor**2 * float(zeta(2 * exponent))
    tail = factor**2 * float(zeta(2 * exponent, DISCRETE_LAYERS + 1))
    squares = factor**4 * float(zeta(4 * exponent, DISCRETE_LAYERS + 1))
    why = (
        f"alpha_l does not depend on the depth and sum alpha_l^2 = {as_float(time):.6g}: an infinite discrete recursion"
    )
    return Profile("discrete", time, why, first, tail, squares)


def _squares(scale: Any, depth: int) -> np.ndarray:
    return np.array([as_float(alpha(scale, place, depth, depth)) ** 2 for place in range(1, depth + 1)])


def _sequence(scale: Any) -> Profile:
    rows = {depth: _squares(scale, depth) for depth in _DEPTHS}
    sums = np.array([rows[depth].sum() for depth in _DEPTHS])
    peaks = np.array([rows[depth].max() for depth in _DEPTHS])
    name = getattr(scale, "__name__", repr(scale))
    longest, shortest = _DEPTHS[-1], _DEPTHS[0]
    fixed = all(np.array_equal(rows[d], rows[longest][:d]) for d in _DEPTHS)
    growth = log(max(sums[-1], 1e-300) / max(sums[-3], 1e-300)) / log(_DEPTHS[-1] / _DEPTHS[-3])
    increments = np.diff(sums)
    falls = abs(increments[-1]) < 0.8 * abs(increments[-2])
    if fixed and increments[-3] > 0:  # sum alpha^2 - S(L) ~ L^-p, with 2^-p the ratio of its increments
        before, now = increments[-2:] / increments[-3:-1]
        falls = falls or (now < 0.97 and abs(now - before) < 0.01) or (now < 0.999 and abs(now - before) < 2e-4)
    settles = falls or abs(increments[-1]) <= ROUNDING * sums[-1]
    if sums[-1] == 0 or growth < -0.25:
        return Profile("trivial", 0.0, f"sum alpha^2 of {name} tends to 0: the blocks vanish")
    if not settles:
        why = f"sum alpha^2 of {name} is {sums[-2]:.4g} at L={_DEPTHS[-2]}, {sums[-1]:.4g} at L={longest}: not settled"
        logarithmic = abs(increments[-1] / increments[-2] - 1) < 0.02
        return Profile("explodes", float("inf"), why, growth=0.0 if logarithmic else growth)
    if fixed:
        return _fixed_sequence(name, rows[longest], sums)
    if peaks[-1] < 0.25 * peaks[0] or _logarithmic(1 / peaks):
        time = accelerate(sums) if falls else float(sums[-1])
        why = f"sum alpha^2 of {name} tends to {time:.6g} and max alpha -> 0: the kernel follows an ODE in layer time"
        return Profile("flow", time, why)
    why = (
        f"sum alpha^2 of {name} converges, but max alpha is still {sqrt(peaks[-1]):.3g} while alpha(l, L) depends on L "
        f"(checked at L={shortest}..{longest})"
    )
    raise DescriptionError("kernel(depth=inf)", why, "ask at a finite depth, or use a sequence with max alpha -> 0")


def _logarithmic(values: np.ndarray) -> bool:
    """Say whether values taken at L = 2^k grow like log L: by the same amount each time L doubles."""
    steps = np.diff(values)[-3:]
    return bool(steps.min() > 0 and np.ptp(steps) < 0.01 * steps.max())


def _fixed_sequence(name: str, squares: np.ndarray, sums: np.ndarray) -> Profile:
    time = accelerate(sums)
    fourth = np.array([(squares[:depth] ** 2).sum() for depth in _DEPTHS])
    tail = max(time - squares[:DISCRETE_LAYERS].sum(), 0.0)
    rest = max(accelerate(fourth) - (squares[:DISCRETE_LAYERS] ** 2).sum(), 0.0)
    why = (
        f"alpha_l = {name} does not depend on the depth and sum alpha_l^2 = {time:.6g}: an infinite discrete recursion"
    )
    return Profile("discrete", time, why, tuple(squares[:DISCRETE_LAYERS].tolist()), tail, min(rest, tail**2))
