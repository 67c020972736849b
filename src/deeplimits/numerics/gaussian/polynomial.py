"""Polynomials: finite Hermite series with exact coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import factorial, sqrt

import numpy as np

from deeplimits.numerics.gaussian.expansion import Expansion


@dataclass(frozen=True)
class PolynomialFamily(Expansion):
    """phi(x) = sum over j of ascending[j] * x**j.

    a_k(q) = sum over n = k, k+2, ... of ascending[n] q**(n/2) n! / (2**m m! sqrt(k!)), m = (n - k) / 2.

    Example:
        >>> PolynomialFamily((0.0, 0.0, 1.0)).diagonal(np.array([1.0]))
        (array([3.]), array([4.]))
    """

    ascending: tuple[float, ...]

    @property
    def constants(self) -> tuple[float, ...]:
        return tuple(float(c) for c in self.ascending)

    @property
    def homogeneous(self) -> int | None:
        powers = [j for j, c in enumerate(self.ascending) if c != 0]
        return powers[0] if len(powers) == 1 else None

    @property
    def odd(self) -> bool:
        return not any(self.ascending[0::2])

    def function(self, x: np.ndarray) -> np.ndarray:
        return np.polynomial.polynomial.polyval(np.asarray(x, dtype=np.float64), self.ascending)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return self.derived(1).function(x)

    def derived(self, times: int) -> PolynomialFamily:
        """Return the `times`-th derivative."""
        return PolynomialFamily(tuple(np.polynomial.polynomial.polyder(self.ascending, times).tolist()) or (0.0,))

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.asarray(q, dtype=np.float64)
        order = len(self.ascending)
        value, slope = (np.sum(self.sequence(q.ravel(), order, times) ** 2, axis=0) for times in (0, 1))
        return value.reshape(q.shape), slope.reshape(q.shape)

    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        degree = len(self.ascending) - 1
        root = np.sqrt(self.nonzero(np.asarray(q, dtype=np.float64)))
        terms = np.asarray(self.ascending)[:, None] * root ** np.arange(degree + 1)[:, None]
        result = np.zeros((order, len(root)))
        rows = min(order, degree + 1)
        result[:rows] = (_monomials(degree) @ terms)[:rows]
        return result

    def sequence(self, q: np.ndarray, order: int, times: int) -> np.ndarray:
        return (self.derived(times) if times else self).coefficients(q, order)

    def order_for(self, q_max: float, c_max: float = 1.0, tolerance: float = 1e-12) -> int:
        return len(self.ascending)

    def nonzero(self, q: np.ndarray) -> np.ndarray:
        return np.where(q == 0, 1e-30, q)


@cache
def _monomials(degree: int) -> np.ndarray:
    """Return entry (k, n): the coefficient of z**n on h_k."""
    table = np.zeros((degree + 1, degree + 1))
    for n in range(degree + 1):
        for k in range(n, -1, -2):
            m = (n - k) // 2
            table[k, n] = factorial(n) // (2**m * factorial(m) * factorial(k)) * sqrt(factorial(k))
    return table
