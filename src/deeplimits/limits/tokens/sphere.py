"""Attention as an equation of motion of tokens on the unit sphere, with its Jacobian and its energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from deeplimits.errors import InputError
from deeplimits.limits.tokens.inputs import Array

LARGEST = 700.0


@dataclass(frozen=True, eq=False)
class Sphere:
    """x_i' = P(x_i) V sum_j w_ij x_j, P(x) = I - x x^T the projection on the tangent plane.

    w_ij = e^(beta <A x_i, x_j>) / sum_k e^(beta <A x_i, x_k>) normalised (softmax), or e^(beta <A x_i, x_j>) / m.

    Attributes:
        beta: inverse temperature.
        query_key: A, shape (d, d), or None for the identity.
        value: V, likewise.
        normalised: whether weights sum to 1.

    Source: geshkovski-2023-perspective.
    """

    beta: float
    query_key: Array | None
    value: Array | None
    normalised: bool

    def logits(self, x: Array) -> Array:
        """Return beta <A x_i, x_j>, shape (m, m)."""
        return self.beta * (_times(self.query_key, x) @ x.T)

    def check(self, x: Array) -> None:
        """Refuse weights that overflow.

        Raises:
            InputError: e^(beta |A|) is beyond float64 and nothing divides it.
        """
        size = self.beta * (1.0 if self.query_key is None else float(np.linalg.norm(self.query_key, 2)))
        if not self.normalised and size > LARGEST:
            why = f"unnormalised weights reach e^{size:.0f}, beyond float64"
            raise InputError("tokens", why, "use kind='softmax', whose weights are normalised, or a smaller beta")

    def weights(self, x: Array) -> Array:
        """Return w, shape (m, m)."""
        logits = self.logits(x)
        return softmax(logits, axis=1) if self.normalised else np.exp(logits) / len(x)

    def velocity(self, x: Array) -> Array:
        """Return x', shape (m, d), of the directions of x: rounding does not lead away from the sphere."""
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        pull = _times(self.value, self.weights(x) @ x)
        return pull - np.sum(pull * x, axis=1, keepdims=True) * x

    def jacobian(self, x: Array) -> Array:
        """Return the derivative of `velocity` on the sphere, shape (m, d, m, d)."""
        m, d = x.shape
        w = self.weights(x)
        mean = w @ x
        centre = mean if self.normalised else np.zeros_like(mean)
        key = self.beta * _times(self.query_key, x)
        own = np.einsum("ij,ja,jb->iab", w, x, x) - np.einsum("ia,ib->iab", centre, mean)
        own = self.beta * own @ (np.eye(d) if self.query_key is None else self.query_key)
        turn = np.einsum("ik,ika,ib->iakb", w, x[None] - centre[:, None], key)
        turn += np.einsum("ik,ab->iakb", w, np.eye(d))
        each = np.arange(m)
        turn[each, :, each, :] += own
        if self.value is not None:
            turn = np.einsum("ca,iakb->ickb", self.value, turn)
        pull = _times(self.value, mean)
        turn -= np.einsum("ia,ic,ickb->iakb", x, x, turn)
        turn[each, :, each, :] -= np.einsum("ia,ib->iab", x, pull)
        turn[each, :, each, :] -= np.sum(pull * x, axis=1)[:, None, None] * np.eye(d)
        return turn - np.einsum("iakc,kc,kb->iakb", turn, x, x)

    def energy(self, x: Array) -> float:
        """Return (1/beta) log mean e^(beta <A x_i, x_j>), which rises with the interaction energy (its mean / 2 beta).

        For A = V = I it never falls, and is 1 where all tokens are one.
        """
        return float(logsumexp(self.logits(x)) - 2 * np.log(len(x))) / self.beta


def _times(matrix: Array | None, x: Array) -> Array:
    return x if matrix is None else x @ matrix.T
