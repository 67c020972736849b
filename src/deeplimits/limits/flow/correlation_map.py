"""The map of correlations that one layer makes at a fixed point of the variance, and its own fixed points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from scipy.optimize import root_scalar

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.rectified import RectifiedPower

_CLOSEST, _SETTLED = 1e-18, 1e-9


@dataclass(frozen=True)
class CorrelationMap:
    """f(c) = (weight K(c q; q, q) + bias) / q, with f(1) = 1 and f'(1) = chi.

    Attributes:
        family: the expectations of phi.
        weight: weight_std^2.
        bias: bias_std^2.
        q: the fixed point of the variance.
    """

    family: Family
    weight: float
    bias: float
    q: float

    def gap(self, gap: float) -> tuple[float, float]:
        """Return 1 - f(c) and f'(c) at 1 - c = gap, without cancellation."""
        q = np.array([self.q])
        down, _, slope = self.family.near(gap * q, (2 - gap) * q, q, q)
        return self.weight * float(down[0]) / self.q, self.weight * float(slope[0])

    def apart(self) -> float:
        """Return 1 - c* for the correlation c* in [0, 1) that distinct inputs tend to where chi > 1."""
        if self.gap(1.0)[0] >= 1 - 1e-15:
            return 1.0
        ends = np.log(_CLOSEST), 0.0
        solved = root_scalar(lambda x: self.gap(float(np.exp(x)))[0] / np.exp(x) - 1, bracket=ends, xtol=1e-14)
        return float(np.exp(solved.root))

    def curvature(self) -> float:
        """Return f''(1) = weight q E[phi''(u)^2], u ~ N(0, q); infinite for a kink."""
        family, variance = self.family, np.array([self.q])
        if isinstance(family, Linear):
            return 0.0
        if isinstance(family, RectifiedPower) and family.power < 2:
            return 0.0 if family.odd else float("inf")
        if hasattr(family, "order_for"):
            order = family.order_for(self.q, 1.0, 1e-16)  # type: ignore[attr-defined]
            second = float(np.sum(family.sequence(variance, order, 2) ** 2))  # type: ignore[attr-defined]
            return self.weight * self.q * second
        return self._curvature_from_slopes()

    def _curvature_from_slopes(self) -> float:
        """Return f''(1) from values of f' at c < 1, extrapolated in powers of 1 - c; NaN if they do not settle."""
        for scale in 4.0 ** -np.arange(2, 16):
            found, error = extrapolated(lambda gap: self.gap(gap)[1], scale)
            if error <= _SETTLED * abs(found):
                return found
        return float("nan")

    def closing(self) -> tuple[int, float]:
        """Return p and the limit of l^p (1 - c_l) where chi = 1: 2/f''(1) at p = 1, or 9 pi^2 / (2 r^2) at p = 2.

        At a kink 1 - f(c) = d - (2 sqrt(2) r / (3 pi)) d^(3/2) + ..., d = 1 - c, r = (s_+ - s_-)^2 / (s_+^2 + s_-^2)
        for slopes s_+ and s_- of the two sides (ReLU: r = 1).
        """
        family = self.family
        if isinstance(family, RectifiedPower) and family.power == 1 and not family.odd:
            ratio = (family.plus + family.minus) ** 2 / (family.plus**2 + family.minus**2)
            return 2, (3 * pi / (sqrt(2) * ratio)) ** 2
        curvature = self.curvature()
        return 1, 2 / curvature if curvature > 0 else float("inf")


def extrapolated(function: Callable[[float], float], scale: float) -> tuple[float, float]:
    """Return minus the derivative at 0 from halved steps, Richardson's table, and the smallest change in it.

    Example:
        >>> round(extrapolated(lambda x: 1 / (1 + x), 0.1)[0], 10)
        1.0
    """
    steps = scale * 2.0 ** -np.arange(8)
    top = function(0.0)
    table = np.array([(top - function(float(step))) / step for step in steps])
    best, error = float(table[-1]), np.inf
    for power in range(1, len(steps)):
        finer = table[1:] + (table[1:] - table[:-1]) / (2**power - 1)
        change = np.abs(finer - table[1:])
        if change.min() < error:
            best, error = float(finer[change.argmin()]), float(change.min())
        table = finer
    return best, error
