"""The equation d2K/dsdt = (a V(K) + b) z for activations with one kink, on a grid of cells, LANES grids at a time.

V(K) = E[phi(u) phi(v)] for Gaussian (u, v) of covariance K and of the variances known along each path; phi(x) = c x +
d |x| has V = c^2 K + d^2 (2/pi) |u| |v| (sin t + cos t (pi/2 - t)), t the angle. z = <x', y'> is constant in a cell.
V at the first corner of a cell makes Euler's scheme, which is the kernel of a network with one layer a cell. The
average of V at the corners beside it makes a scheme of second order, and z^2/12 dV/dK times V at three corners removes
most of its error: for V = K, all that the next power of z adds.

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

LANES, PASSES = 16, 3
EULER, SECOND = (1.0, 0.0, 0.0), (0.0, 1 / 2, 1 / 24)


@njit(fastmath=True, error_model="numpy")
def _growth(k, root_x, inverse_x, root_y, inverse_y, numbers):
    """G = |x| |y| (linear cosine + kink (sine + cosine (pi/2 - angle))) + bias and dG/dk, from roots of variances."""
    cosine = min(max(k * (inverse_x * inverse_y), -1.0), 1.0)
    square = (1.0 - cosine) * (1.0 + cosine)
    sine = square * inverse_root(square)
    slope = numbers[0] + numbers[1] * (pi / 2 - angle(cosine, sine))
    return (root_x * root_y) * (slope * cosine + numbers[1] * sine) + numbers[2], slope


@njit(fastmath=True, error_model="numpy")
def _move(corner, left, above, slopes, z, numbers):
    """What the growth at three corners adds in a cell; `slopes` is the sum of dG/dk at `left` and `above`."""
    sides = left + above
    return (numbers[3] * corner + numbers[4] * sides + numbers[5] * z * slopes * (sides + corner)) * z


def _pairs(x, y, z, rx, ry, k, g, h, west, corner, growth, before, slope, numbers, n_x, n_y, n_d):
    """Row by row: k, g and h hold K, its growth and that one's slope on the row below; the others follow the cell."""
    vectorise()
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
            root, inverse = rx[row + p], rx[row + LANES + p]
            growth[p], slope[p] = _growth(k[p], root, inverse, ry[p], ry[LANES + p], numbers)
            g[p], h[p] = growth[p], slope[p]
        for j in range(n_y):
            here, column = (j + 1) * LANES, 2 * (j + 1) * LANES
            for p in range(LANES):
                moved = _move(before[p], growth[p], g[here + p], slope[p] + h[here + p], z[j * LANES + p], numbers)
                new = west[p] + k[here + p] - corner[p] + moved
                corner[p], before[p], west[p] = k[here + p], g[here + p], new
                root, inverse = rx[row + p], rx[row + LANES + p]
                growth[p], slope[p] = _growth(new, root, inverse, ry[column + p], ry[column + LANES + p], numbers)
                k[here + p], g[here + p], h[here + p] = new, growth[p], slope[p]


def _own(x, z, r, k, g, h, new, growth, slope, numbers, n_x, n_d):
    """The triangle below the diagonal of a path against itself; the variance at a row's end is found in passes."""
    vectorise()
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
        for _ in range(PASSES):
            for p in range(LANES):
                r[2 * end + p] = np.sqrt(max(new[end + p], 1e-300))
                r[2 * end + LANES + p] = 1.0 / r[2 * end + p]
                new[p] = k[p]
                root, inverse = r[2 * end + p], r[2 * end + LANES + p]
                growth[p], slope[p] = _growth(k[p], root, inverse, r[p], r[LANES + p], numbers)
            for j in range(i + 1):
                at, on = j * LANES, (j + 1) * LANES
                for p in range(LANES):
                    above = (k[on + p], g[on + p], h[on + p]) if j < i else (new[at + p], growth[at + p], slope[at + p])
                    moved = _move(g[at + p], growth[at + p], above[1], slope[at + p] + above[2], z[at + p], numbers)
                    value = new[at + p] + above[0] - k[at + p] + moved
                    new[on + p] = value
                    root, inverse = r[2 * end + p], r[2 * end + LANES + p]
                    found = _growth(value, root, inverse, r[2 * on + p], r[2 * on + LANES + p], numbers)
                    growth[on + p], slope[on + p] = found
        for p in range(LANES):
            r[2 * end + p] = np.sqrt(max(new[end + p], 1e-300))
            r[2 * end + LANES + p] = 1.0 / r[2 * end + p]
            slope[end + p] = numbers[0] + numbers[1] * pi / 2
            growth[end + p] = slope[end + p] * new[end + p] + numbers[2]
        for n in range((i + 2) * LANES):
            k[n], g[n], h[n] = new[n], growth[n], slope[n]


@dataclass(frozen=True)
class Equation:
    """What stands in the equation and in its scheme.

    Attributes:
        linear, kink: a c^2 and a d^2 2/pi.
        bias: b.
        start: K where either path starts.
        scheme: EULER or SECOND: weights of the growth at the first corner of a cell, of that at each of the two beside
            it, and of its change within the cell.
    """

    linear: float
    kink: float
    bias: float
    start: float
    scheme: tuple[float, float, float]

    @property
    def numbers(self) -> np.ndarray:
        return np.array([self.linear, self.kink, self.bias, *self.scheme])

    def growth(self, cosine: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a V + b and its slope at the covariance size * cosine, `size` the product of standard deviations."""
        angle_ = np.arccos(np.clip(cosine, -1, 1))
        slope = self.linear + self.kink * (pi / 2 - angle_)
        return size * (slope * cosine + self.kink * np.sin(angle_)) + self.bias, slope


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
    z, k, g, h, new, growth, slope = (aligned((count, LANES), float) for _ in range(7))
    k[0] = equation.start
    g[0], h[0] = equation.growth(np.ones(()), np.array(equation.start))
    held = (filed(x), z, roots, k, g, h, new, growth, slope, equation.numbers)
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
    k, g, h, z = (aligned((len(y) + 1, LANES), float) for _ in range(4))
    moving = [aligned((LANES,), float) for _ in range(5)]
    rx, ry = roots
    k[:] = equation.start
    g[:], h[:] = equation.growth(equation.start * rx[0, 1] * ry[:, 1], rx[0, 0] * ry[:, 0])
    held = (filed(x), filed(y), z, filed(rx), filed(ry), k, g, h, *moving, equation.numbers)
    _compiled(_pairs)(*[array.ctypes.data for array in held], len(x), len(y), x.shape[1])
    return k[-1].copy()
