"""Expectations of products of powers of the two half-lines (ReLU, leaky ReLU, abs ...), in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb, gamma, pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.gaussian.products import ONE, Pairs, Powers, Products
from deeplimits.numerics.gaussian.rectified import RectifiedPower

Array = NDArray[np.float64]
NODES = 40
NEAREST = 2e-4
"""Smallest angle between u and v, or u and -v: where rounding, divided by its cube, is as large as the angle."""


@dataclass(frozen=True)
class Piece:
    """plus max(x, 0)^power + minus max(-x, 0)^power."""

    plus: float
    minus: float
    power: int

    def derivative(self, order: int) -> Piece:
        """Return the derivative of an order <= power."""
        factor = prod(range(self.power - order + 1, self.power + 1))
        return Piece(factor * self.plus, (-1) ** order * factor * self.minus, self.power - order)

    @property
    def jump(self) -> float:
        """The factor of the delta function in the derivative of order power + 1."""
        last = self.derivative(self.power)
        return last.plus - last.minus

    def mean(self, order: int, q: Array) -> Array:
        """Return E[f^(order)(w)] for w ~ N(0, q)."""
        if order > self.power:
            return self.jump * (-1) ** (order - self.power - 1) * density(order - self.power - 1, q)
        piece = self.derivative(order)
        p = piece.power
        return (piece.plus + piece.minus) * 2 ** (p / 2 - 1) * gamma((p + 1) / 2) / sqrt(pi) * q ** (p / 2)


def density(order: int, q: Array) -> Array:
    """Return the derivative of that order, at zero, of the density of N(0, q)."""
    if order % 2:
        return np.zeros_like(q)
    return (-1) ** (order // 2) * prod(range(order - 1, 0, -2)) * q ** (-order / 2) / np.sqrt(2 * pi * q)


class HalfLineProducts(Products):
    """E[f^(a)(u) g^(b)(v)] for phi a power of the half-lines, where f and g are such powers as well.

    E[u^a v^b; u, v > 0] = q^(a/2) q'^(b/2) 2^((a+b)/2) Gamma((a+b)/2 + 1) / (2 pi)
    int_(t - pi/2)^(pi/2) cos^a(s) cos^b(s - t) ds, t the angle; derivatives beyond a kink are delta functions, whose
    expectations are derivatives at zero of the density times the mean given u.

    Valid when: t and pi - t are above 2e-4, to which smaller angles are raised.
    Source: cho-saul-2009 (the integral); derived (the delta functions).
    """

    def __init__(self, family: RectifiedPower, pairs: Pairs):
        self.family = family
        self.u, self.v = pairs.q[pairs.first], pairs.q[pairs.second]
        self.angle = np.clip(np.arccos(pairs.cosine), NEAREST, pi - NEAREST)
        self.k = np.sqrt(self.u * self.v) * np.cos(self.angle)
        self._integrals: dict[tuple[int, int, bool], Array] = {}

    def piece(self, powers: Powers) -> Piece:
        """Return phi^i phi'^j; the derivative of a step counts as zero."""
        i, j = powers
        phi = Piece(float(self.family.plus), float(self.family.minus), self.family.power)
        if not j:
            return Piece(phi.plus**i, phi.minus**i, phi.power * i)
        if not phi.power:
            return Piece(0.0, 0.0, 0)
        slope = phi.derivative(1)
        return Piece(phi.plus**i * slope.plus**j, phi.minus**i * slope.minus**j, phi.power * i + slope.power * j)

    def of(self, f: Powers, g: Powers = ONE, a: int = 0, b: int = 0) -> Array:
        """Return E[f^(a)(u) g^(b)(v)], shape (M,); see `Products.of`."""
        left, right = self.piece(f), self.piece(g)
        if g == ONE:
            return left.mean(a, self.u) if b == 0 else np.zeros_like(self.u)
        if f == ONE:
            return right.mean(b, self.v) if a == 0 else np.zeros_like(self.v)
        if a > left.power:
            return self._kink(left, right, a, b, self.u, self.v)
        if b > right.power:
            return self._kink(right, left, b, a, self.v, self.u)
        return self._smooth(left.derivative(a), right.derivative(b))

    def _kink(self, left: Piece, right: Piece, a: int, b: int, u: Array, v: Array) -> Array:
        """Return E[jump delta^(r)(u) g^(b)(v)], r = a - power - 1."""
        r, rest = a - left.power - 1, v * np.sin(self.angle) ** 2
        terms = (comb(r, j) * density(r - j, u) * (self.k / u) ** j * right.mean(b + j, rest) for j in range(r + 1))
        return left.jump * (-1) ** r * sum(terms, np.zeros_like(u))

    def _smooth(self, left: Piece, right: Piece) -> Array:
        same = left.plus * right.plus + left.minus * right.minus
        across = left.plus * right.minus + left.minus * right.plus
        a, b = left.power, right.power
        total = same * self._integral(a, b, False) + across * self._integral(a, b, True)
        return self.u ** (a / 2) * self.v ** (b / 2) * total

    def _integral(self, a: int, b: int, turned: bool) -> Array:
        key = (a, b, turned)
        if key not in self._integrals:
            angle = pi - self.angle if turned else self.angle
            nodes, weights = _legendre()
            half = (pi - angle)[:, None] / 2
            s = angle[:, None] / 2 + half * nodes
            values = np.cos(s) ** a * np.cos(s - angle[:, None]) ** b
            scale = 2 ** ((a + b) / 2) * gamma((a + b) / 2 + 1) / (2 * pi)
            self._integrals[key] = scale * half[:, 0] * (values @ weights)
        return self._integrals[key]


@cache
def _legendre() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(NODES)
