"""Gaussian expectations that a pair of inputs needs: kernels, their derivatives, and fourth moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.products import Pairs, Powers, Products, products

Array = NDArray[np.float64]
ENTRIES = ((0, 0), (1, 1), (0, 1))
PHI, SLOPE = (1, 0), (0, 1)
IN_K = ((0.5, 2, 0), (0.5, 0, 2), (1.0, 1, 1))
"""Derivatives in k_11, k_22 and k_12: a factor, and derivatives in u and v."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The inputs of M pairs, gathered by their variance.

    Attributes:
        one: a place of each group in the first inputs followed by the second ones, shape (N,).
        first, second: the group of each pair's first and second input, shape (M,).
    """

    one: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @classmethod
    def of(cls, k: Array) -> Groups:
        """Return the groups of covariances (M, 3)."""
        _, one, group = np.unique(np.concatenate([k[:, 0], k[:, 1]]), return_index=True, return_inverse=True)
        return cls(one, group[: len(k)], group[len(k) :])


@dataclass(frozen=True, eq=False)
class Moments:
    """Expectations over (u, v) ~ N(0, k) of M pairs.

    Attributes:
        s, g: <phi phi>_p and <phi' phi'>_p, shape (M, 3).
        slope, slope_slope: their derivatives in k_q, shape (M, 3, 3).
        bend, slope_bend: their second derivatives in k_q, k_r, shape (M, 3, 3, 3).
        joint: E of products of (phi phi)_p and (phi' phi')_p, p = 0..2 each, shape (M, 6, 6).
        turn: <d_e (phi'_a phi_c)>, index (M, a, c, e), shape (M, 2, 2, 2).
        error: estimate of the largest relative error.
    """

    s: Array
    g: Array
    slope: Array
    slope_slope: Array
    bend: Array
    slope_bend: Array
    joint: Array
    turn: Array
    error: float

    def full(self, kind: str) -> Array:
        """Return <f_a f_b g_c g_d> for all inputs a, b, c, d, shape (M, 2, 2, 2, 2).

        Args:
            kind: "gs" for f = phi', g = phi, or "gg" for both phi'.
        """
        place = np.array([[0, 2], [2, 1]])
        left = 3 + place[:, :, None, None]
        right = (3 if kind == "gg" else 0) + place[None, None]
        return self.joint[:, left, right]


def moments(family: Family, k: Array, groups: Groups) -> Moments:
    """Return the expectations at covariances k, shape (M, 3).

    Example:
        >>> from deeplimits.numerics.gaussian.linear import Linear
        >>> k = np.array([[1.0, 2.0, 0.5]])
        >>> moments(Linear(), k, Groups.of(k)).joint[0, :3, :3].round(12).tolist()
        [[3.0, 2.5, 1.5], [2.5, 12.0, 3.0], [1.5, 3.0, 2.5]]
    """
    own = np.concatenate([k[:, 0], k[:, 1]])[groups.one]
    given = products(family, Pairs(own, groups.first, groups.second, k[:, 2]))
    s, slope, bend = _derivatives(given, PHI)
    g, slope_slope, slope_bend = _derivatives(given, SLOPE)
    return Moments(s, g, slope, slope_slope, bend, slope_bend, _joint(given), _turn(given), given.error())


def _derivatives(given: Products, f: Powers) -> tuple[Array, Array, Array]:
    """Return <f f>_p, its gradient and its Hessian in k."""
    twice = (2 * f[0], 2 * f[1])
    both = given.of(f, f)
    value = np.stack([given.of(twice), given.of((0, 0), twice), both], axis=1)
    first = np.zeros((len(both), 3, 3))
    second = np.zeros((len(both), 3, 3, 3))
    first[:, 0, 0], second[:, 0, 0, 0] = given.of(twice, a=2) / 2, given.of(twice, a=4) / 4
    first[:, 1, 1], second[:, 1, 1, 1] = given.of((0, 0), twice, b=2) / 2, given.of((0, 0), twice, b=4) / 4
    for q, (factor, a, b) in enumerate(IN_K):
        first[:, 2, q] = factor * given.of(f, f, a, b)
        for r, (other, c, d) in enumerate(IN_K[: q + 1]):
            second[:, 2, q, r] = second[:, 2, r, q] = factor * other * given.of(f, f, a + c, b + d)
    return value, first, second


def _joint(given: Products) -> Array:
    """Return E of products of (phi phi)_p and (phi' phi')_p, shape (M, 6, 6)."""
    factors = [[(place, kind) for place in entry] for kind in (PHI, SLOPE) for entry in ENTRIES]
    known: dict[tuple[Powers, Powers], Array] = {}

    def expectation(left: list[tuple[int, Powers]], right: list[tuple[int, Powers]]) -> Array:
        sides = [[0, 0], [0, 0]]
        for place, (phi, slope) in left + right:
            sides[place][0] += phi
            sides[place][1] += slope
        key = (sides[0][0], sides[0][1]), (sides[1][0], sides[1][1])
        if key not in known:
            known[key] = given.of(*key)
        return known[key]

    return np.stack([np.stack([expectation(p, q) for q in factors], axis=1) for p in factors], axis=1)


def _turn(given: Products) -> Array:
    """Return <d_e (phi'_a phi_c)>, shape (M, 2, 2, 2)."""
    both = given.of(SLOPE, SLOPE)
    found = np.zeros((len(both), 2, 2, 2))
    found[:, 0, 0, 0] = given.of((1, 1), a=1)
    found[:, 1, 1, 1] = given.of((0, 0), (1, 1), b=1)
    found[:, 0, 1, 0], found[:, 0, 1, 1] = given.of(SLOPE, PHI, 1, 0), both
    found[:, 1, 0, 1], found[:, 1, 0, 0] = given.of(PHI, SLOPE, 0, 1), both
    return found
