"""Attention at temperature zero: steps of Frank and Wolfe towards the token with the largest score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.tokens.inputs import Array

SIGN = 1e-10


@dataclass(frozen=True, eq=False)
class Hardmax:
    """x_i <- x_i + step/(1 + step) mean over C_i of (x_l - x_i), C_i = argmax_j <A x_i, x_j>.

    The mean over C_i maximises <A x_i, y> over the convex hull of the tokens: it is a step of Frank and Wolfe for the
    quadratic form <A x, x> / 2.

    Attributes:
        query_key: A, shape (d, d), or None for the identity.
        step: alpha.
        ties: scores that differ by less than this share of the largest one are equal.

    Source: alcalde-2025-hardmax-frank-wolfe.
    """

    query_key: Array | None
    step: float
    ties: float

    def leaders_of(self, x: Array) -> NDArray[np.bool_]:
        """Return whether j is in C_i, shape (m, m)."""
        scores = self._key(x) @ x.T
        slack = self.ties * np.abs(scores).max(initial=0.0)
        return scores >= scores.max(axis=1, keepdims=True) - slack

    def move(self, x: Array) -> Array:
        """Return the tokens after one step, shape (m, d)."""
        chosen = self.leaders_of(x)
        target = chosen @ x / chosen.sum(axis=1, keepdims=True)
        return x + self.step / (1 + self.step) * (target - x)

    def path(self, x: Array, steps: int) -> Array:
        """Return the tokens before the first and after every step, shape (steps + 1, m, d)."""
        found = np.empty((steps + 1, *x.shape))
        found[0] = x
        for index in range(steps):
            found[index + 1] = self.move(found[index])
        return found

    def leaders(self, x: Array) -> NDArray[np.int64]:
        """Return the tokens that follow none but themselves, and so stay, shape (L,)."""
        chosen = self.leaders_of(x)
        size = self.ties * max(float(np.abs(x).max()), 1e-300)
        apart = np.abs(x[:, None] - x[None]).max(axis=2) > size
        return np.flatnonzero(~np.any(chosen & apart, axis=1))

    def energy(self, x: Array) -> float:
        """Return the mean of <A x_i, x_i>; for A positive semidefinite it never falls."""
        return float(np.mean(np.sum(self._key(x) * x, axis=1)))

    def sign(self) -> str:
        """Return "positive", "negative" (semidefinite) or "indefinite", of the symmetric part of A."""
        if self.query_key is None:
            return "positive"
        values = np.linalg.eigvalsh((self.query_key + self.query_key.T) / 2)
        slack = SIGN * float(np.abs(values).max(initial=0.0))
        if values[0] >= -slack:
            return "positive"
        return "negative" if values[-1] <= slack else "indefinite"

    def _key(self, x: Array) -> Array:
        return x if self.query_key is None else x @ self.query_key.T
