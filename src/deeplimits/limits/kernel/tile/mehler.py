"""The compiled parts of a series step: coefficients between nodes, and Horner's rule on two rows of a tile at once."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.kernel.tile.compiled import address
from deeplimits.limits.kernel.tile.scalar import vectorise


def horner(z, e, d, z1, e1, d1, row, row1, columns, n_stride, n_first, n_count, n_size):
    """e <- sum over m < count of row[first + m] columns[first + m] z**m, d <- its derivative; and for a second row."""
    vectorise()
    for n in range(n_size):
        e[n], d[n], e1[n], d1[n] = 0.0, 0.0, 0.0, 0.0
    m = n_first + n_count - 1
    while m - 3 >= n_first:
        p, q, r, s = m * n_stride, (m - 1) * n_stride, (m - 2) * n_stride, (m - 3) * n_stride
        ap, aq, ar, az = row[m], row[m - 1], row[m - 2], row[m - 3]
        bp, bq, br, bz = row1[m], row1[m - 1], row1[m - 2], row1[m - 3]
        for n in range(n_size):
            x, value, slope = z[n], e[n], d[n]
            slope = slope * x + value
            value = value * x + ap * columns[p + n]
            slope = slope * x + value
            value = value * x + aq * columns[q + n]
            slope = slope * x + value
            value = value * x + ar * columns[r + n]
            d[n] = slope * x + value
            e[n] = value * x + az * columns[s + n]
            x, value, slope = z1[n], e1[n], d1[n]
            slope = slope * x + value
            value = value * x + bp * columns[p + n]
            slope = slope * x + value
            value = value * x + bq * columns[q + n]
            slope = slope * x + value
            value = value * x + br * columns[r + n]
            d1[n] = slope * x + value
            e1[n] = value * x + bz * columns[s + n]
        m -= 4
    while m >= n_first:
        p, ap, bp = m * n_stride, row[m], row1[m]
        for n in range(n_size):
            d[n] = d[n] * z[n] + e[n]
            e[n] = e[n] * z[n] + ap * columns[p + n]
            d1[n] = d1[n] * z1[n] + e1[n]
            e1[n] = e1[n] * z1[n] + bp * columns[p + n]
        m -= 1


def interpolate(out, values, weights, n_order, n_stencil, n_first, n_count):
    """out[first + m] <- sum over s of weights[s] values[s, first + m], m < count."""
    vectorise()
    for n in range(n_first, n_first + n_count):
        out[n] = weights[0] * values[n]
    for s in range(1, n_stencil):
        weight, base = weights[s], s * n_order
        for n in range(n_first, n_first + n_count):
            out[n] += weight * values[base + n]


def cosines(k, top, u, a, n_size):
    """k <- k a u, clamped to [-1, 1]; top <- the largest size."""
    vectorise()
    row, largest = a[0], 0.0
    for n in range(n_size):
        c = min(max(k[n] * (row * u[n]), -1.0), 1.0)
        k[n] = c
        largest = max(largest, abs(c))
    top[0] = largest


def square(k, z, n_size):
    """z <- k**2."""
    vectorise()
    for n in range(n_size):
        z[n] = k[n] * k[n]


def keep(k, e, d, total, slope, n_size):
    """total <- the even part, slope <- its derivative in c, from those in z = c**2."""
    vectorise()
    for n in range(n_size):
        total[n] = e[n]
        slope[n] = 2.0 * k[n] * d[n]


def finish(k, theta, z, e, d, total, slope, u, a, n_size):
    """Add the odd part: k <- total + c e, theta times its derivative in the covariance."""
    vectorise()
    row = a[0]
    for n in range(n_size):
        theta[n] *= (slope[n] + e[n] + 2.0 * z[n] * d[n]) * (row * u[n])
        k[n] = total[n] + k[n] * e[n]


COSINES, INTERPOLATE, SQUARE, HORNER, KEEP, FINISH = range(6)
PARTS = (cosines, interpolate, square, horner, keep, finish)


def addresses() -> np.ndarray:
    """Return the addresses of the compiled parts, in the order in which the strip uses them."""
    return np.array([address(part, np.float64) for part in PARTS])
