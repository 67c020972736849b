"""Runs a tape on strips of the kernel matrix, tile by tile, and writes both triangles of a symmetric result at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from deeplimits.limits.kernel.tile.compiled import PART, STRIP, invoke, place
from deeplimits.limits.kernel.tile.memory import LANES
from deeplimits.limits.kernel.tile.scalar import vectorise

ROWS, COLUMNS, SPARE = 64, 256, 10


class Output(NamedTuple):
    """Where results go; an array that is not wanted has shape (1, 1).

    Attributes:
        gram: shape (N1, N2) or a strip of its rows, starting at row `start`.
        scale: factor that makes gram the input covariance.
        symmetric: whether rows and columns are the same inputs (lower triangle computed, both written).
        inverse1, inverse2: 1/|x| in units of the unscaled gram, shapes (N1,), (N2,).
        limit: pairs with |cosine| above it are reported.
        flip: address of `blocks.flip` for the results' dtype.
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
    flip: int


class Program(NamedTuple):
    """A tape as arrays.

    Attributes:
        ops: (n, 6): address of the block, address of a block that runs before it or 0, register, other register,
            first column, table of coefficients (-1: none).
        numbers: (n, 6).
        columns1, columns2: (columns, inputs): what each input contributes.
    """

    ops: np.ndarray
    numbers: np.ndarray
    columns1: np.ndarray
    columns2: np.ndarray


class Work(NamedTuple):
    """Scratch of one thread.

    Attributes:
        state: (rows, registers, 2, COLUMNS): k and theta.
        spare: (SPARE, COLUMNS).
        pairs: (P, 2): the pairs reported so far.
    """

    state: np.ndarray
    spare: np.ndarray
    pairs: np.ndarray


@njit(**STRIP)
def run(state, spare, program, first, last, i, j, size):
    """Run steps first to last of a tape on one row of a tile."""
    for n in range(first, last):
        r, other, at = program.ops[n, 2], program.ops[n, 3], program.ops[n, 4]
        own, second = (place(state, (r, 0, 0)), place(state, (r, 1, 0))), place(state, (other, 0, 0))
        registers = (*own, second, place(state, (other, 1, 0)))
        rows = (place(spare, (0, 0)), place(spare, (1, 0)), place(spare, (2, 0)), place(program.numbers, (n, 0)))
        a, b = program.columns1, program.columns2
        left = (place(a, (at, i)), place(a, (at + 1, i)), place(a, (at + 2, i)))
        right = (place(b, (at, j)), place(b, (at + 1, j)), place(b, (at + 2, j)), size)
        if program.ops[n, 1] != 0:
            invoke(program.ops[n, 1], registers + rows + left + right)
        invoke(program.ops[n, 0], registers + rows + left + right)


@njit(**STRIP)
def load(gram, row, j, inverse, norm, limit, scale, k, theta, size, width, skip, pairs, found, i):
    """Put the covariance of the inputs into a register and report nearly parallel pairs; return how many so far.

    What is computed elsewhere (those pairs, the column `skip`) starts from 0, as do the entries from `size` to `width`.
    """
    vectorise()
    near = 0
    for n in range(size):
        value = gram[row, j + n]
        near += abs(value * (norm * inverse[j + n])) > limit
        k[n] = scale * value
        theta[n] = 0
    for n in range(size, width):
        k[n] = 0
        theta[n] = 0
    if near > 0:
        for n in range(size):
            if abs(gram[row, j + n] * (norm * inverse[j + n])) > limit:
                k[n] = 0
                if j + n != skip:
                    pairs[found, 0], pairs[found, 1] = i, j + n
                    found += 1
    return found


@njit(**STRIP)
def store(values, out, i, j, size):
    """Write a register to a result."""
    vectorise()
    for n in range(size):
        out[i, j + n] = values[n]


@njit(**PART)
def whole(size):
    """Round up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@njit(**PART)
def begin(output, state, i, j, size, width, pairs, found):
    """Load one row of a tile."""
    norm, skip = output.inverse1[i], i if output.symmetric else -1
    rows = output.gram, i - output.start, j, output.inverse2, norm, output.limit, output.scale
    return load(*rows, state[0, 0], state[0, 1], size, width, skip, pairs, found, i)


@njit(**PART)
def end(output, state, i, j, size):
    """Write one row of a tile."""
    if output.want_nngp:
        store(state[0, 0], output.nngp, i, j, size)
    if output.want_ntk:
        store(state[0, 1], output.ntk, i, j, size)


@njit(**PART)
def reflect(output, i0, i1, j0, j1):
    """Write the mirror images of a finished tile of a symmetric result."""
    if output.symmetric and output.want_nngp:
        _mirror(output.flip, output.nngp, i0, i1, j0, j1)
    if output.symmetric and output.want_ntk:
        _mirror(output.flip, output.ntk, i0, i1, j0, j1)


@njit(**STRIP)
def _mirror(flip, out, i0, i1, j0, j1):
    n = out.shape[1]
    if j0 < i0:
        invoke(flip, (place(out, (i0, j0)), place(out, (j0, i0)), n, n, i1 - i0, min(j1, i0) - j0))
    for j in range(max(j0, i0), min(j1, i1)):
        if j + 1 < i1:
            invoke(flip, (place(out, (j + 1, j)), place(out, (j, j + 1)), n, n, i1 - j - 1, 1))


@njit(**STRIP)
def strip(program, output, work, i0, i1, j0):
    """Compute rows i0 to i1 from column j0 on.

    Returns:
        (j, found): the next column (past the end when done) and the number of pairs reported; it stops early where
        the list of pairs might overflow.
    """
    found, stop = 0, i1 if output.symmetric else output.inverse2.shape[0]
    while j0 < stop and found + ROWS * COLUMNS <= work.pairs.shape[0]:
        j1 = min(j0 + COLUMNS, stop)
        for i in range(i0, i1):
            size = min(j1, i + 1) - j0 if output.symmetric else j1 - j0
            width = whole(size)
            found = begin(output, work.state[0], i, j0, size, width, work.pairs, found)
            run(work.state[0], work.spare, program, 0, program.ops.shape[0], i, j0, width)
            end(output, work.state[0], i, j0, size)
        reflect(output, i0, i1, j0, j1)
        j0 = j1
    return j0, found
