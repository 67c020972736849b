"""Readouts of the mean ODE: a fixed linear one, and a mean over units that are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from deeplimits.limits.training.branches.units import Look
from deeplimits.numerics.embedded import Array


class Readout(Protocol):
    """From states at the end to outputs."""

    def outputs(self, h: Array) -> Array:
        """Return f of states (P, r), (P, C)."""
        ...

    def back(self, h: Array) -> Array:
        """Return df/dh of training states, (P, C, r)."""
        ...

    def gram(self, h: Array) -> Array:
        """Return the readout's part of the Gram matrix, (P C, P C)."""
        ...

    def move(self, h: Array, errors: Array, size: float) -> None:
        """Take one step of gradient descent; `errors` is y - f, (P, C)."""
        ...


@dataclass
class Fixed:
    """f = out . h.

    Args:
        out: (r, C).
    """

    out: Array

    def outputs(self, h: Array) -> Array:
        return h @ self.out

    def back(self, h: Array) -> Array:
        return np.broadcast_to(self.out.T, (len(h), *self.out.T.shape))

    def gram(self, h: Array) -> Array:
        count = len(h) * self.out.shape[1]
        return np.zeros((count, count))

    def move(self, h: Array, errors: Array, size: float) -> None:
        pass


@dataclass
class Mean:
    """f = scale E[a phi(b . h root)] over units a (S, C), b (S, r).

    Args:
        family: phi and its derivative.
        b, a: the units, changed in place.
        scale: beta.
        root: 1 / sqrt(D).
        aside: what b . h root has beyond the r coordinates, (P + M, S).
    """

    family: Any
    b: Array
    a: Array
    scale: float
    root: float
    aside: Array

    def outputs(self, h: Array) -> Array:
        z = self.root * h @ self.b.T + self.aside[: len(h)]
        return self.scale / len(self.b) * self.family.function(z) @ self.a

    def back(self, h: Array) -> Array:
        through = self._look(h).slope[:, None] * self.a.T
        return self.scale * self.root / len(self.b) * through @ self.b

    def gram(self, h: Array) -> Array:
        look, C = self._look(h), self.a.shape[1]
        outer = np.kron(look.phi @ look.phi.T, np.eye(C))
        inner = (look.slope[:, None] * self.a.T).reshape(len(h) * C, -1)
        states = np.repeat(self.root * h, C, 0)
        return (outer + (inner @ inner.T) * (states @ states.T)) / len(self.b)

    def move(self, h: Array, errors: Array, size: float) -> None:
        look = self._look(h)
        b = ((errors @ self.a.T) * look.slope).T @ h * self.root
        self.a += size / self.scale * look.phi.T @ errors
        self.b += size / self.scale * b

    def _look(self, h: Array) -> Look:
        z = self.root * h @ self.b.T
        return Look(h, self.family.function(z), self.family.derivative(z))
