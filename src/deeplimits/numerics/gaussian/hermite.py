"""Families with Hermite coefficients a_k(q) = E[phi(sqrt(q) z) h_k(z)]: what is small near coincident inputs."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from deeplimits.numerics.gaussian.family import Family

ENTRIES = 4_000_000
"""Largest number of coefficients held at once."""


class Smooth(Family):
    """A family with a closed form for the drop K(c=1) - K(c) and closed-form Hermite coefficients."""

    @abstractmethod
    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        """Return the first `order` Hermite coefficients at variances q, shape (order, N)."""

    @abstractmethod
    def unit_order(self, q: np.ndarray) -> int:
        """Return how many coefficients give unit vectors to rounding at all variances q > 0; 0 where too many."""

    @abstractmethod
    def drop(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        """Return K at k = sqrt(q1 q2) less K at k, without cancellation."""

    @abstractmethod
    def slope_at(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        """Return dK without cancellation."""

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gap, span, q1, q2 = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (gap, span, q1, q2)))
        gap, span = np.maximum(gap, 0), np.maximum(span, 0)
        scale = np.sqrt(self.diagonal(q1)[0]) * np.sqrt(self.diagonal(q2)[0])
        apart = scale * self.misalignment(q1, q2)
        down = apart + self.drop(gap, span, q1, q2)
        up = apart + self.drop(span, gap, q1, q2) if self.odd else 2 * scale - down
        return down, up, self.slope_at(gap, span, q1, q2)

    def misalignment(self, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        """Return 1 - K / sqrt(Q1 Q2) of collinear inputs, exactly 0 where q1 = q2."""
        result = np.zeros(q1.shape)
        differ = (q1 != q2) & (q1 > 0) & (q2 > 0)
        if not differ.any():
            return result + self._against_zero(q1, q2)
        a, b = q1[differ], q2[differ]
        values, order = np.empty(len(a)), self.unit_order(np.concatenate([a, b]))
        if order == 0:
            values = self._misaligned_directly(a, b)
        else:
            size = max(1, ENTRIES // (2 * order))
            for start in range(0, len(a), size):
                rows = slice(start, start + size)
                u, v = (unit(self.coefficients(q[rows], order)) for q in (a, b))
                values[rows] = 0.5 * np.einsum("kn,kn->n", u - v, u - v)
        result[differ] = values
        return result + self._against_zero(q1, q2)

    def _against_zero(self, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        zero = (q1 == 0) != (q2 == 0)
        result = np.zeros(q1.shape)
        if zero.any():
            result[zero] = self._misaligned_directly(q1[zero], q2[zero])
        return result

    def _misaligned_directly(self, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        import torch

        k, a, b = (torch.from_numpy(np.ascontiguousarray(x)) for x in (np.sqrt(q1) * np.sqrt(q2), q1, q2))
        scale = np.sqrt(self.diagonal(q1)[0]) * np.sqrt(self.diagonal(q2)[0])
        value = self.pair(k, a, b)[0].numpy()
        return np.maximum(1 - value / np.where(scale > 0, scale, 1), 0) * (scale > 0)


def unit(coefficients: np.ndarray) -> np.ndarray:
    """Return columns divided by their norms (a zero column stays)."""
    norm = np.sqrt(np.einsum("kn,kn->n", coefficients, coefficients))
    return coefficients / np.where(norm > 0, norm, 1)


def geometric_order(ratio: float, most: int = 32768) -> int:
    """Return how many terms of a series with a_k^2 <= ratio**k reach 1e-18 of the first; 0 where more than `most`."""
    order = 24 + int(-42 / np.log(ratio)) if 0 < ratio < 1 else 24
    return order if order <= most else 0


def bump_coefficients(rate: float, q: np.ndarray, order: int) -> np.ndarray:
    """Return the even Hermite coefficients of exp(-rate x**2) at k = 0, 2, 4 ..., shape (order, N).

    a_{2m}(q) = (1 + 2 rate q)**(-1/2) (-r/2)**m sqrt((2m)!) / m!, r = 2 rate q / (1 + 2 rate q).
    """
    ratio = 2 * rate * q / (1 + 2 * rate * q)
    m = np.arange(order - 1)
    steps = -np.sqrt((2 * m + 1) / (2 * m + 2))[:, None] * ratio
    first = 1 / np.sqrt(1 + 2 * rate * q)
    return np.cumprod(np.concatenate([first[None, :], steps]), axis=0)
