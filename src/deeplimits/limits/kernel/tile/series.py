"""Mehler series in the tile engine: K = sum over k of a_k(q) a_k(q') c**k, for activations without a closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile.blocks import FAST
from deeplimits.limits.kernel.tile.interpreter import COLUMNS, SERIES, load, reflect, run, store, whole
from deeplimits.limits.kernel.tile.memory import LANES, aligned
from deeplimits.limits.kernel.tile.scalar import wide_vectors



class Tables(NamedTuple):
    """The tables of coefficients and where the tape is cut.

    Attributes:
        values: all tables, one after the other, each (nodes, even + odd) in one row.
        layout: (tables, 5): start in `values`, even count, odd count, stencil, nodes.
        levels, orders: (levels,) and (tables, levels): number of coefficients for each largest |cosine|.
        segments: the steps at which the tape is cut, its end included: a series step opens a segment.
    """

    values: np.ndarray
    layout: np.ndarray
    levels: np.ndarray
    orders: np.ndarray
    segments: np.ndarray


class Scratch(NamedTuple):
    """Coefficients of a tile: of its rows (rows + 1, order), of its columns (order, COLUMNS), and some being turned.

    `largest` (rows + 1,) holds the largest |cosine| of each row.
    """

    largest: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    turned: np.ndarray


def scratch(tables: Tables, rows: int) -> Scratch:
    """Return the scratch of one thread for tiles of `rows` rows."""
    order = int(np.max(tables.layout[:, 1] + tables.layout[:, 2]))
    shapes = ((rows + 1,), (rows + 1, order), (order, COLUMNS), (LANES, order))
    return Scratch(*(aligned(shape, np.float64) for shape in shapes))


@njit(**FAST)
def _order(tables, table, cosine):
    n = 0
    while n < tables.levels.shape[0] - 1 and tables.levels[n] < cosine:
        n += 1
    return tables.orders[table, n]


@njit(**FAST)
def _cosines(k, u, row, size):
    """k <- k row u, clamped to [-1, 1]; return the largest size."""
    wide_vectors()
    top = 0.0
    for n in range(size):
        c = min(max(k[n] * (row * u[n]), -1.0), 1.0)
        k[n] = c
        top = max(top, abs(c))
    return top


@njit(**FAST)
def _interpolate(tables, table, position, even, odd, out):
    """Write the coefficients at a position between nodes: the first `even`, and from the even count on, `odd`."""
    wide_vectors()
    start, gap, odds, stencil, nodes = tables.layout[table]
    order, node = gap + odds, np.int64(position)
    if stencil > 1:
        node = min(max(node - stencil // 2 + 1, 0), nodes - stencil)
    for s in range(stencil):
        weight = 1.0
        for m in range(stencil):
            if m != s:
                weight *= (position - node - m) / (s - m)
        base = start + (node + s) * order
        if s == 0:
            out[:even], out[gap : gap + odd] = 0.0, 0.0
        for n in range(even):
            out[n] += weight * tables.values[base + n]
        for n in range(gap, gap + odd):
            out[n] += weight * tables.values[base + n]


@njit(**FAST)
def _fill_columns(tables, table, positions, j0, size, even, odd, scratch):
    wide_vectors()
    gap = tables.layout[table, 1]
    for left in range(0, size, LANES):
        for n in range(LANES):
            _interpolate(tables, table, positions[j0 + left + n], even, odd, scratch.turned[n])
        for part in range(2):
            first, last = (0, even) if part == 0 else (gap, gap + odd)
            for m in range(first, last):
                for n in range(LANES):
                    scratch.columns[m, left + n] = scratch.turned[n, m]


@njit(**FAST)
def _horner(z, e, d, other_z, other_e, other_d, row, other, columns, first, count, size):
    """e <- sum over m < count of row[first + m] columns[first + m] z**m, d <- its derivative; and for another row."""
    wide_vectors()
    for n in range(size):
        e[n], d[n], other_e[n], other_d[n] = 0.0, 0.0, 0.0, 0.0
    m = first + count - 1
    while m - 3 >= first:
        p, q, r, s = row[m], row[m - 1], row[m - 2], row[m - 3]
        p1, q1, r1, s1 = other[m], other[m - 1], other[m - 2], other[m - 3]
        cp, cq, cr, cs = columns[m], columns[m - 1], columns[m - 2], columns[m - 3]
        for n in range(size):
            x, value, slope = z[n], e[n], d[n]
            slope = slope * x + value
            value = value * x + p * cp[n]
            slope = slope * x + value
            value = value * x + q * cq[n]
            slope = slope * x + value
            value = value * x + r * cr[n]
            d[n] = slope * x + value
            e[n] = value * x + s * cs[n]
            x, value, slope = other_z[n], other_e[n], other_d[n]
            slope = slope * x + value
            value = value * x + p1 * cp[n]
            slope = slope * x + value
            value = value * x + q1 * cq[n]
            slope = slope * x + value
            value = value * x + r1 * cr[n]
            other_d[n] = slope * x + value
            other_e[n] = value * x + s1 * cs[n]
        m -= 4
    while m >= first:
        p, p1, cp = row[m], other[m], columns[m]
        for n in range(size):
            d[n] = d[n] * z[n] + e[n]
            e[n] = e[n] * z[n] + p * cp[n]
            other_d[n] = other_d[n] * other_z[n] + other_e[n]
            other_e[n] = other_e[n] * other_z[n] + p1 * cp[n]
        m -= 1


@njit(**FAST)
def _square(c, z, size):
    wide_vectors()
    for n in range(size):
        z[n] = c[n] * c[n]


@njit(**FAST)
def _pair(state, other, spare, r, row, other_row, columns, gap, even, odd, u, scale, other_scale, size):
    """One series step on two rows of a tile, whose k holds the cosine."""
    wide_vectors()
    k, theta, k1, theta1 = state[r, 0], state[r, 1], other[r, 0], other[r, 1]
    z, e, d, z1, e1, d1 = spare[0], spare[1], spare[2], spare[3], spare[4], spare[5]
    total, slope, total1, slope1 = spare[6], spare[7], spare[8], spare[9]
    _square(k, z, size)
    _square(k1, z1, size)
    _horner(z, e, d, z1, e1, d1, row, other_row, columns, 0, even, size)
    for n in range(size):
        total[n], slope[n] = e[n], 2.0 * k[n] * d[n]
        total1[n], slope1[n] = e1[n], 2.0 * k1[n] * d1[n]
    _horner(z, e, d, z1, e1, d1, row, other_row, columns, gap, odd, size)
    for n in range(size):
        theta[n] *= (slope[n] + e[n] + 2.0 * z[n] * d[n]) * (scale * u[n])
        k[n] = total[n] + k[n] * e[n]
        theta1[n] *= (slope1[n] + e1[n] + 2.0 * z1[n] * d1[n]) * (other_scale * u[n])
        k1[n] = total1[n] + k1[n] * e1[n]


@njit(**FAST)
def _step(work, scratch, program, tables, n, i0, i1, j0, size):
    """One series step on a whole tile."""
    r, at, table, rows = program.ops[n, 1], program.ops[n, 2], program.ops[n, 3], i1 - i0
    gap, odds = tables.layout[table, 1], tables.layout[table, 2]
    u, top = program.columns2[at, j0 : j0 + size], 0.0
    for m in range(rows):
        scratch.largest[m] = _cosines(work.state[m, r, 0], u, program.columns1[at, i0 + m], size)
        top = max(top, scratch.largest[m])
    order = _order(tables, table, top)
    even, odd = min((order + 1) // 2, gap), min(order // 2, odds)
    for m in range(rows):
        _interpolate(tables, table, program.columns1[at + 1, i0 + m], even, odd, scratch.rows[m])
    _fill_columns(tables, table, program.columns2[at + 1], j0, size, even, odd, scratch)
    for m in range(0, rows, 2):
        scale, other = program.columns1[at, i0 + m], program.columns1[at, min(i0 + m + 1, i1 - 1)]
        order = _order(tables, table, max(scratch.largest[m], scratch.largest[m + 1]))
        even, odd = min((order + 1) // 2, gap), min(order // 2, odds)
        a, b = work.state[m], work.state[m + 1]
        coefficients = scratch.rows[m], scratch.rows[m + 1]
        _pair(a, b, work.spare, r, *coefficients, scratch.columns, gap, even, odd, u, scale, other, size)


@njit(**FAST)
def strip(program, tables, output, work, scratch, i0, i1, j0):
    """As `interpreter.strip`, step by step over a whole tile where a step is a series."""
    found, end, rows = 0, i1 if output.symmetric else output.inverse2.shape[0], i1 - i0
    while j0 < end and found + rows * COLUMNS <= work.pairs.shape[0]:
        j1 = min(j0 + COLUMNS, end)
        width = whole(j1 - j0)
        for m in range(rows):
            size = min(j1, i0 + m + 1) - j0 if output.symmetric else j1 - j0
            found = load(work.state[m], output, i0 + m, j0, max(size, 0), width, work.pairs, found)
        for g in range(tables.segments.shape[0] - 1):
            first, last = tables.segments[g], tables.segments[g + 1]
            if program.ops[first, 0] == SERIES:
                _step(work, scratch, program, tables, first, i0, i1, j0, width)
                first += 1
            for m in range(rows):
                run(work.state[m], work.spare, program, first, last, i0 + m, j0, width)
        for m in range(rows):
            size = min(j1, i0 + m + 1) - j0 if output.symmetric else j1 - j0
            store(work.state[m], output, i0 + m, j0, max(size, 0))
        reflect(output, i0, i1, j0, j1, work.turned)
        j0 = j1
    return j0, found
