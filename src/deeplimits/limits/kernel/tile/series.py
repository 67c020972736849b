"""Mehler series in the tile engine: K = sum over k of a_k(q) a_k(q') c**k, for activations without a closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile.compiled import PART, STRIP, invoke, place
from deeplimits.limits.kernel.tile.interpreter import COLUMNS, begin, end, reflect, run, whole
from deeplimits.limits.kernel.tile.mehler import COSINES, FINISH, HORNER, INTERPOLATE, KEEP, SQUARE
from deeplimits.limits.kernel.tile.memory import LANES, aligned


class Tables(NamedTuple):
    """The tables of coefficients and where the tape is cut.

    Attributes:
        values: all tables, one after the other, each (nodes, even + odd) in one row.
        layout: (tables, 5): start in `values`, even count, odd count, stencil, nodes.
        levels, orders: (levels,) and (tables, levels): number of coefficients for each largest |cosine|.
        segments: the steps at which the tape is cut, its end included: a series step opens a segment.
        parts: addresses of the compiled parts of a series step.
    """

    values: np.ndarray
    layout: np.ndarray
    levels: np.ndarray
    orders: np.ndarray
    segments: np.ndarray
    parts: np.ndarray


class Scratch(NamedTuple):
    """Coefficients of a tile: of its rows (rows + 1, order), of its columns (order, COLUMNS), and some being turned.

    `largest` (rows + 1,) holds the largest |cosine| of each row, `weights` (LANES,) those of an interpolation.
    """

    largest: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    turned: np.ndarray
    weights: np.ndarray


def scratch(tables: Tables, rows: int) -> Scratch:
    """Return the scratch of one thread for tiles of `rows` rows."""
    order = int(np.max(tables.layout[:, 1] + tables.layout[:, 2]))
    shapes = ((rows + 1,), (rows + 1, order), (order, COLUMNS), (LANES, order), (LANES,))
    return Scratch(*(aligned(shape, np.float64) for shape in shapes))


@njit(**PART)
def _order(tables, table, cosine):
    n = 0
    while n < tables.levels.shape[0] - 1 and tables.levels[n] < cosine:
        n += 1
    return tables.orders[table, n]


@njit(**PART)
def _spread(tables, scratch, table, position, even, odd, out, row):
    """Write the coefficients at a position between nodes: the first `even`, and from the even count on, `odd`."""
    start, gap, odds, stencil, nodes = tables.layout[table]
    node = np.int64(position)
    if stencil > 1:
        node = min(max(node - stencil // 2 + 1, 0), nodes - stencil)
    for s in range(stencil):
        weight = 1.0
        for m in range(stencil):
            if m != s:
                weight *= (position - node - m) / (s - m)
        scratch.weights[s] = weight
    given = place(out, (row, 0)), place(tables.values, (start + node * (gap + odds),)), place(scratch.weights, (0,))
    invoke(tables.parts[INTERPOLATE], (*given, gap + odds, stencil, 0, even))
    invoke(tables.parts[INTERPOLATE], (*given, gap + odds, stencil, gap, odd))


@njit(**PART)
def _fill_columns(tables, scratch, table, program, at, j0, size, even, odd):
    gap = tables.layout[table, 1]
    for left in range(0, size, LANES):
        for n in range(LANES):
            _spread(tables, scratch, table, program.columns2[at + 1, j0 + left + n], even, odd, scratch.turned, n)
        for m in range(gap + odd):
            if m < even or m >= gap:
                for n in range(LANES):
                    scratch.columns[m, left + n] = scratch.turned[n, m]


@njit(**PART)
def _pair(tables, scratch, work, program, r, at, m, rows, gap, even, odd, size):
    """One series step on rows m and m + 1 of a tile, whose k holds the cosine; `rows`: their inputs, a column."""
    parts, spare, columns, first, second, j = tables.parts, work.spare, scratch.columns, rows[0], rows[1], rows[2]
    k, theta = place(work.state, (m, r, 0, 0)), place(work.state, (m, r, 1, 0))
    k1, theta1 = place(work.state, (m + 1, r, 0, 0)), place(work.state, (m + 1, r, 1, 0))
    z, e, d = place(spare, (0, 0)), place(spare, (1, 0)), place(spare, (2, 0))
    z1, e1, d1 = place(spare, (3, 0)), place(spare, (4, 0)), place(spare, (5, 0))
    total, slope = place(spare, (6, 0)), place(spare, (7, 0))
    total1, slope1 = place(spare, (8, 0)), place(spare, (9, 0))
    u, a = place(program.columns2, (at, j)), place(program.columns1, (at, first))
    a1, c = place(program.columns1, (at, second)), place(columns, (0, 0))
    given = (z, e, d, z1, e1, d1, place(scratch.rows, (m, 0)), place(scratch.rows, (m + 1, 0)), c)
    invoke(parts[SQUARE], (k, z, size))
    invoke(parts[SQUARE], (k1, z1, size))
    invoke(parts[HORNER], (*given, COLUMNS, 0, even, size))
    invoke(parts[KEEP], (k, e, d, total, slope, size))
    invoke(parts[KEEP], (k1, e1, d1, total1, slope1, size))
    invoke(parts[HORNER], (*given, COLUMNS, gap, odd, size))
    invoke(parts[FINISH], (k, theta, z, e, d, total, slope, u, a, size))
    invoke(parts[FINISH], (k1, theta1, z1, e1, d1, total1, slope1, u, a1, size))


@njit(**PART)
def _step(tables, scratch, work, program, n, i0, i1, j0, size):
    """One series step on a whole tile."""
    r, at, table, rows = program.ops[n, 2], program.ops[n, 4], program.ops[n, 5], i1 - i0
    gap, odds, top = tables.layout[table, 1], tables.layout[table, 2], 0.0
    u = place(program.columns2, (at, j0))
    for m in range(rows):
        k, a = place(work.state, (m, r, 0, 0)), place(program.columns1, (at, i0 + m))
        invoke(tables.parts[COSINES], (k, place(scratch.largest, (m,)), u, a, size))
        top = max(top, scratch.largest[m])
    order = _order(tables, table, top)
    even, odd = min((order + 1) // 2, gap), min(order // 2, odds)
    for m in range(rows):
        _spread(tables, scratch, table, program.columns1[at + 1, i0 + m], even, odd, scratch.rows, m)
    _fill_columns(tables, scratch, table, program, at, j0, size, even, odd)
    for m in range(0, rows, 2):
        order = _order(tables, table, max(scratch.largest[m], scratch.largest[m + 1]))
        even, odd = min((order + 1) // 2, gap), min(order // 2, odds)
        inputs = i0 + m, min(i0 + m + 1, i1 - 1), j0
        _pair(tables, scratch, work, program, r, at, m, inputs, gap, even, odd, size)


@njit(**STRIP)
def strip(program, tables, output, work, scratch, i0, i1, j0):
    """As `interpreter.strip`, step by step over a whole tile where a step is a series."""
    found, stop, rows = 0, i1 if output.symmetric else output.inverse2.shape[0], i1 - i0
    scratch.largest[rows] = 0
    while j0 < stop and found + rows * COLUMNS <= work.pairs.shape[0]:
        j1 = min(j0 + COLUMNS, stop)
        width = whole(j1 - j0)
        for m in range(rows):
            size = max(min(j1, i0 + m + 1) - j0, 0) if output.symmetric else j1 - j0
            found = begin(output, work.state[m], i0 + m, j0, size, width, work.pairs, found)
        for g in range(tables.segments.shape[0] - 1):
            first, last = tables.segments[g], tables.segments[g + 1]
            if program.ops[first, 5] >= 0:
                _step(tables, scratch, work, program, first, i0, i1, j0, width)
                first += 1
            for m in range(rows):
                run(work.state[m], work.spare, program, first, last, i0 + m, j0, width)
        for m in range(rows):
            size = max(min(j1, i0 + m + 1) - j0, 0) if output.symmetric else j1 - j0
            end(output, work.state[m], i0 + m, j0, size)
        reflect(output, i0, i1, j0, j1)
        j0 = j1
    return j0, found
