"""Expectations of products of an activation, its derivative and their powers, over pairs of correlated Gaussians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.rectified import RectifiedPower

Array = NDArray[np.float64]
Powers = tuple[int, int]
ONE: Powers = (0, 0)


@dataclass(frozen=True, eq=False)
class Pairs:
    """M pairs (u, v) out of N Gaussians.

    Attributes:
        q: variances of the N Gaussians, shape (N,), positive.
        first, second: which of them u and v are, shape (M,).
        k: covariances of u and v, shape (M,).
    """

    q: Array
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    k: Array

    @property
    def cosine(self) -> Array:
        """Correlation of u and v, shape (M,), in [-1, 1]."""
        return np.clip(self.k / np.sqrt(self.q[self.first] * self.q[self.second]), -1.0, 1.0)


class Products(ABC):
    """E[f^(a)(u) g^(b)(v)] with f = phi^i phi'^j, g = phi^k phi'^l, over pairs (u, v) of Gaussians.

    Derivatives are taken as of distributions, so that the derivatives in the covariances follow for any phi:
    d/dq_u = D_u^2 / 2, d/dq_v = D_v^2 / 2 and d/dk = D_u D_v.
    """

    @abstractmethod
    def of(self, f: Powers, g: Powers = ONE, a: int = 0, b: int = 0) -> Array:
        """Return E[f^(a)(u) g^(b)(v)], shape (M,).

        Args:
            f: (i, j) of f = phi^i phi'^j.
            g: (k, l) of g = phi^k phi'^l; (0, 0) is the constant 1.
            a: order of the derivative of f.
            b: order of the derivative of g; at most 4 together.
        """

    def error(self) -> float:
        """Return an estimate of the largest error, relative to its scale; 0 for a closed form."""
        return 0.0


def products(family: Family, pairs: Pairs) -> Products:
    """Return the expectations of products for an activation: half-line powers in closed form, others by Hermite series.

    Source: mehler-1866; cho-saul-2009.

    Example:
        >>> one = Pairs(np.array([2.0]), np.array([0]), np.array([0]), np.array([2.0]))
        >>> round(float(products(RectifiedPower(1, 1.0, 0.0), one).of((4, 0))[0]), 12)
        6.0
    """
    from deeplimits.numerics.gaussian.products_half_line import HalfLineProducts
    from deeplimits.numerics.gaussian.products_hermite import HermiteProducts

    kind = HalfLineProducts if isinstance(family, RectifiedPower) else HermiteProducts
    return kind(family, pairs)  # type: ignore[arg-type]
