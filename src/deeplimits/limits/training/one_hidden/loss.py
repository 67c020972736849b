"""Losses of outputs (..., P, C): their values, slopes and curvatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from deeplimits.errors import InputError, nearest

Array = NDArray[np.float64]


class Loss(ABC):
    """A loss that sums over inputs and outputs."""

    @abstractmethod
    def value(self, f: Array, y: Array) -> Array:
        """Return the loss, shape (...)."""

    @abstractmethod
    def slope(self, f: Array, y: Array) -> Array:
        """Return its derivative in f, shape of f."""

    @abstractmethod
    def turn(self, f: Array, y: Array, change: Array) -> Array:
        """Return the derivative of the slope along a change of f."""

    @abstractmethod
    def check(self, where: str, y: Array) -> None:
        """Refuse targets, (P, C), that the loss has no meaning for."""


class Square(Loss):
    """Sum of (f - y)^2 / 2."""

    def check(self, where: str, y: Array) -> None:
        """Accept any targets."""

    def value(self, f: Array, y: Array) -> Array:
        return ((f - y) ** 2).sum((-2, -1)) / 2

    def slope(self, f: Array, y: Array) -> Array:
        return f - y

    def turn(self, f: Array, y: Array, change: Array) -> Array:
        return change


class Logistic(Loss):
    """Sum of log(1 + exp(-y f)) for y = -1 or 1."""

    def value(self, f: Array, y: Array) -> Array:
        return np.logaddexp(0, -y * f).sum((-2, -1))

    def slope(self, f: Array, y: Array) -> Array:
        return -y * expit(-y * f)

    def turn(self, f: Array, y: Array, change: Array) -> Array:
        return expit(f) * expit(-f) * change

    def check(self, where: str, y: Array) -> None:
        wrong = np.argwhere(np.abs(y) != 1)
        if len(wrong):
            row, column = (int(i) for i in wrong[0])
            why = f"y has {y[row, column]:g} at row {row}, column {column}: the logistic loss reads -1 and 1"
            raise InputError(where, why, "give signs, e.g. 2 * y - 1 for labels 0 and 1")


class Softmax(Loss):
    """Cross-entropy -sum of y log softmax(f), rows of y being probabilities."""

    def value(self, f: Array, y: Array) -> Array:
        return -(y * log_softmax(f, axis=-1)).sum((-2, -1))

    def slope(self, f: Array, y: Array) -> Array:
        return softmax(f, axis=-1) - y

    def turn(self, f: Array, y: Array, change: Array) -> Array:
        p = softmax(f, axis=-1)
        return p * (change - (p * change).sum(-1, keepdims=True))

    def check(self, where: str, y: Array) -> None:
        fix = "give one row of probabilities an input: np.eye(classes)[labels] for class labels 0, 1, ..."
        if y.shape[1] < 2:
            raise InputError(where, "the softmax loss needs at least two columns of y", fix)
        wrong = np.flatnonzero((y < 0).any(1) | (np.abs(y.sum(1) - 1) > 1e-6))
        if len(wrong):
            raise InputError(where, f"y has {y[wrong[0]].tolist()} at row {wrong[0]}, not probabilities", fix)


LOSSES: dict[str, Loss] = {"square": Square(), "logistic": Logistic(), "softmax": Softmax()}


def loss_named(where: str, name: Any) -> Loss:
    """Return the loss called "square", "logistic" or "softmax".

    Raises:
        InputError: another name.

    Example:
        >>> float(loss_named("here", "square").value(np.array([[3.0]]), np.array([[1.0]])))
        2.0
    """
    if not isinstance(name, str) or name not in LOSSES:
        fix = nearest(name, LOSSES) if isinstance(name, str) else f"use one of {', '.join(LOSSES)}"
        raise InputError(where, f"loss={name!r} is not a loss", fix)
    return LOSSES[name]
