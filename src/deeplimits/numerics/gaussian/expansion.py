"""Families known by their Hermite coefficients: K = sum over k of a_k(q1) a_k(q2) c**k."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.hermite import ENTRIES, unit

if TYPE_CHECKING:
    import torch


class Expansion(Family):
    """A family whose expectations are Hermite (Mehler) series.

    a_k(q) = E[phi(sqrt(q) z) h_k(z)], z standard normal, h_k the normalised Hermite polynomials;
    K = sum a_k(q1) a_k(q2) c**k, dK = sum k a_k(q1) a_k(q2) c**(k-1) / sqrt(q1 q2), c = k / sqrt(q1 q2).
    A zero variance is replaced by a tiny one, so that both sums stay right.

    Source: mehler-1866.
    """

    code: ClassVar[int] = 6

    @abstractmethod
    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        """Return a_k(q), k < order, shape (order, N)."""

    @abstractmethod
    def sequence(self, q: np.ndarray, order: int, times: int) -> np.ndarray:
        """Return the coefficients of the `times`-th derivative of phi, shape (order, N)."""

    @abstractmethod
    def order_for(self, q_max: float, c_max: float = 1.0, tolerance: float = 1e-12) -> int:
        """Return how many coefficients leave out at most `tolerance` of Q and of P, for |c| <= c_max, q <= q_max."""

    @abstractmethod
    def nonzero(self, q: np.ndarray) -> np.ndarray:
        """Return variances with zeros replaced by a tiny positive number."""

    def mean(self, q: np.ndarray) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        return self.coefficients(q.ravel(), 1)[0].reshape(q.shape)

    def slope(self, q: np.ndarray) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        order = self._full_order(q)
        zeroth, first, second = (self.sequence(q.ravel(), order, times) for times in range(3))
        total = np.einsum("kn,kn->n", first, first) + np.einsum("kn,kn->n", zeroth, second)
        return total.reshape(q.shape)

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from deeplimits.numerics.gaussian.moment import moment

        return moment(self, k, q1, q2, 0, 0), moment(self, k, q1, q2, 1, 1)

    def columns(self, q: np.ndarray) -> np.ndarray:
        return 1 / np.sqrt(self.nonzero(np.asarray(q, dtype=np.float64)))[None, :]

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        given = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (gap, span, q1, q2)))
        gap, span, q1, q2 = (a.ravel() for a in given)
        gap, span = np.maximum(gap, 0), np.maximum(span, 0)
        largest, result, start = np.maximum(q1, q2), np.empty((3, len(gap))), 0
        falling = np.argsort(-largest, kind="stable")
        while start < len(gap):
            order = self._full_order(largest[falling[start]])
            rows = falling[start : start + max(1, ENTRIES // (4 * order))]
            result[:, rows] = self._near(gap[rows], span[rows], q1[rows], q2[rows], order)
            start += len(rows)
        down, up, slope = (row.reshape(given[0].shape) for row in result)
        return down, up, slope

    def _full_order(self, q: np.ndarray) -> int:
        return self.order_for(float(q.max(initial=0.0)), 1.0, 1e-16)

    def _near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray, order: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, where = np.unique(np.concatenate([q1, q2]), return_inverse=True)
        first, second = where[: len(q1)], where[len(q1) :]
        a, d = self.sequence(values, order, 0), self.sequence(values, order, 1)
        a[1:, values == 0] = 0
        units, squares = unit(a), self.diagonal(values)[0]
        scale = np.sqrt(squares[first]) * np.sqrt(squares[second])
        difference = units[:, first] - units[:, second]
        apart = scale * 0.5 * np.einsum("kn,kn->n", difference, difference)
        fall, back = powers(gap, span, order)
        weights = a[:, first] * a[:, second]
        down = apart + np.einsum("kn,kn->n", weights, fall)
        up = apart + np.einsum("kn,kn->n", weights, back) if self.odd else 2 * scale - down
        slope = np.einsum("kn,kn,kn->n", d[:, first], d[:, second], 1 - fall)
        return down, up, slope


def powers(gap: np.ndarray, span: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 - c**k and 1 - (-c)**k for k < order, c = (span - gap) / (span + gap), without cancellation."""
    s = (gap + span) / 2
    least = np.where(s > 0, np.minimum(gap, span) / np.where(s > 0, s, 1), 1)
    k = np.arange(1, order)[:, None]
    with np.errstate(divide="ignore"):
        even = np.concatenate([np.zeros((1, len(gap))), -np.expm1(k * np.log1p(-least))])
    odd_turn = np.where(np.arange(order)[:, None] % 2 == 1, 2 - even, even)
    front = gap <= span
    return np.where(front, even, odd_turn), np.where(front, odd_turn, even)
