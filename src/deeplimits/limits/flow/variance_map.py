"""The map of variances that one layer makes, and its fixed points: q' = weight_std^2 E[phi(u)^2] + bias_std^2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import root_scalar

from deeplimits.numerics.gaussian.family import Family

LOWEST, HIGHEST, PER_DECADE = 1e-12, 1e4, 40
_NOISE = 1e-11
_STEADY = 1e-12


@dataclass(frozen=True)
class VarianceMap:
    """Q = E[phi(u)^2], P = E[phi'(u)^2] and dQ/dq on a grid of variances, and the equations they solve.

    Attributes:
        family: the expectations of phi.
    """

    family: Family

    @cached_property
    def grid(self) -> np.ndarray:
        """The variances searched, 1e-12 to 1e4."""
        decades = int(np.log10(HIGHEST / LOWEST))
        return np.logspace(np.log10(LOWEST), np.log10(HIGHEST), decades * PER_DECADE + 1)

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Q and P on the grid."""
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [self.family.diagonal(part) for part in self._decades()]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _decades(self) -> list[np.ndarray]:
        return np.split(self.grid, range(PER_DECADE, len(self.grid), PER_DECADE))

    def at(self, q: float) -> tuple[float, float, float]:
        """Return Q, P and dQ/dq at one variance."""
        variance = np.array([q])
        square, prime = self.family.diagonal(variance)
        return float(square[0]), float(prime[0]), float(self.family.slope(variance)[0])

    @cached_property
    def vanishes(self) -> bool:
        """Whether phi(0) = 0, so that without biases a zero input stays zero."""
        return float(self.family.function(np.zeros(1))[0]) ** 2 <= 1e-30

    def edges(self, bias: float) -> list[float]:
        """Return all variances q with q = Q(q) / P(q) + bias: fixed points where chi = 1, in rising order.

        Args:
            bias: bias_std^2.
        """
        square, prime = self.table
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong = self.grid - square / prime - bias
        return self._roots(wrong, lambda q: q - self.at(q)[0] / self.at(q)[1] - bias, bias)

    def fixed_points(self, weight: float, bias: float) -> list[float]:
        """Return all variances q > 0 with q = weight Q(q) + bias, in rising order.

        Args:
            weight: weight_std^2.
            bias: bias_std^2.
        """
        with np.errstate(over="ignore"):
            wrong = self.grid - weight * self.table[0] - bias
        return self._roots(wrong, lambda q: q - weight * self.at(q)[0] - bias, bias)

    def _roots(self, wrong: np.ndarray, equation: Callable[[float], float], bias: float) -> list[float]:
        certain = np.isfinite(wrong) & (np.abs(wrong) > _NOISE * (self.grid if bias == 0 else 0))
        place = np.flatnonzero(certain)
        turns = np.flatnonzero(np.sign(wrong[place[1:]]) != np.sign(wrong[place[:-1]]))
        found = []
        for turn in turns:
            ends = np.log(self.grid[[place[turn], place[turn + 1]]]).tolist()
            low, high = (equation(float(np.exp(x))) for x in ends)
            if low * high >= 0:  # rounding decides the sign: that end is the root
                found.append(float(np.exp(ends[0] if abs(low) < abs(high) else ends[1])))
                continue
            solved = root_scalar(lambda x: equation(float(np.exp(x))), bracket=ends, xtol=1e-15, rtol=1e-14)
            found.append(float(np.exp(solved.root)))
        return found

    def shrinks_at_zero(self, weight: float) -> bool:
        """Say whether, without biases, small variances tend to zero."""
        small = self.grid[: 6 * PER_DECADE]
        change = weight * self.table[0][: 6 * PER_DECADE] / small - 1
        rising = change[np.abs(change) > _STEADY]
        return self.vanishes and bool(len(rising) == 0 or rising[0] < 0)
