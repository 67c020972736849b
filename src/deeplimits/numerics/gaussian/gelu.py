"""The exact GELU."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.numerics.gaussian.erf import arcsine_drop
from deeplimits.numerics.gaussian.hermite import Smooth, bump_coefficients, geometric_order

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Gelu(Smooth):
    """phi(x) = x P(z <= x) for a standard normal z.

    K = k G + S (q1 q2 - k^2 + k^2 R), dK = G + k S (R + 1/D), with D = (1 + q1)(1 + q2) - k^2,
    G = 1/4 + asin(k / sqrt((1 + q1)(1 + q2))) / (2 pi), S = 1 / (2 pi sqrt(D)), R = 1/(1 + q1) + 1/(1 + q2).

    Source: tsuchida-2021-avoiding; by Stein's lemma from the Gaussian cumulative distribution's K.

    Example:
        >>> Gelu().slope(np.array([0.0]))
        array([0.25])
    """

    code: ClassVar[int] = 5

    def function(self, x: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return np.asarray(x) * ndtr(x)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        x = np.asarray(x)
        return ndtr(x) + x * np.exp(-(x**2) / 2) / sqrt(2 * pi)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.asarray(q)
        root = np.sqrt(1 + 2 * q)
        g, s = 0.25 + np.arctan2(q, root) / (2 * pi), 1 / (2 * pi * root)
        return q * g + 2 * s * q**2 / (1 + q), g + q * s * (2 / (1 + q) + 1 / root**2)

    def mean(self, q: np.ndarray) -> np.ndarray:
        q = np.asarray(q)
        return q / np.sqrt(2 * pi * (1 + q))

    def slope(self, q: np.ndarray) -> np.ndarray:
        q = np.asarray(q)
        root = np.sqrt(1 + 2 * q)
        g = 0.25 + np.arctan2(q, root) / (2 * pi)
        t = q / (pi * (1 + q) * root)
        return g + t / 2 + t * (2 - q / (1 + q) - q / (1 + 2 * q))

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        gram = torch.clamp(q1 * q2 - k * k, min=0)
        d = 1 + q1 + q2 + gram
        root = torch.sqrt(d)
        g, s = 0.25 + torch.atan2(k, root) / (2 * pi), 1 / (2 * pi * root)
        r = 1 / (1 + q1) + 1 / (1 + q2)
        return k * g + s * (gram + k * k * r), g + k * s * (r + 1 / d)

    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        result, even = np.zeros((order, len(q))), np.arange(2, order, 2)[:, None]
        density = bump_coefficients(0.5, q, (order + 1) // 2) / sqrt(2 * pi)
        result[0], result[1] = q * density[0], np.sqrt(q) / 2
        fall = (even + q) / (1 + q)
        result[2::2] = q * density[: len(even)] * fall / np.sqrt(even * (even - 1))
        return result

    def unit_order(self, q: np.ndarray) -> int:
        return geometric_order(q.max() / (1 + q.max()))

    def drop(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        s, k, gram = (gap + span) / 2, (span - gap) / 2, gap * span
        flat = 1 + q1 + q2
        root1, root = np.sqrt(flat), np.sqrt(flat + gram)
        r = 1 / (1 + q1) + 1 / (1 + q2)
        g = 0.25 + np.arctan2(s, root1) / (2 * pi)
        turned = k * arcsine_drop(1.0, gap, span, q1, q2)
        bent = gram * (r * s**2 / (root1 * root * (root1 + root)) - (1 - r) / root)
        return gap * g + (turned + bent) / (2 * pi)

    def slope_at(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        k, d = (span - gap) / 2, 1 + q1 + q2 + gap * span
        root = np.sqrt(d)
        r = 1 / (1 + q1) + 1 / (1 + q2)
        return 0.25 + np.arctan2(k, root) / (2 * pi) + k / (2 * pi * root) * (r + 1 / d)

    def columns(self, q: np.ndarray) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        return np.stack([q, 1 / (1 + q)])
