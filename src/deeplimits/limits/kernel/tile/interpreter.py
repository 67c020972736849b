"""Runs a tape on strips of the kernel matrix, tile by tile, and writes both triangles of a symmetric result at once.

Everything is compiled on integers and addresses, which stand in one list for each thread, at these places (`_ROW` is
the length of a row in bytes):

STATE: (rows, registers, 2, COLUMNS), k and theta; SPARE: (SPARE_ROWS, COLUMNS); OPS: (STEPS, OP), see `Program`;
NUMBERS: (STEPS, ...); LEFT, RIGHT: what the inputs of the rows and of the columns contribute; REAL, STORED: bytes of a
real of the registers and of the results; GRAM: products of the inputs, from row START on; NNGP, NTK: the results, 0
where not wanted; WIDTH: their number of columns; SYMMETRIC: whether rows and columns are the same inputs; INVERSE1,
INVERSE2: 1/|x|; SETTINGS: the scale that makes GRAM the covariance, and the |cosine| above which a pair is reported;
PAIRS: (CAPACITY, 2), FOUND of them so far; NEXT: the column at which a strip stopped; RUN to FLIP: compiled functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.limits.kernel.tile.compiled import integers, invoke, part
from deeplimits.limits.kernel.tile.memory import LANES
from deeplimits.limits.kernel.tile.scalar import vectorise

ROWS, COLUMNS, SPARE_ROWS, OP = 64, 256, 10, 6
STATE, STATE_ROW, SPARE, OPS, STEPS, NUMBERS, NUMBERS_ROW, LEFT, LEFT_ROW, RIGHT, RIGHT_ROW, REAL, STORED = range(13)
GRAM, GRAM_ROW, START, NNGP, NTK, WIDTH, SYMMETRIC, INVERSE1, INVERSE2, SETTINGS = range(13, 23)
PAIRS, CAPACITY, FOUND, NEXT, RUN, LOAD, STORE, FLIP, PLACES = range(23, 32)


@dataclass(frozen=True)
class Program:
    """A tape as arrays.

    Attributes:
        ops: (steps, OP): address of the block, address of a block that runs before it or 0, register, other register,
            first column, table of coefficients (-1: none).
        numbers: (steps, 6 or more).
        left, right: (columns, inputs): what each input contributes.
    """

    ops: np.ndarray
    numbers: np.ndarray
    left: np.ndarray
    right: np.ndarray


def run(i_p, n_state, n_first, n_last, n_i, n_j, n_size):
    """Run steps first to last of a tape on one row of a tile."""
    line, spare = i_p[REAL] * COLUMNS, i_p[SPARE]
    ops, across, down = integers(i_p[OPS]), i_p[LEFT_ROW], i_p[RIGHT_ROW]
    for n in range(n_first, n_last):
        k, other = n_state + 2 * line * ops[OP * n + 2], n_state + 2 * line * ops[OP * n + 3]
        a = i_p[LEFT] + across * ops[OP * n + 4] + i_p[REAL] * n_i
        u = i_p[RIGHT] + down * ops[OP * n + 4] + i_p[REAL] * n_j
        registers = (k, k + line, other, other + line, spare, spare + line, spare + 2 * line)
        inputs = (i_p[NUMBERS] + i_p[NUMBERS_ROW] * n, a, a + across, a + 2 * across, u, u + down, u + 2 * down, n_size)
        if ops[OP * n + 1] != 0:
            invoke(ops[OP * n + 1], registers + inputs)
        invoke(ops[OP * n], registers + inputs)


def load(gram, inverse, k, theta, norm, settings, i_p, i_pairs, n_i, n_j, n_size, n_width, n_skip):
    """Put the covariance of the inputs into a register and report nearly parallel pairs.

    What is computed elsewhere (those pairs, the column `skip`) starts from 0, as do the entries from `size` to `width`.
    """
    vectorise()
    near, scale, limit, own, zero = 0, settings[0], settings[1], norm[0], settings[0] - settings[0]
    for n in range(n_size):
        near += abs(gram[n] * (own * inverse[n])) > limit
        k[n] = scale * gram[n]
        theta[n] = zero
    for n in range(n_size, n_width):
        k[n] = zero
        theta[n] = zero
    if near > 0:
        found = i_p[FOUND]
        for n in range(n_size):
            if abs(gram[n] * (own * inverse[n])) > limit:
                k[n] = zero
                if n_j + n != n_skip:
                    i_pairs[2 * found], i_pairs[2 * found + 1] = n_i, n_j + n
                    found += 1
        i_p[FOUND] = found


def store(values, s_out, n_size):
    """Write a register to a result."""
    vectorise()
    for n in range(n_size):
        s_out[n] = values[n]


@part
def whole(size):
    """Round up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@part
def extent(p, i, j0, j1):
    """Return how many entries of a row of a tile are computed."""
    return max(min(j1, i + 1) - j0, 0) if p[SYMMETRIC] != 0 else j1 - j0


@part
def begin(p, here, state, i, j, size, width):
    """Load one row of a tile; `here` is the address of the list itself."""
    real, skip = p[REAL], i if p[SYMMETRIC] != 0 else -1
    gram = p[GRAM] + p[GRAM_ROW] * (i - p[START]) + real * j
    norms, theta = (p[INVERSE1] + real * i, p[SETTINGS], here, p[PAIRS]), state + real * COLUMNS
    invoke(p[LOAD], (gram, p[INVERSE2] + real * j, state, theta, *norms, i, j, size, width, skip))


@part
def finish(p, state, i, j, size):
    """Write one row of a tile."""
    place = p[STORED] * (i * p[WIDTH] + j)
    if p[NNGP] != 0:
        invoke(p[STORE], (state, p[NNGP] + place, size))
    if p[NTK] != 0:
        invoke(p[STORE], (state + p[REAL] * COLUMNS, p[NTK] + place, size))


@part
def reflect(p, i0, i1, j0, j1):
    """Write the mirror images of a finished tile of a symmetric result."""
    width, stored = p[WIDTH], p[STORED]
    for which in range(NNGP, NTK + 1):
        out = p[which]
        if p[SYMMETRIC] != 0 and out != 0:
            if j0 < i0:
                ends = out + stored * (i0 * width + j0), out + stored * (j0 * width + i0)
                invoke(p[FLIP], (*ends, width, width, i1 - i0, min(j1, i0) - j0))
            for j in range(max(j0, i0), min(j1, i1 - 1)):
                ends = out + stored * ((j + 1) * width + j), out + stored * (j * width + j + 1)
                invoke(p[FLIP], (*ends, width, width, i1 - j - 1, 1))


def strip(i_p, n_here, n_i0, n_i1, n_j0):
    """Compute rows i0 to i1 from column j0 on, as far as the list of pairs surely suffices; `here` is p's address."""
    stop, j0 = n_i1 if i_p[SYMMETRIC] != 0 else i_p[WIDTH], n_j0
    while j0 < stop and i_p[FOUND] + ROWS * COLUMNS <= i_p[CAPACITY]:
        j1 = min(j0 + COLUMNS, stop)
        for i in range(n_i0, n_i1):
            size = extent(i_p, i, j0, j1)
            width = whole(size)
            begin(i_p, n_here, i_p[STATE], i, j0, size, width)
            invoke(i_p[RUN], (n_here, i_p[STATE], 0, i_p[STEPS], i, j0, width))
            finish(i_p, i_p[STATE], i, j0, size)
        reflect(i_p, n_i0, n_i1, j0, j1)
        j0 = j1
    i_p[NEXT] = j0
