"""The equation d2K/dsdt = (a V(K) + b) z for activations with one kink, on a grid of cells, LANES grids at a time.

V(K) = E[phi(u) phi(v)] for Gaussian (u, v) of covariance K and of the variances known along each path; phi(x) = c x +
d |x| has V = c^2 K + d^2 (2/pi) |u| |v| (sin t + cos t (pi/2 - t)), t the angle. z = <x', y'> is constant in a cell.
The average of V at the two corners between the first and the last makes the second-order scheme; V at the first corner
makes Euler's, which is the kernel of a network with one layer a cell.

Source: cirone-2023-neural-signature-kernels for the equation; cho-saul-2009, eq. 6; the scheme is derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import pi
from typing import Any

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile.compiled import callable_from_python
from deeplimits.limits.kernel.tile.memory import aligned, filed
from deeplimits.limits.kernel.tile.scalar import angle, inverse_root, vectorise

LANES = 16


@njit(fastmath=True, error_model="numpy")
def _growth(k, root_x, inverse_x, root_y, inverse_y, linear, kink, bias):
    """|x| |y| (linear cosine + kink (sine + cosine (pi/2 - angle))) + bias, from roots of variances and inverses."""
    cosine = min(max(k * (inverse_x * inverse_y), -1.0), 1.0)
    square = (1.0 - cosine) * (1.0 + cosine)
    sine = square * inverse_root(square)
    value = linear * cosine + kink * (sine + cosine * (pi / 2 - angle(cosine, sine)))
    return (root_x * root_y) * value + bias


def _pairs(x, y, z, rx, ry, k, g, west, corner, growth, before, numbers, n_x, n_y, n_d):
    """Row by row: k and g hold K and its growth on the row below; west, corner and their growths follow the cell."""
    vectorise()
    linear, kink, bias, first, sides = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for i in range(n_x):
        for n in range(n_y * LANES):
            z[n] = 0.0
        for j in range(n_y):
            for d in range(n_d):
                for p in range(LANES):
                    z[j * LANES + p] += x[(i * n_d + d) * LANES + p] * y[(j * n_d + d) * LANES + p]
        row = 2 * (i + 1) * LANES
        for p in range(LANES):
            west[p], corner[p], before[p] = k[p], k[p], g[p]
            growth[p] = _growth(k[p], rx[row + p], rx[row + LANES + p], ry[p], ry[LANES + p], linear, kink, bias)
            g[p] = growth[p]
        for j in range(n_y):
            here, column = (j + 1) * LANES, 2 * (j + 1) * LANES
            for p in range(LANES):
                slope = first * before[p] + sides * (growth[p] + g[here + p])
                new = west[p] + k[here + p] - corner[p] + slope * z[j * LANES + p]
                corner[p], before[p], west[p] = k[here + p], g[here + p], new
                root, inverse = ry[column + p], ry[column + LANES + p]
                growth[p] = _growth(new, rx[row + p], rx[row + LANES + p], root, inverse, linear, kink, bias)
                k[here + p], g[here + p] = new, growth[p]


def _own(x, z, r, k, g, new, slope, numbers, n_x, n_d):
    """The triangle below the diagonal of a path against itself; the variance at a row's end is found in two passes."""
    vectorise()
    linear, kink, bias, first, sides = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for i in range(n_x):
        for n in range((i + 1) * LANES):
            z[n] = 0.0
        for j in range(i + 1):
            for d in range(n_d):
                for p in range(LANES):
                    z[j * LANES + p] += x[(i * n_d + d) * LANES + p] * x[(j * n_d + d) * LANES + p]
        end = (i + 1) * LANES
        for p in range(LANES):
            new[end + p] = k[i * LANES + p]
        for _ in range(2):
            for p in range(LANES):
                r[2 * end + p] = np.sqrt(max(new[end + p], 1e-300))
                r[2 * end + LANES + p] = 1.0 / r[2 * end + p]
                new[p] = k[p]
                slope[p] = _growth(k[p], r[2 * end + p], r[2 * end + LANES + p], r[p], r[LANES + p], linear, kink, bias)
            for j in range(i + 1):
                here, after = j * LANES, (j + 1) * LANES
                for p in range(LANES):
                    above, growth = (k[after + p], g[after + p]) if j < i else (new[here + p], slope[here + p])
                    growth = first * g[here + p] + sides * (slope[here + p] + growth)
                    value = new[here + p] + above - k[here + p] + growth * z[here + p]
                    root, inverse = r[2 * after + p], r[2 * after + LANES + p]
                    new[after + p] = value
                    slope[after + p] = _growth(
                        value, r[2 * end + p], r[2 * end + LANES + p], root, inverse, linear, kink, bias
                    )
        for p in range(LANES):
            r[2 * end + p] = np.sqrt(max(new[end + p], 1e-300))
            r[2 * end + LANES + p] = 1.0 / r[2 * end + p]
            slope[end + p] = (linear + kink * pi / 2) * new[end + p] + bias
        for n in range((i + 2) * LANES):
            k[n], g[n] = new[n], slope[n]


@dataclass(frozen=True)
class Equation:
    """What stands in the equation and in its scheme.

    Attributes:
        linear, kink: a c^2 and a d^2 2/pi.
        bias: b.
        start: K where either path starts, above zero.
        first, sides: weights of the growth at the first corner of a cell and at each of the two beside it.
    """

    linear: float
    kink: float
    bias: float
    start: float
    first: float
    sides: float

    @property
    def numbers(self) -> np.ndarray:
        return np.array([self.linear, self.kink, self.bias, self.first, self.sides])

    def growth(self, cosine: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return a V + b at the covariance size * cosine, `size` the product of both standard deviations."""
        angle_ = np.arccos(np.clip(cosine, -1, 1))
        return size * (self.linear * cosine + self.kink * (np.sin(angle_) + cosine * (pi / 2 - angle_))) + self.bias


@cache
def _compiled(walk: Any) -> Any:
    return callable_from_python(walk)


def own(x: np.ndarray, equation: Equation) -> np.ndarray:
    """Return the roots of K(s, s) along paths and their inverses, shape (n + 1, 2, LANES).

    Args:
        x: increments, shape (n, d, LANES).
        equation: what is solved.
    """
    count = len(x) + 1
    roots, root = aligned((count, 2, LANES), float), np.sqrt(max(equation.start, 1e-300))
    roots[0, 0], roots[0, 1] = root, 1 / root
    z, k, g, new, slope = (aligned((count, LANES), float) for _ in range(5))
    k[0], g[0] = equation.start, equation.growth(np.ones(()), np.array(equation.start))
    held = (filed(x), z, roots, k, g, new, slope, equation.numbers)
    _compiled(_own)(*[array.ctypes.data for array in held], len(x), x.shape[1])
    return roots


def pairs(x: np.ndarray, y: np.ndarray, roots: tuple[np.ndarray, np.ndarray], equation: Equation) -> np.ndarray:
    """Return K at the end of both paths, shape (LANES,).

    Args:
        x: increments, shape (n, d, LANES).
        y: likewise, shape (m, d, LANES).
        roots: of both, from `own`.
        equation: what is solved.
    """
    k, g, z = (aligned((len(y) + 1, LANES), float) for _ in range(3))
    moving = [aligned((LANES,), float) for _ in range(4)]
    rx, ry = roots
    k[:] = equation.start
    g[:] = equation.growth(equation.start * rx[0, 1] * ry[:, 1], rx[0, 0] * ry[:, 0])
    held = (filed(x), filed(y), z, filed(rx), filed(ry), k, g, *moving, equation.numbers)
    _compiled(_pairs)(*[array.ctypes.data for array in held], len(x), len(y), x.shape[1])
    return k[-1].copy()
