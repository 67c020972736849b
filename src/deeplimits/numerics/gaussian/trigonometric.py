"""Sines, exponentials and Gaussian bumps."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.errors import DescriptionError
from deeplimits.numerics.gaussian.family import Family, root_gap
from deeplimits.numerics.gaussian.hermite import Smooth

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sine(Smooth):
    """phi(x) = amplitude * sin(frequency * x + phase).

    K = a^2/2 (E- - cos(2 phase) E+), dK = a^2 b^2/2 (E- + cos(2 phase) E+), E± = exp(-b^2 (q1 + q2 ± 2k) / 2).

    Source: yang-2019-tensor-programs (Gaussian characteristic function).

    Example:
        >>> value, _ = Sine().diagonal(np.array([1.0])); value.round(6)
        array([0.432332])
    """

    amplitude: float = 1.0
    frequency: float = 1.0
    phase: float = 0.0
    code: ClassVar[int] = 2

    @property
    def constants(self) -> tuple[float, ...]:
        return (float(self.amplitude), float(self.frequency), cos(2 * self.phase))

    @property
    def odd(self) -> bool:
        return abs(sin(self.phase)) < 1e-15

    def function(self, x: np.ndarray) -> np.ndarray:
        return self.amplitude * np.sin(self.frequency * np.asarray(x) + self.phase)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return self.amplitude * self.frequency * np.cos(self.frequency * np.asarray(x) + self.phase)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = 2 * self.frequency**2 * np.asarray(q)
        rise, rest = -np.expm1(-x), np.exp(-x)
        value = self.amplitude**2 / 2 * (rise + 2 * sin(self.phase) ** 2 * rest)
        return value, (self.amplitude * self.frequency) ** 2 / 2 * (rise + 2 * cos(self.phase) ** 2 * rest)

    def mean(self, q: np.ndarray) -> np.ndarray:
        return self.amplitude * sin(self.phase) * np.exp(-(self.frequency**2) / 2 * np.asarray(q))

    def slope(self, q: np.ndarray) -> np.ndarray:
        square = self.frequency**2
        return self.amplitude**2 * square * cos(2 * self.phase) * np.exp(-2 * square * np.asarray(q))

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        a, b, turn = self.constants
        front = k >= 0
        size = torch.where(front, k, -k)
        larger = torch.exp(-(b**2) / 2 * torch.clamp(q1 + q2 - 2 * size, min=0))
        rise = -torch.expm1(-2 * b**2 * size)  # 1 - E+/E-, kept where k is small
        value = 2 * sin(self.phase) ** 2 + torch.where(front, turn * rise, -rise)
        slope = 2 * cos(self.phase) ** 2 - torch.where(front, turn * rise, rise)
        return a**2 / 2 * larger * value, (a * b) ** 2 / 2 * larger * slope

    def coefficients(self, q: np.ndarray, order: int) -> np.ndarray:
        x = self.frequency**2 * np.asarray(q, dtype=np.float64)
        steps = np.sqrt(x) / np.sqrt(np.arange(1, order))[:, None]
        size = np.cumprod(np.concatenate([np.exp(-x / 2)[None, :], steps]), axis=0)
        turns = np.array([sin(self.phase), cos(self.phase), -sin(self.phase), -cos(self.phase)])
        if self.odd:
            turns[0::2] = 0
        return (
            self.amplitude
            * np.sign(self.frequency) ** np.arange(order)[:, None]
            * (turns[np.arange(order) % 4][:, None] * size)
        )

    def unit_order(self, q: np.ndarray) -> int:
        x = self.frequency**2 * q.max()
        return int(x + 10 * np.sqrt(x)) + 30 if x <= 1000 else 0

    def misalignment(self, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        large = self.frequency**2 * np.minimum(q1, q2) > 20
        spread = -np.expm1(-(self.frequency**2) / 2 * root_gap(q1, q2))
        return np.where(large, spread, super().misalignment(q1, np.where(large, q1, q2)))

    def drop(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        square = self.frequency**2
        aligned = np.exp(-square / 2 * root_gap(q1, q2))
        turned = -np.expm1(-square * span) + 2 * cos(self.phase) ** 2 * np.exp(-square * span)
        return self.amplitude**2 / 2 * aligned * -np.expm1(-square * gap) * turned

    def slope_at(self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        a, b, turn = self.constants
        aligned = np.exp(-(b**2) / 2 * root_gap(q1, q2))
        return (a * b) ** 2 / 2 * aligned * (np.exp(-(b**2) * gap) + turn * np.exp(-(b**2) * span))

    def columns(self, q: np.ndarray) -> np.ndarray:
        return np.array(q, dtype=np.float64)[None, :]


@dataclass(frozen=True)
class Exponential(Family):
    """phi(x) = amplitude * exp(rate * x).

    K = a^2 exp(r^2 (q1 + q2 + 2k) / 2), dK = r^2 K.

    Example:
        >>> Exponential(rate=0.5).mean(np.array([0.0]))
        array([1.])
    """

    amplitude: float = 1.0
    rate: float = 1.0
    code: ClassVar[int] = 3

    @property
    def constants(self) -> tuple[float, ...]:
        return (float(self.amplitude), float(self.rate))

    def function(self, x: np.ndarray) -> np.ndarray:
        return self.amplitude * np.exp(self.rate * np.asarray(x))

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return self.rate * self.function(x)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = self.amplitude**2 * np.exp(2 * self.rate**2 * np.asarray(q))
        return value, self.rate**2 * value

    def mean(self, q: np.ndarray) -> np.ndarray:
        return self.amplitude * np.exp(self.rate**2 / 2 * np.asarray(q))

    def slope(self, q: np.ndarray) -> np.ndarray:
        return 2 * self.rate**2 * self.diagonal(q)[0]

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        value = self.amplitude**2 * torch.exp(self.rate**2 / 2 * (q1 + q2 + 2 * k))
        return value, self.rate**2 * value

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scale = self.amplitude**2 * np.exp(self.rate**2 * (q1 + q2))
        exponent = -(self.rate**2) / 2 * (root_gap(q1, q2) + 2 * gap)
        value = scale * np.exp(exponent)
        return -scale * np.expm1(exponent), scale + value, self.rate**2 * value

    def columns(self, q: np.ndarray) -> np.ndarray:
        return np.array(q, dtype=np.float64)[None, :]


@dataclass(frozen=True)
class Bump(Family):
    """phi(x) = exp(-rate * x**2).

    K = D**(-1/2), dK = 4 r^2 k D**(-3/2), D = 1 + 2 r (q1 + q2) + 4 r^2 (q1 q2 - k^2).

    Valid when: rate >= 0.

    Example:
        >>> Bump(0.5).mean(np.array([3.0]))
        array([0.5])
    """

    rate: float = 0.5
    code: ClassVar[int] = 4

    def __post_init__(self) -> None:
        if not self.rate >= 0:
            raise DescriptionError("Bump", f"rate={self.rate!r}", "give a number >= 0")

    @property
    def constants(self) -> tuple[float, ...]:
        return (float(self.rate),)

    def function(self, x: np.ndarray) -> np.ndarray:
        return np.exp(-self.rate * np.asarray(x) ** 2)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return -2 * self.rate * np.asarray(x) * self.function(x)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.asarray(q)
        d = 1 + 4 * self.rate * q
        return 1 / np.sqrt(d), 4 * self.rate**2 * q / (d * np.sqrt(d))

    def mean(self, q: np.ndarray) -> np.ndarray:
        return 1 / np.sqrt(1 + 2 * self.rate * np.asarray(q))

    def slope(self, q: np.ndarray) -> np.ndarray:
        d = 1 + 4 * self.rate * np.asarray(q)
        return -2 * self.rate / (d * np.sqrt(d))

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        w = 2 * self.rate
        d = 1 + w * (q1 + q2) + w**2 * torch.clamp(q1 * q2 - k * k, min=0)
        value = torch.rsqrt(d)
        return value, w**2 * k * value / d

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        w = 2 * self.rate
        flat, rise = 1 + w * (q1 + q2), w**2 * gap * span
        scale = ((1 + 2 * w * q1) * (1 + 2 * w * q2)) ** -0.25
        exponent = np.log1p(-((w * (q1 - q2) / flat) ** 2)) / 4 - np.log1p(rise / flat) / 2
        value = scale * np.exp(exponent)
        return -scale * np.expm1(exponent), scale + value, w**2 / 2 * (span - gap) / (flat + rise) ** 1.5

    def columns(self, q: np.ndarray) -> np.ndarray:
        return np.array(q, dtype=np.float64)[None, :]
