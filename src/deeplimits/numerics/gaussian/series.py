"""Any function, by Hermite series whose coefficients come from quadrature, with an error estimate."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from deeplimits.errors import NoLimit
from deeplimits.numerics.gaussian.expansion import Expansion
from deeplimits.numerics.gaussian.polynomial import PolynomialFamily
from deeplimits.numerics.gaussian.quadrature import Rule, mean_square, project, settle

__all__ = ["PolynomialFamily", "Series"]

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Series(Expansion):
    """phi given as a numpy function, entry by entry.

    Args:
        phi: the function.
        prime: its derivative; by default P comes from the coefficients.
        key: what identifies the function, for equality and caches; by default the function itself.

    Example:
        >>> tanh = Series(np.tanh, key="tanh")
        >>> value, slope = tanh.diagonal(np.array([1.0])); value.round(6), tanh.error(1.0) < 1e-12
        (array([0.394294]), True)
    """

    phi: Function = field(compare=False, repr=False)
    prime: Function | None = field(default=None, compare=False, repr=False)
    key: Hashable = None

    def __post_init__(self) -> None:
        if self.key is None:
            object.__setattr__(self, "key", (self.phi, self.prime))

    @property
    def odd(self) -> bool:
        return _odd(self)

    def function(self, x: np.ndarray) -> np.ndarray:
        return self.phi(np.asarray(x, dtype=np.float64))

    def derivative(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        if self.prime is not None:
            return self.prime(x)
        h = 1e-2 * np.maximum(1, np.abs(x))
        rises = (self.function(x + j * h) - self.function(x - j * h) for j in (1, 2, 3))
        return sum(w * rise for w, rise in zip((45, -9, 1), rises, strict=True)) / (60 * h)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.asarray(q, dtype=np.float64)
        flat = q.ravel()
        value = mean_square(self.function, flat, self._rule(flat).step)
        if self._slope is not None:
            slope = mean_square(self._slope.function, flat, self._slope._rule(flat).step)
        else:
            rows = self.sequence(flat, self._full_order(flat), 1)
            slope = np.einsum("kn,kn->n", rows, rows)
        return value.reshape(q.shape), slope.reshape(q.shape)

    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        q = self.nonzero(np.asarray(q, dtype=np.float64))
        return project(self.function, q, self._rule(q).step, order)[0]

    def sequence(self, q: np.ndarray, order: int, times: int) -> np.ndarray:
        if times == 0:
            return self.coefficients(q, order)
        if self._slope is not None:
            return self._slope.sequence(q, order, times - 1)
        q = np.where(q == 0, 1e-16 ** (2 / (times + 2)), q)
        k, factor = np.arange(order), np.ones(order)
        for j in range(1, times + 1):
            factor = factor * np.sqrt(k + j)
        return self.coefficients(q, order + times)[times:] * factor[:, None] / np.sqrt(q) ** times

    def order_for(self, q_max: float, c_max: float = 1.0, tolerance: float = 1e-12) -> int:
        variances = np.array([q_max, q_max / 4, q_max / 16])
        table = self.coefficients(variances, self._rule(variances).cap)
        return max(_order(a, c_max, tolerance) for a in table.T)

    def nonzero(self, q: np.ndarray) -> np.ndarray:
        return np.where(q == 0, 1e-12, q)

    def error(self, q: np.ndarray | float) -> float:
        largest = max(float(np.max(q, initial=0.0)), 1e-12)
        variance = np.array([largest])
        rule = self._rule(variance)
        a = self.coefficients(variance, rule.cap)[:, 0] ** 2
        value, slope = (float(part[0]) for part in self.diagonal(variance))
        left = [rule.error, abs(1 - a.sum() / value) if value > 0 else 0.0]
        weighted = np.arange(rule.cap) * a
        if self._slope is not None and slope > 0:
            left += [self._slope._rule(variance).error, abs(1 - weighted.sum() / (largest * slope))]
        elif weighted.sum() > 0:
            left.append(_beyond(weighted) / weighted.sum())
        return float(np.nan_to_num(max(left), nan=np.inf, posinf=np.inf))

    @property
    def _slope(self) -> Series | None:
        return None if self.prime is None else Series(self.prime, None, (self.key, "derivative"))

    def _rule(self, q: np.ndarray) -> Rule:
        return _settled(self, _octave(float(np.max(q, initial=0.0))))


def _beyond(terms: np.ndarray) -> float:
    """Return an estimate of the sum after the last term, from the last two octaves (exact for a power law)."""
    half, quarter = len(terms) // 2, len(terms) // 4
    last, before = terms[half:].sum(), terms[quarter:half].sum()
    if last <= 1e-14 * terms.sum():
        return last
    return last * last / (before - last) if before > last else np.inf


def _octave(q: float) -> int:
    if q == np.inf:
        why = "the mean square of an activation is infinite, or beyond float64, at the variance it meets"
        fix = "take one that grows more slowly than exp(x**2), smaller inputs or a smaller depth"
        raise NoLimit("activation", why, fix)
    return max(-10, int(np.ceil(np.log2(q)))) if q > 0 else -10


@lru_cache(maxsize=512)
def _settled(family: Series, octave: int) -> Rule:
    return settle(family.function, 2.0**octave)


@lru_cache(maxsize=128)
def _odd(family: Series) -> bool:
    x = np.linspace(0.01, 12, 1200)
    up, down = family.function(x), family.function(-x)
    return bool(np.all(up + down == 0)) and float(family.function(np.zeros(1))[0]) == 0


def _order(a: np.ndarray, c_max: float, tolerance: float) -> int:
    k = np.arange(len(a))
    order = 2
    for weights, shift in ((a**2, 0), (k * a**2, 1)):
        left = np.cumsum((weights * c_max ** np.maximum(k - shift, 0))[::-1])[::-1]
        enough = left <= tolerance * weights.sum()
        order = max(order, int(np.argmax(enough)) if enough.any() else len(a))
    return order
