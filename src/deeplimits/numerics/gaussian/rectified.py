"""Powers of the two half-lines: ReLU, leaky ReLU, abs, sign, step, rectified monomials."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, gamma, pi, prod, sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.errors import DescriptionError
from deeplimits.numerics.gaussian.family import Family

if TYPE_CHECKING:
    import torch

HIGHEST = 6


@dataclass(frozen=True)
class RectifiedPower(Family):
    """phi(x) = plus * max(x, 0)**power + minus * max(-x, 0)**power.

    K = (q1 q2)**(p/2) / (2 pi) * ((plus^2 + minus^2) J_p(t) + 2 plus minus J_p(pi - t)), cos t = k / sqrt(q1 q2).

    At a zero input t = pi/2; a power of 0 takes its one-sided limit there, and its derivative counts as zero.

    Valid when: power is 0 to 6.
    Source: cho-saul-2009, eq. 4.

    Example:
        >>> RectifiedPower(1, 1.0, 0.0).diagonal(np.array([2.0]))
        (array([1.]), array([0.5]))
    """

    power: int = 1
    plus: float = 1.0
    minus: float = 0.0
    code: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.power not in range(HIGHEST + 1):
            why = f"power={self.power!r}"
            raise DescriptionError("RectifiedPower", why, f"give a whole number from 0 to {HIGHEST}")

    @property
    def constants(self) -> tuple[float, ...]:
        return (float(self.power), float(self.plus), float(self.minus))

    @property
    def homogeneous(self) -> int:
        return self.power

    @property
    def odd(self) -> bool:
        return self.plus == -self.minus

    def _squares(self, real: type = float):
        return real(self.plus) ** 2 + real(self.minus) ** 2

    def function(self, x: np.ndarray) -> np.ndarray:
        up, down = (np.where(y > 0, y, 0) ** self.power * (y > 0) for y in (np.asarray(x), -np.asarray(x)))
        return self.plus * up + self.minus * down

    def derivative(self, x: np.ndarray) -> np.ndarray:
        if self.power == 0:
            return np.zeros_like(x)
        return RectifiedPower(self.power - 1, self.power * self.plus, -self.power * self.minus).function(x)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, p = np.asarray(q), self.power
        squares = self._squares(q.dtype.type)
        value = squares * moment(p) / 2 * q**p
        if p == 0:
            return value, np.zeros_like(value)
        return value, squares * p**2 * moment(p - 1) / 2 * q ** (p - 1)

    def mean(self, q: np.ndarray) -> np.ndarray:
        p = self.power
        half_line = 2 ** (p / 2 - 1) * gamma((p + 1) / 2) / sqrt(pi)
        return (self.plus + self.minus) * half_line * np.asarray(q) ** (p / 2)

    def slope(self, q: np.ndarray) -> np.ndarray:
        q, p = np.asarray(q), self.power
        return p * self._squares() * moment(p) / 2 * q ** max(p - 1, 0)

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        from deeplimits.numerics.gaussian.arccosine import arc_cosine

        product = q1 * q2
        safe = product > 0
        s = torch.sqrt(torch.where(safe, product, 1))
        c = torch.where(safe, k, 0) / s
        same, cross, p = self._squares() / (2 * pi), self.plus * self.minus / pi, self.power
        value = s**p * (same * arc_cosine(c, p) + cross * arc_cosine(-c, p))
        if p > 0:
            value = torch.where(safe, value, 0)
        if p == 0:
            return value, torch.zeros_like(value)
        slope = p**2 * s ** (p - 1) * (same * arc_cosine(c, p - 1) - cross * arc_cosine(-c, p - 1))
        return value, slope if p == 1 else torch.where(safe, slope, 0)

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gap, span = np.maximum(gap, 0), np.maximum(span, 0)
        total, least, real = gap + span, np.minimum(gap, span), gap.dtype.type
        x = np.where(total > 0, least / np.where(total > 0, total, 1), real(0.5))
        s, front, p = np.sqrt(q1) * np.sqrt(q2), gap <= span, self.power
        plus, minus, squares = real(self.plus), real(self.minus), self._squares(real)
        scale, twice = s**p * moment(p) / 2, 2 * plus * minus
        lost, back = pieces(p, x)
        close = squares * lost - twice * back
        down = scale * np.where(front, close, (plus - minus) ** 2 + twice * lost - squares * back)
        up = scale * np.where(front, 2 * squares - close, (plus + minus) ** 2 - twice * lost + squares * back)
        if p == 0:
            return down, up, np.zeros_like(down)
        lost, back = pieces(p - 1, x)
        same, across = np.where(front, 1 - lost, back), np.where(front, back, 1 - lost)
        slope = p**2 * s ** (p - 1) * moment(p - 1) / 2 * (squares * same - twice * across)
        return down, up, slope

    def columns(self, q: np.ndarray) -> np.ndarray:
        root = np.sqrt(q)
        return np.stack([root, np.divide(1, root, out=np.zeros_like(root), where=root > 0)])


def moment(power: int) -> int:
    """Return (2 power - 1)!!, the moment E[z**(2 power)] of a standard normal z."""
    return prod(range(2 * power - 1, 0, -2))


def pieces(power: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (1 - J_p(t) / J_p(0), J_p(pi - t) / J_p(0)) at x = sin(t/2)**2 <= 1/2, each with full relative accuracy.

    J_p(pi - t) = p!^2 2^(2p+1) / (2p+1)!! x^(p+1/2) F(1/2, 1/2; p + 3/2; x), a series of positive terms, and
    J_p(t) = pi E[u^p v^p] - (-1)^p J_p(pi - t), where 1 - E[u^p v^p] / E[u^(2p)] is 2x times a polynomial in cos t.

    Shapes: x of any shape and precision (np.longdouble included), and so the results.
    Source: cho-saul-2009, eq. 4, with the integral p! int_0^t (cos s - cos t)^p ds of Mehler and Dirichlet.
    """
    terms, polynomial, front = _reals(power, x.dtype.type)
    series = np.ones_like(x)
    for ratio in terms:
        series *= ratio
        series *= x
        series += 1
    back = front * x**power * np.sqrt(x) * series
    c, smooth = 1 - 2 * x, np.zeros_like(x)
    for coefficient in polynomial:
        smooth = smooth * c + coefficient
    return 2 * x * smooth + (-1) ** power * back, back


@cache
def _reals(power: int, real: type[np.floating]) -> tuple[list[np.floating], list[np.floating], np.floating]:
    """Return the ratios of the series, the coefficients of the polynomial and the series' factor, rounded once."""
    terms, polynomial = _tables(power)
    front = Fraction(factorial(power) ** 2 * 2 ** (2 * power + 1), moment(power + 1) * moment(power))
    rounded = [[real(f.numerator) / real(f.denominator) for f in row] for row in (terms, polynomial, [front])]
    return rounded[0], rounded[1], rounded[2][0] / real("3.14159265358979323846264338327950288")


@cache
def _tables(power: int) -> tuple[list[Fraction], list[Fraction]]:
    terms = [Fraction((2 * m + 1) ** 2, 2 * (m + 1) * (2 * m + 2 * power + 3)) for m in range(60)]
    weights = [Fraction(0)] * (power + 1)
    for j in range(power, -1, -2):
        m = (power - j) // 2
        weights[j] = Fraction(factorial(power) ** 2, factorial(j) * factorial(m) ** 2 * 4**m * moment(power))
    return terms[::-1], [sum(weights[i + 1 :], Fraction(0)) for i in range(power)][::-1]
