"""Losses of kernel machines, each with the dual problem that it makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import DescriptionError, InputError, nearest

Array = NDArray[np.float64]
CLASSES = ("hinge", "squared_hinge", "logistic")
NUMBERS = ("epsilon_insensitive", "huber", "squared")


@dataclass(frozen=True, eq=False)
class Dual:
    """The function that the weights b of f = K b maximise, each within its limits.

    -b.K b/2 + target.b - threshold |b|_1 - shift |b|^2/2, for `entropy` with
    - sum |b| log(|b|/C) + (C - |b|) log(1 - |b|/C) besides.

    Attributes:
        target, low, high: shape (P,).
        threshold, shift: numbers.
        entropy: C, or 0 where there is none.
    """

    target: Array
    low: Array
    high: Array
    threshold: float = 0.0
    shift: float = 0.0
    entropy: float = 0.0

    def costs(self, weights: Array) -> Array:
        """Return what every weight adds to minus the function, b.K b/2 left out, shape (P,)."""
        size = np.abs(weights)
        found = self.threshold * size + self.shift / 2 * weights**2 - self.target * weights
        if self.entropy:
            share = size / self.entropy
            with np.errstate(divide="ignore", invalid="ignore"):
                inner = np.where(share > 0, share * np.log(share), 0.0)
                outer = np.where(share < 1, (1 - share) * np.log1p(-share), 0.0)
            found += self.entropy * (inner + outer)
        return found


class Loss(ABC):
    """A convex loss l(f, y) of one row."""

    @abstractmethod
    def value(self, outputs: Array, y: Array) -> Array:
        """Return l(f, y), elementwise."""

    @abstractmethod
    def slope(self, outputs: Array, y: Array) -> Array:
        """Return dl/df, elementwise; at a kink the slope of smallest size."""

    @abstractmethod
    def dual(self, y: Array, C: float) -> Dual:
        """Return the dual problem of |f|^2/2 + C sum l(f, y)."""


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - y f), y = -1 or 1."""

    def value(self, outputs: Array, y: Array) -> Array:
        return np.maximum(0.0, 1 - y * outputs)

    def slope(self, outputs: Array, y: Array) -> Array:
        return np.where(y * outputs < 1, -y, 0.0)

    def dual(self, y: Array, C: float) -> Dual:
        return Dual(y, np.minimum(0.0, y * C), np.maximum(0.0, y * C))


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y f)^2, y = -1 or 1."""

    def value(self, outputs: Array, y: Array) -> Array:
        return np.maximum(0.0, 1 - y * outputs) ** 2

    def slope(self, outputs: Array, y: Array) -> Array:
        return -2 * y * np.maximum(0.0, 1 - y * outputs)

    def dual(self, y: Array, C: float) -> Dual:
        return Dual(y, np.where(y > 0, 0.0, -inf), np.where(y > 0, inf, 0.0), shift=1 / (2 * C))


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y f)), y = -1 or 1."""

    def value(self, outputs: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * outputs)

    def slope(self, outputs: Array, y: Array) -> Array:
        return -y * np.exp(-np.logaddexp(0.0, y * outputs))

    def dual(self, y: Array, C: float) -> Dual:
        return Dual(np.zeros_like(y), np.minimum(0.0, y * C), np.maximum(0.0, y * C), entropy=C)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |y - f| - epsilon)."""

    epsilon: float = 0.1

    def value(self, outputs: Array, y: Array) -> Array:
        return np.maximum(0.0, np.abs(y - outputs) - self.epsilon)

    def slope(self, outputs: Array, y: Array) -> Array:
        return np.sign(outputs - y) * (np.abs(y - outputs) > self.epsilon)

    def dual(self, y: Array, C: float) -> Dual:
        return Dual(y, np.full_like(y, -C), np.full_like(y, C), threshold=self.epsilon)


@dataclass(frozen=True)
class Huber(Loss):
    """(y - f)^2/2 up to |y - f| = epsilon, epsilon |y - f| - epsilon^2/2 beyond."""

    epsilon: float = 0.1

    def value(self, outputs: Array, y: Array) -> Array:
        size = np.abs(y - outputs)
        inner = np.minimum(size, self.epsilon)
        return inner * (size - inner / 2)

    def slope(self, outputs: Array, y: Array) -> Array:
        return np.clip(outputs - y, -self.epsilon, self.epsilon)

    def dual(self, y: Array, C: float) -> Dual:
        most = np.full_like(y, C * self.epsilon)
        return Dual(y, -most, most, shift=1 / C)


@dataclass(frozen=True)
class Squared(Loss):
    """(y - f)^2/2: kernel ridge regression of ridge 1/C."""

    def value(self, outputs: Array, y: Array) -> Array:
        return (y - outputs) ** 2 / 2

    def slope(self, outputs: Array, y: Array) -> Array:
        return outputs - y

    def dual(self, y: Array, C: float) -> Dual:
        most = np.full_like(y, inf)
        return Dual(y, -most, most, shift=1 / C)


def loss_of(where: str, name: Any, epsilon: Any = None, known: tuple[str, ...] = CLASSES + NUMBERS) -> Loss:
    """Return a loss by its name.

    Args:
        where: named in errors.
        name: one of `known`.
        epsilon: of "epsilon_insensitive" (at least 0) and "huber" (above 0).
        known: names allowed.

    Raises:
        DescriptionError: an unknown name.
        InputError: an epsilon that cannot be.

    Example:
        >>> loss_of("here", "hinge").value(np.array([0.5]), np.array([1.0]))
        array([0.5])
    """
    if not isinstance(name, str) or name not in known:
        raise DescriptionError(where, f"loss={name!r}", nearest(str(name), known))
    plain: dict[str, type[Loss]] = {"hinge": Hinge, "squared_hinge": SquaredHinge, "logistic": Logistic}
    if name in plain:
        return plain[name]()
    if name == "squared":
        return Squared()
    real = isinstance(epsilon, Real) and not isinstance(epsilon, bool | np.bool_)
    if not real or not isfinite(epsilon) or epsilon < 0 or (epsilon == 0 and name == "huber"):
        least = "> 0" if name == "huber" else ">= 0"
        raise InputError(where, f"epsilon={epsilon!r} is not a number {least}", "give it in units of y, e.g. 0.1")
    return EpsilonInsensitive(float(epsilon)) if name == "epsilon_insensitive" else Huber(float(epsilon))
