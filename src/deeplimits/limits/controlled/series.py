"""The linear equation d2u/dsdt = z (1 + u), u = 0 on both axes, on a grid of cells with z constant in each: exactly.

In a cell, u is a power series in both variables whose derivatives at the corner, u_ab, obey u_(a+1)(b+1) = z u_ab (and
u_11 = z (1 + u_00)): those on two edges give the rest. The sums over a and over b are the derivatives at the opposite
edges. An edge is a polynomial of `order` terms, LANES grids at a time, one in each place of a vector.

Source: derived; cirone-2023-neural-signature-kernels for the equation.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from deeplimits.limits.kernel.tile.compiled import callable_from_python
from deeplimits.limits.kernel.tile.memory import aligned, filed
from deeplimits.limits.kernel.tile.scalar import vectorise

LANES, BLOCK = 8, 32
ORDERS = (6, 8, 10, 12, 16, 20, 24)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class _Cell:
    """Writes out one cell: sums and products of vectors."""

    def __init__(self, builder: Any, order: int):
        self.builder, self.order = builder, order

    def number(self, value: float) -> Any:
        return ir.Constant(_VECTOR, [value] * LANES)

    def plus(self, a: Any, b: Any) -> Any:
        return b if a is None else self.builder.fadd(a, b, flags=("fast",))

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=("fast",))

    def place(self, pointer: Any, term: int) -> Any:
        """Return where the vector of a term stands."""
        vectors = self.builder.bitcast(pointer, _VECTOR.as_pointer())
        return self.builder.gep(vectors, [ir.Constant(ir.IntType(64), term)])

    def powers(self, z: Any) -> list[Any]:
        """Return z^b / b! for b = 1 .. order - 1, None standing for 1."""
        found: list[Any] = [None, z]
        for term in range(2, self.order):
            found.append(self.times(found[-1], self.times(z, self.number(1 / term))))
        return found

    def opposite(self, powers: list[Any], along: list[Any], across: list[Any], whole: Any) -> list[Any]:
        """Return the derivatives along the opposite edge.

        d_b = sum_(a < b) z^a/a! along_(b-a) + z^b/b! sum_m b!/(m+b)! across_m, with 1 + u in place of u in across_0.
        """
        found = []
        for b in range(self.order):
            sum_ = along[b] if b else None
            for a in range(1, b):
                sum_ = self.plus(sum_, self.times(powers[a], along[b - a]))
            inner = None
            for m in range(self.order - 1 - b, 0, -1):
                inner = self.plus(inner, self.times(across[m], self.number(factorial(b) / factorial(m + b))))
            inner = self.plus(inner, whole if b else across[0])
            found.append(self.plus(sum_, self.times(powers[b], inner) if b else inner))
        return found


@intrinsic(prefer_literal=True)
def _advance(context, order, z, left, low):
    """Replace the derivatives along the left and the lower edge of a cell by those along the right and upper edge."""

    def generate(target, builder, signature, arguments):
        terms, cell = order.literal_value, _Cell(builder, order.literal_value)
        _, z_, left_, low_ = arguments
        edges = [[builder.load(cell.place(pointer, n), align=64) for n in range(terms)] for pointer in (left_, low_)]
        powers = cell.powers(builder.load(cell.place(z_, 0), align=64))
        whole = cell.plus(edges[0][0], cell.number(1.0))
        edges[1][0] = edges[0][0]
        for pointer, along, across in ((left_, *edges), (low_, *edges[::-1])):
            for term, value in enumerate(cell.opposite(powers, along, across, whole)):
                builder.store(value, cell.place(pointer, term), align=64)
        return target.get_dummy_value()

    return types.void(order, z, left, low), generate


@intrinsic
def _after(context, pointer, count):
    """The pointer `count` reals on."""

    def generate(target, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return types.CPointer(types.float64)(types.CPointer(types.float64), types.int64), generate


@cache
def _sweep(order: int) -> Any:
    """Return the compiled walk over all cells for edges of `order` terms: BLOCK columns at a time, row by row."""

    def walk(x, y, z, left, low, tail, n_x, n_y, n_d):
        vectorise()
        for start in range(0, n_y, BLOCK):
            stop = min(start + BLOCK, n_y)
            for i in range(n_x):
                for n in range((stop - start) * LANES):
                    z[n] = 0.0
                for j in range(start, stop):
                    for k in range(n_d):
                        for p in range(LANES):
                            z[(j - start) * LANES + p] += x[(i * n_d + k) * LANES + p] * y[(j * n_d + k) * LANES + p]
                lower = _after(low, i * order * LANES)
                for j in range(start, stop):
                    edge = _after(left, j * order * LANES)
                    _advance(order, _after(z, (j - start) * LANES), edge, lower)
                    for p in range(2 * LANES):
                        last = (order - 2) * LANES + p
                        tail[p] = max(tail[p], max(abs(edge[last]), abs(lower[last])))

    return callable_from_python(walk)


def solve(x: np.ndarray, y: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return u at the far corner of LANES grids, z = <x_i, y_j> in cell (i, j), and an estimate of its error.

    The error is that of the first term left out, from the ratio of the last two, which a path of zeros does not change:
    shorter paths are filled up with them.

    Args:
        x: shape (n, d, LANES), increments of the first paths.
        y: shape (m, d, LANES).
        order: terms of a polynomial.

    Returns:
        (u, error), shape (LANES,) each.

    Source: derived.

    Example:
        >>> x = np.full((1, 1, LANES), 1.0)
        >>> float(solve(x, x, 16)[0][0])                                    # I_0(2) - 1
        1.2795853023360673
    """
    x, y = filed(x), filed(y)
    left, low = aligned((len(y), order, LANES), float), aligned((len(x), order, LANES), float)
    z, tail = aligned((BLOCK, LANES), float), aligned((2, LANES), float)
    arrays = [array.ctypes.data for array in (x, y, z, left, low, tail)]
    _sweep(order)(*arrays, len(x), len(y), x.shape[1])
    scale = np.array([1 / factorial(term) for term in range(order)])
    before, last = tail[0] * scale[-2], tail[1] * scale[-1]
    with np.errstate(all="ignore"):  # what is too large is told by the values
        error = np.where(last > 0, last * np.minimum(last / before, 1.0), 0.0)
        return scale @ left[-1], error
