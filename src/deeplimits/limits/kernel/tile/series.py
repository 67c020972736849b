"""Mehler series in the tile engine: K = sum over k of a_k(q) a_k(q') c**k, for activations without a closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile.compiled import STRIP, invoke, place
from deeplimits.limits.kernel.tile.interpreter import COLUMNS, begin, end, reflect, run, whole
from deeplimits.limits.kernel.tile.mehler import COSINES, FLIP, PAIR, SPREAD, UNROLL
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
    """Scratch of one thread.

    Attributes:
        largest: (rows + 1,), the largest |cosine| of each row of a tile.
        rows: (rows + 1, order), coefficients of the tile's rows.
        columns: (order, COLUMNS), coefficients of its columns.
        turned: (LANES, order), coefficients of a few columns, about to be turned.
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


@njit(**STRIP)
def _counts(tables, table, cosine):
    """Return how many even and odd coefficients serve cosines up to a size."""
    n = 0
    while n < tables.levels.shape[0] - 1 and tables.levels[n] < cosine:
        n += 1
    half = tables.orders[table, n] // 2
    even = min((half + UNROLL) // UNROLL * UNROLL, tables.layout[table, 1])
    return even, min((half + UNROLL - 1) // UNROLL * UNROLL, tables.layout[table, 2])


@njit(**STRIP)
def _coefficients(tables, scratch, program, n, i0, rows, j0, size):
    """Fill in the coefficients that a tile needs; return the start of those of its rows and of its columns."""
    at, table, top = program.ops[n, 4], program.ops[n, 5], 0.0
    for m in range(rows):
        top = max(top, scratch.largest[m])
    even, odd = _counts(tables, table, top)
    start, gap, odds, stencil, nodes = tables.layout[table]
    values, order, width = place(tables.values, (start,)), gap + odds, scratch.rows.shape[1]
    a, c, t = place(scratch.rows, (0, 0)), place(scratch.columns, (0, 0)), place(scratch.turned, (0, 0))
    left, right = place(program.columns1, (at + 1, i0)), place(program.columns2, (at + 1, j0))
    invoke(tables.parts[SPREAD], (left, a, values, rows, width, nodes, order, stencil, gap, even, odd))
    for j in range(0, size, LANES):
        invoke(tables.parts[SPREAD], (right + 8 * j, t, values, LANES, width, nodes, order, stencil, gap, even, odd))
        invoke(tables.parts[FLIP], (t, c + 8 * j, width, COLUMNS, LANES, even))
        invoke(tables.parts[FLIP], (t + 8 * gap, c + 8 * (gap * COLUMNS + j), width, COLUMNS, LANES, odd))
    return a, c


@njit(**STRIP)
def _step(tables, scratch, work, program, n, i0, rows, j0, size):
    """One series step on a whole tile: cosines, coefficients, then the sums on two rows at a time."""
    r, at, table = program.ops[n, 2], program.ops[n, 4], program.ops[n, 5]
    gap, parts, line, row = tables.layout[table, 1], tables.parts, 8 * COLUMNS, 8 * scratch.rows.shape[1]
    k, s, stride = place(work.state, (0, r, 0, 0)), place(work.spare, (0, 0)), work.state.shape[1] * 2 * COLUMNS
    a, u = place(program.columns1, (at, i0)), place(program.columns2, (at, j0))
    invoke(parts[COSINES], (k, place(scratch.largest, (0,)), u, a, rows, stride, size))
    left, right = _coefficients(tables, scratch, program, n, i0, rows, j0, size)
    for m in range(0, rows, 2):
        even, odd = _counts(tables, table, max(scratch.largest[m], scratch.largest[m + 1]))
        k1, a1, left1 = k + 8 * stride, a + 8 * min(1, rows - 1 - m), left + row
        own = (k, k + line, k1, k1 + line, s, s + line, s + 2 * line, s + 3 * line, s + 4 * line, s + 5 * line)
        kept = (s + 6 * line, s + 7 * line, s + 8 * line, s + 9 * line, left, left1, right, u, a, a1)
        invoke(parts[PAIR], own + kept + (COLUMNS, gap, even, odd, size))
        k, a, left = k1 + 8 * stride, a + 16, left1 + row


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
                _step(tables, scratch, work, program, first, i0, rows, j0, width)
                first += 1
            for m in range(rows):
                run(work.state[m], work.spare, program, first, last, i0 + m, j0, width)
        for m in range(rows):
            size = max(min(j1, i0 + m + 1) - j0, 0) if output.symmetric else j1 - j0
            end(output, work.state[m], i0 + m, j0, size)
        reflect(output, i0, i1, j0, j1)
        j0 = j1
    return j0, found
