"""Expectations of products of a smooth activation by Hermite series."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.products import ONE, Pairs, Powers, Products
from deeplimits.numerics.gaussian.quadrature import CAPS, STEPS, basis

Array = NDArray[np.float64]
ORDERS = (128, 256, 512, CAPS[0])
LEFT = 1e-11  # of a product of two series: where they may end
STEP, COARSE = STEPS[2], STEPS[1]
SHIFTS = 4
FEW, CHECKED = 12, ((1, 0), (0, 1), (2, 0), (0, 2), (4, 0))


class HermiteProducts(Products):
    """E[f^(a)(u) g^(b)(v)] = q^(-a/2) q'^(-b/2) sum_n sqrt((n+a)! (n+b)!) / n! f_(n+a) g_(n+b) c^n.

    f_n = E[f(sqrt(q) z) h_n(z)] by the trapezoidal rule (1041 nodes), c the correlation of u and v.

    Source: mehler-1866.
    """

    def __init__(self, family: Family, pairs: Pairs):
        self.family, self.pairs = family, pairs
        self._tables: dict[Powers, Array] = {}
        self._powers: Array = np.ones((1, len(pairs.k)))
        self._left = 0.0
        self._largest = float(np.max(np.abs(pairs.cosine), initial=0.0))

    def of(self, f: Powers, g: Powers = ONE, a: int = 0, b: int = 0) -> Array:
        """Return E[f^(a)(u) g^(b)(v)], shape (M,); see `Products.of`."""
        left, right, pairs = self._table(f), self._table(g), self.pairs
        count = max(0, min(len(left) - a, len(right) - b))
        n = np.arange(count)
        weight = np.ones(count)
        for shift in (a, b):
            for j in range(1, shift + 1):
                weight = weight * np.sqrt(n + j)
        total = np.einsum(
            "n,nm,nm,nm->m", weight, left[a : a + count, pairs.first], right[b : b + count, pairs.second],
            self._cosines(count),
        )  # fmt: skip
        return total / (pairs.q[pairs.first] ** (a / 2) * pairs.q[pairs.second] ** (b / 2))

    def error(self) -> float:
        """Return the largest of what the series leave out, and of the change that half as many nodes make."""
        found = []
        for powers in CHECKED:
            fine, coarse = (_project(self.function(powers), self.pairs.q, step) for step in (STEP, COARSE))
            found.append(np.abs(fine - coarse) / _norm(fine))
        return max(self._left, float(np.max(found, initial=0.0)))

    def function(self, powers: Powers) -> Callable[[Array], Array]:
        """Return phi^i phi'^j."""
        i, j = powers
        family = self.family

        def product(x: Array) -> Array:
            value = np.ones_like(x)
            if i:
                value = value * family.function(x) ** i
            return value * family.derivative(x) ** j if j else value

        return product

    def _cosines(self, count: int) -> Array:
        if len(self._powers) < count:
            cosine = self.pairs.cosine
            self._powers = np.concatenate([np.ones((1, len(cosine))), np.repeat(cosine[None], count - 1, 0)])
            np.cumprod(self._powers, axis=0, out=self._powers)
        return self._powers[:count]

    def _table(self, powers: Powers) -> Array:
        """Return the coefficients, shape (order, N)."""
        if powers == ONE:
            return np.ones((1, len(self.pairs.q)))
        if powers not in self._tables:
            self._tables[powers] = self._coefficients(powers)
        return self._tables[powers]

    def _coefficients(self, powers: Powers) -> Array:
        z, _, table = basis(STEP, CAPS[0])
        values = self.function(powers)(np.sqrt(self.pairs.q)[:, None] * z).T
        found = np.empty((0, len(self.pairs.q)))
        for order in ORDERS:
            found = np.concatenate([found, table[len(found) : order + SHIFTS] @ values])
            left = self._rest(found, order, SHIFTS if sum(powers) == 1 else 0)
            if left <= LEFT:
                break
        else:
            self._left = max(self._left, left)
        return found

    def _rest(self, found: Array, order: int, shifts: int) -> float:
        """Return an estimate of what two such series leave out, with so many derivatives, relative to their norms."""
        last = np.max(np.abs(found[-order // 8 :]), axis=0) / _norm(found)
        return float(np.max(last, initial=0.0)) ** 2 * order ** (shifts / 2 + 1) * self._largest**order


def _norm(table: Array) -> Array:
    norm = np.sqrt(np.einsum("nm,nm->m", table, table))
    return np.where(norm > 0, norm, 1.0)


def _project(function: Callable[[Array], Array], q: Array, step: float) -> Array:
    """Return the first coefficients by a rule of that step, shape (FEW, N)."""
    z, _, table = basis(step, CAPS[0])
    return table[:FEW] @ function(np.sqrt(q)[:, None] * z).T
