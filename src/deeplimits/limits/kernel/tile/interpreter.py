"""Runs a tape on strips of the kernel matrix, tile by tile, and writes both triangles of a symmetric result at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile import blocks
from deeplimits.limits.kernel.tile.blocks import FAST
from deeplimits.limits.kernel.tile.memory import LANES
from deeplimits.limits.kernel.tile.scalar import wide_vectors

ROWS, COLUMNS, EDGE = 64, 256, 32
AFFINE, ADD, COPY, NORMALISE, RECTIFIED, ERF, GELU, SINE, GROWTH, BUMP, SERIES = 0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13


class Output(NamedTuple):
    """Where results go; an array that is not wanted has shape (1, 1).

    Attributes:
        gram: shape (N1, N2) or a strip of its rows, starting at row `start`.
        scale: factor that makes gram the input covariance.
        symmetric: whether rows and columns are the same inputs (lower triangle computed, both written).
        inverse1, inverse2: 1/|x| in units of the unscaled gram, shapes (N1,), (N2,).
        limit: pairs with |cosine| above it are reported.
    """

    gram: np.ndarray
    start: int
    scale: float
    nngp: np.ndarray
    ntk: np.ndarray
    want_nngp: bool
    want_ntk: bool
    symmetric: bool
    inverse1: np.ndarray
    inverse2: np.ndarray
    limit: float


class Program(NamedTuple):
    """A tape as arrays: ops (n, 4) = code, register, source or column offset; numbers (n, 6); columns of both sides."""

    ops: np.ndarray
    numbers: np.ndarray
    columns1: np.ndarray
    columns2: np.ndarray


class Work(NamedTuple):
    """Scratch of one thread: registers (rows, registers, 2, B), block scratch (SPARE, B), a transposition buffer, and the pairs reported so far."""

    state: np.ndarray
    spare: np.ndarray
    turned: np.ndarray
    pairs: np.ndarray


@njit(**FAST)
def _dual(code, state, spare, r, size, v, a, b, at, i, j):
    if code <= GELU:
        blocks.turn(state, spare, r, size, a, b, at, i, j)
        if code == RECTIFIED + 1:
            blocks.rectified_1(state, spare, r, size, v, a, b, at, i, j)
        elif code == ERF:
            blocks.erf(state, spare, r, size, v, a, b, at, i, j)
        elif code == GELU:
            blocks.gelu(state, spare, r, size, v, a, b, at, i, j)
        elif code == RECTIFIED:
            blocks.rectified_0(state, spare, r, size, v)
        elif code == RECTIFIED + 2:
            blocks.rectified_2(state, spare, r, size, v, a, b, at, i, j)
        elif code == RECTIFIED + 3:
            blocks.rectified_3(state, spare, r, size, v, a, b, at, i, j)
    elif code == SINE:
        blocks.sine(state, r, size, v, a, b, at, i, j)
    elif code == GROWTH:
        blocks.growth(state, r, size, v, a, b, at, i, j)
    elif code == BUMP:
        blocks.bump(state, r, size, v, a, b, at, i, j)


@njit(**FAST)
def run(state, spare, program, first, last, i, j, size):
    for n in range(first, last):
        code, r, at = program.ops[n, 0], program.ops[n, 1], program.ops[n, 2]
        v = program.numbers[n]
        if code == AFFINE:
            blocks.affine(state, r, size, v)
        elif code == ADD:
            blocks.add(state, r, at, size, v)
        elif code == COPY:
            blocks.copy(state, r, at, size)
        elif code == NORMALISE:
            blocks.normalise(state, r, size, program.columns1, program.columns2, at, i, j)
        else:
            _dual(code, state, spare, r, size, v, program.columns1, program.columns2, at, i, j)


@njit(**FAST)
def whole(size):
    """Round up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@njit(**FAST)
def load(state, output, i, j, size, width, pairs, found):
    """Put the covariance of the inputs into register 0 and report nearly parallel pairs; return how many so far.

    What is computed elsewhere (those pairs, the diagonal) starts from 0, as do the entries from `size` to `width`.
    """
    wide_vectors()
    row, norm, limit, near = i - output.start, output.inverse1[i], output.limit, 0
    for n in range(size):
        value = output.gram[row, j + n]
        near += abs(value * (norm * output.inverse2[j + n])) > limit
        state[0, 0, n] = output.scale * value
        state[0, 1, n] = 0
    for n in range(size, width):
        state[0, 0, n] = 0
        state[0, 1, n] = 0
    if near > 0:
        for n in range(size):
            close = abs(output.gram[row, j + n] * (norm * output.inverse2[j + n])) > limit
            if close:
                state[0, 0, n] = 0
            if close and not (output.symmetric and i == j + n):
                pairs[found, 0], pairs[found, 1] = i, j + n
                found += 1
    return found


@njit(**FAST)
def store(state, output, i, j, size):
    """Write register 0 to the results."""
    wide_vectors()
    if output.want_nngp:
        for n in range(size):
            output.nngp[i, j + n] = state[0, 0, n]
    if output.want_ntk:
        for n in range(size):
            output.ntk[i, j + n] = state[0, 1, n]


@njit(**FAST)
def mirror(out, i0, i1, j0, j1, turned):
    """Write out[j, i] = out[i, j] for the entries j < i of a tile, through a buffer that stays in cache."""
    wide_vectors()
    for top in range(i0, i1, EDGE):
        bottom = min(top + EDGE, i1)
        for left in range(j0, min(j1, bottom), EDGE):
            right = min(left + EDGE, j1)
            for i in range(top, bottom):
                for j in range(left, right):
                    turned[j - left, i - top] = out[i, j]
            for j in range(left, right):
                for i in range(max(top, j + 1), bottom):
                    out[j, i] = turned[j - left, i - top]


@njit(**FAST)
def reflect(output, i0, i1, j0, j1, turned):
    """Write the mirror images of a finished tile of a symmetric result."""
    if output.symmetric and output.want_nngp:
        mirror(output.nngp, i0, i1, j0, j1, turned)
    if output.symmetric and output.want_ntk:
        mirror(output.ntk, i0, i1, j0, j1, turned)


@njit(**FAST)
def strip(program, output, work, i0, i1, j0):
    """Compute rows i0 to i1 from column j0 on.

    Returns:
        (j, found): the next column (past the end when done) and the number of pairs reported; it stops early where
        the list of pairs might overflow.
    """
    found, end = 0, i1 if output.symmetric else output.inverse2.shape[0]
    while j0 < end and found + ROWS * COLUMNS <= work.pairs.shape[0]:
        j1 = min(j0 + COLUMNS, end)
        for i in range(i0, i1):
            size = min(j1, i + 1) - j0 if output.symmetric else j1 - j0
            found = load(work.state[0], output, i, j0, size, whole(size), work.pairs, found)
            run(work.state[0], work.spare, program, 0, program.ops.shape[0], i, j0, whole(size))
            store(work.state[0], output, i, j0, size)
        reflect(output, i0, i1, j0, j1, work.turned)
        j0 = j1
    return j0, found
