"""The compiled parts of a series step: coefficients between nodes, and Horner's rule on two rows of a tile at once."""

from __future__ import annotations

from deeplimits.limits.kernel.tile.scalar import vectorise

UNROLL = 4


def pair(
    k, theta, k1, theta1, z, e, d, z1, e1, d1, even, rise, even1, rise1, row, row1, columns, u, a, a1,
    n_stride, n_gap, n_even, n_odd, n_size,
):  # fmt: skip
    """One series step on two rows of a tile, whose k holds the cosine c; z = c**2.

    e <- sum over m < count of row[first + m] columns[first + m] z**m and d <- its derivative, for the even part
    (first = 0) and for the odd one (first = gap); then k <- even + c odd, theta times its derivative in the covariance.
    The counts are multiples of UNROLL.
    """
    vectorise()
    for n in range(n_size):
        z[n], z1[n] = k[n] * k[n], k1[n] * k1[n]
    for part in range(2):
        first, count = (0, n_even) if part == 0 else (n_gap, n_odd)
        for n in range(n_size):
            e[n], d[n], e1[n], d1[n] = 0.0, 0.0, 0.0, 0.0
        for m in range(first + count - 1, first, -UNROLL):
            p, q, r, s = m * n_stride, (m - 1) * n_stride, (m - 2) * n_stride, (m - 3) * n_stride
            ap, aq, ar, az = row[m], row[m - 1], row[m - 2], row[m - 3]
            bp, bq, br, bz = row1[m], row1[m - 1], row1[m - 2], row1[m - 3]
            for n in range(n_size):
                x, value, slope = z[n], e[n], d[n]
                slope, value = slope * x + value, value * x + ap * columns[p + n]
                slope, value = slope * x + value, value * x + aq * columns[q + n]
                slope, value = slope * x + value, value * x + ar * columns[r + n]
                d[n], e[n] = slope * x + value, value * x + az * columns[s + n]
                x, value, slope = z1[n], e1[n], d1[n]
                slope, value = slope * x + value, value * x + bp * columns[p + n]
                slope, value = slope * x + value, value * x + bq * columns[q + n]
                slope, value = slope * x + value, value * x + br * columns[r + n]
                d1[n], e1[n] = slope * x + value, value * x + bz * columns[s + n]
        if part == 0:
            for n in range(n_size):
                even[n], rise[n] = e[n], 2.0 * k[n] * d[n]
                even1[n], rise1[n] = e1[n], 2.0 * k1[n] * d1[n]
    scale, scale1 = a[0], a1[0]
    for n in range(n_size):
        theta[n] *= (rise[n] + e[n] + 2.0 * z[n] * d[n]) * (scale * u[n])
        k[n] = even[n] + k[n] * e[n]
        theta1[n] *= (rise1[n] + e1[n] + 2.0 * z1[n] * d1[n]) * (scale1 * u[n])
        k1[n] = even1[n] + k1[n] * e1[n]


def spread(positions, out, values, n_rows, n_stride, n_nodes, n_order, n_stencil, n_gap, n_even, n_odd):
    """Coefficients at positions between nodes, by Lagrange's rule: out[row, first + m], m < count, even and odd part.

    `positions` (rows,), `out` (rows, stride), `values` (nodes, order); n_stencil nodes serve each position.
    """
    vectorise()
    for row in range(n_rows):
        node = int(positions[row])
        if n_stencil > 1:
            node = min(max(node - n_stencil // 2 + 1, 0), n_nodes - n_stencil)
        for s in range(n_stencil):
            weight = 1.0
            for m in range(n_stencil):
                if m != s:
                    weight *= (positions[row] - node - m) / (s - m)
            base, to = (node + s) * n_order, row * n_stride
            for part in range(2):
                first, count = (0, n_even) if part == 0 else (n_gap, n_odd)
                if s == 0:
                    for n in range(first, first + count):
                        out[to + n] = weight * values[base + n]
                else:
                    for n in range(first, first + count):
                        out[to + n] += weight * values[base + n]


def cosines(k, top, u, a, n_rows, n_stride, n_size):
    """k <- k a u on each row of a tile, clamped to [-1, 1]; top (rows,) <- the largest size in a row."""
    vectorise()
    for row in range(n_rows):
        factor, largest, start = a[row], 0.0, row * n_stride
        for n in range(n_size):
            c = min(max(k[start + n] * (factor * u[n]), -1.0), 1.0)
            k[start + n] = c
            largest = max(largest, abs(c))
        top[row] = largest
