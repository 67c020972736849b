"""Error functions, the Gaussian cumulative distribution function among them."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.numerics.gaussian.hermite import Smooth, bump_coefficients, geometric_order

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Erf(Smooth):
    """phi(x) = amplitude * erf(frequency * x) + shift.

    K = shift^2 + amplitude^2 (2/pi) asin(2 f^2 k / sqrt((1 + 2 f^2 q1)(1 + 2 f^2 q2))),
    dK = amplitude^2 (4 f^2 / pi) / sqrt(D), D = 1 + 2 f^2 (q1 + q2) + 4 f^4 (q1 q2 - k^2).

    Source: williams-1997-computing, eq. 11.

    Example:
        >>> Erf().diagonal(np.array([0.5]))[0].round(6)
        array([0.333333])
    """

    amplitude: float = 1.0
    frequency: float = 1.0
    shift: float = 0.0
    code: ClassVar[int] = 1

    @property
    def constants(self) -> tuple[float, ...]:
        return (float(self.amplitude), float(self.frequency), float(self.shift))

    @property
    def odd(self) -> bool:
        return self.shift == 0

    def function(self, x: np.ndarray) -> np.ndarray:
        from scipy.special import erf

        return self.amplitude * erf(self.frequency * np.asarray(x)) + self.shift

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return self.amplitude * 2 * self.frequency / sqrt(pi) * np.exp(-((self.frequency * np.asarray(x)) ** 2))

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = 2 * self.frequency**2 * np.asarray(q)
        root = np.sqrt(1 + 2 * w)
        value = self.shift**2 + self.amplitude**2 * (2 / pi) * np.arctan2(w, root)
        return value, self.amplitude**2 * (4 * self.frequency**2 / pi) / root

    def mean(self, q: np.ndarray) -> np.ndarray:
        return np.full_like(np.asarray(q, dtype=np.float64), self.shift)

    def slope(self, q: np.ndarray) -> np.ndarray:
        w = 2 * self.frequency**2 * np.asarray(q)
        return self.amplitude**2 * (4 * self.frequency**2 / pi) / ((1 + w) * np.sqrt(1 + 2 * w))

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        w = 2 * self.frequency**2
        root = torch.sqrt(1 + w * (q1 + q2) + w**2 * torch.clamp(q1 * q2 - k * k, min=0))
        value = self.shift**2 + self.amplitude**2 * (2 / pi) * torch.atan2(w * k, root)
        return value, self.amplitude**2 * (2 * w / pi) / root

    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        result = np.zeros((order, len(q)))
        result[0] = self.shift
        result[1::2] = self.amplitude * step_coefficients(self.frequency, q, order // 2)
        return result

    def unit_order(self, q: np.ndarray) -> int:
        w = 2 * self.frequency**2 * q.max()
        return geometric_order(w / (1 + w))

    def drop(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        return self.amplitude**2 * (2 / pi) * arcsine_drop(2 * self.frequency**2, gap, span, q1, q2)

    def slope_at(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        w = 2 * self.frequency**2
        return self.amplitude**2 * (2 * w / pi) / np.sqrt(1 + w * (q1 + q2) + w**2 * gap * span)

    def columns(self, q: np.ndarray) -> np.ndarray:
        return 1 / np.sqrt(1 + 2 * self.frequency**2 * np.asarray(q)[None, :])


def step_coefficients(frequency: float, q: np.ndarray, count: int) -> np.ndarray:
    """Return the odd Hermite coefficients of erf(frequency x) at k = 1, 3, 5 ..., shape (count, N)."""
    root = frequency * np.sqrt(q) * 2 / sqrt(pi)
    return bump_coefficients(frequency**2, q, count) * root / np.sqrt(2 * np.arange(count) + 1)[:, None]


def arcsine_drop(w: float, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """Return A(sqrt(q1 q2)) - A(k), A(k) = asin(w k / sqrt((1 + w q1)(1 + w q2))), without cancellation.

    The sine and the cosine of the difference have terms of one sign in each half of [0, pi].
    """
    s, k = (gap + span) / 2, (span - gap) / 2
    flat = 1 + w * (q1 + q2)
    root1, root = np.sqrt(flat), np.sqrt(flat + w**2 * gap * span)
    product = (1 + w * q1) * (1 + w * q2)
    below = s * root + np.abs(k) * root1
    forward = w * gap * span / np.where(below > 0, below, 1)
    backward = w * below / product
    return np.arctan2(np.where(k > 0, forward, backward), (root1 * root + w**2 * s * k) / product)
