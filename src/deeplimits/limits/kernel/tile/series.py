"""Mehler series in the tile engine: K = sum over k of a_k(q) a_k(q') c**k, for activations without a closed form.

The list of a thread (see `interpreter`) goes on with these places:

VALUES: tables of coefficients; LAYOUT: (tables, 5): start in VALUES, even count, odd count, stencil, nodes; LEVELS,
ORDERS: how many coefficients serve each largest |cosine|, (LEVEL_COUNT,) and (tables, LEVEL_COUNT); SEGMENTS: the
SEGMENT_COUNT + 1 steps at which the tape is cut, its end included: a series step opens a segment; LARGEST: the largest
|cosine| of each row of a tile; A: coefficients of its rows, (rows, ORDER); C: of its columns, (ORDER, COLUMNS); TURNED:
(LANES, ORDER), some about to be turned; COSINES to TURN: compiled functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.limits.kernel.tile.compiled import integers, invoke, part
from deeplimits.limits.kernel.tile.interpreter import (
    CAPACITY,
    COLUMNS,
    FOUND,
    LEFT,
    LEFT_ROW,
    NEXT,
    OP,
    OPS,
    PLACES,
    RIGHT,
    RIGHT_ROW,
    RUN,
    SPARE,
    STATE,
    STATE_ROW,
    SYMMETRIC,
    WIDTH,
    begin,
    extent,
    finish,
    reflect,
    whole,
)
from deeplimits.limits.kernel.tile.mehler import UNROLL
from deeplimits.limits.kernel.tile.memory import LANES

VALUES, LAYOUT, LEVELS, LEVEL_COUNT, ORDERS, SEGMENTS, SEGMENT_COUNT, LARGEST, A, C, TURNED, ORDER = range(
    PLACES, PLACES + 12
)
COSINES, SPREAD, PAIR, TURN, STEP, ALL_PLACES = range(PLACES + 12, PLACES + 18)


@dataclass(frozen=True)
class Tables:
    """The tables of coefficients and where the tape is cut: values, layout, levels, orders, segments as above."""

    values: np.ndarray
    layout: np.ndarray
    levels: np.ndarray
    orders: np.ndarray
    segments: np.ndarray

    @property
    def order(self) -> int:
        """The largest number of coefficients of a table."""
        return int(np.max(self.layout[:, 1] + self.layout[:, 2]))


@part
def counts(p, levels, table, cosine):
    """Return how many even and odd coefficients serve cosines up to a size."""
    n, layout = 0, integers(p[LAYOUT])
    while n < p[LEVEL_COUNT] - 1 and levels[n] < cosine:
        n += 1
    half = integers(p[ORDERS])[table * p[LEVEL_COUNT] + n] // 2
    even = min((half + UNROLL) // UNROLL * UNROLL, layout[5 * table + 1])
    return even, min((half + UNROLL - 1) // UNROLL * UNROLL, layout[5 * table + 2])


def step(i_p, levels, largest, n_step, n_i0, n_rows, n_j0, n_size):
    """One series step on a whole tile: cosines, coefficients, then the sums on two rows at a time."""
    ops, layout, line = integers(i_p[OPS]), integers(i_p[LAYOUT]), 8 * COLUMNS
    r, at, table = ops[OP * n_step + 2], ops[OP * n_step + 4], ops[OP * n_step + 5]
    k, a, u = i_p[STATE] + 2 * r * line, i_p[LEFT] + at * i_p[LEFT_ROW] + 8 * n_i0, i_p[RIGHT] + at * i_p[RIGHT_ROW]
    u += 8 * n_j0
    invoke(i_p[COSINES], (k, i_p[LARGEST], u, a, n_rows, i_p[STATE_ROW] // 8, n_size))
    top = 0.0
    for m in range(n_rows):
        top = max(top, largest[m])
    even, odd = counts(i_p, levels, table, top)
    gap, order = layout[5 * table + 1], layout[5 * table + 1] + layout[5 * table + 2]
    shape = (i_p[ORDER], layout[5 * table + 4], order, layout[5 * table + 3], gap, even, odd)
    values, t, c = i_p[VALUES] + 8 * layout[5 * table], i_p[TURNED], i_p[C]
    invoke(i_p[SPREAD], (a + i_p[LEFT_ROW], i_p[A], values, n_rows, *shape))
    for j in range(0, n_size, LANES):
        invoke(i_p[SPREAD], (u + i_p[RIGHT_ROW] + 8 * j, t, values, LANES, *shape))
        invoke(i_p[TURN], (t, c + 8 * j, i_p[ORDER], COLUMNS, LANES, even))
        invoke(i_p[TURN], (t + 8 * gap, c + 8 * (gap * COLUMNS + j), i_p[ORDER], COLUMNS, LANES, odd))
    s, row = i_p[SPARE], i_p[A]
    for m in range(0, n_rows, 2):
        even, odd = counts(i_p, levels, table, max(largest[m], largest[m + 1]))
        k1, a1, row1 = k + i_p[STATE_ROW], a + 8 * min(1, n_rows - 1 - m), row + 8 * i_p[ORDER]
        own = (k, k + line, k1, k1 + line, s, s + line, s + 2 * line, s + 3 * line, s + 4 * line, s + 5 * line)
        kept = (s + 6 * line, s + 7 * line, s + 8 * line, s + 9 * line, row, row1, c, u, a, a1)
        invoke(i_p[PAIR], own + kept + (COLUMNS, gap, even, odd, n_size))
        k, a, row = k1 + i_p[STATE_ROW], a + 16, row1 + 8 * i_p[ORDER]


def strip(i_p, n_here, n_i0, n_i1, n_j0):
    """As `interpreter.strip`, step by step over a whole tile where a step is a series."""
    stop, j0, rows, segments = n_i1 if i_p[SYMMETRIC] != 0 else i_p[WIDTH], n_j0, n_i1 - n_i0, integers(i_p[SEGMENTS])
    ops = integers(i_p[OPS])
    while j0 < stop and i_p[FOUND] + rows * COLUMNS <= i_p[CAPACITY]:
        j1 = min(j0 + COLUMNS, stop)
        width = whole(j1 - j0)
        for m in range(rows):
            size = extent(i_p, n_i0 + m, j0, j1)
            begin(i_p, n_here, i_p[STATE] + m * i_p[STATE_ROW], n_i0 + m, j0, size, width)
        for g in range(i_p[SEGMENT_COUNT]):
            first, last = segments[g], segments[g + 1]
            if ops[OP * first + 5] >= 0:
                invoke(i_p[STEP], (n_here, i_p[LEVELS], i_p[LARGEST], first, n_i0, rows, j0, width))
                first += 1
            for m in range(rows):
                invoke(i_p[RUN], (n_here, i_p[STATE] + m * i_p[STATE_ROW], first, last, n_i0 + m, j0, width))
        for m in range(rows):
            size = extent(i_p, n_i0 + m, j0, j1)
            finish(i_p, i_p[STATE] + m * i_p[STATE_ROW], n_i0 + m, j0, size)
        reflect(i_p, n_i0, n_i1, j0, j1)
        j0 = j1
    i_p[NEXT] = j0
