"""What one thread of the engine holds: its scratch, its list of addresses, and the compiled strip that works on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.limits.kernel.tile import blocks, interpreter, mehler, memory, series
from deeplimits.limits.kernel.tile.compiled import address, callable_from_python
from deeplimits.limits.kernel.tile.interpreter import COLUMNS, Program

SERIES_ROWS = 128


@dataclass(frozen=True)
class Matrix:
    """What the strips of all threads read and write.

    Attributes:
        gram: products of the inputs, from row `start` on, in the registers' dtype.
        start: that row.
        nngp, ntk: results, or None.
        symmetric: whether rows and columns are the same inputs.
        inverse1, inverse2: 1/|x| of the rows and of the columns, in the registers' dtype.
        settings: (scale that makes `gram` the covariance, |cosine| above which a pair is reported).
    """

    gram: np.ndarray
    start: int
    nngp: np.ndarray | None
    ntk: np.ndarray | None
    symmetric: bool
    inverse1: np.ndarray
    inverse2: np.ndarray
    settings: np.ndarray


class Thread:
    """Scratch and addresses of one thread."""

    def __init__(self, program: Program, tables: series.Tables | None, registers: int, matrix: Matrix):
        self.rows = interpreter.ROWS if tables is None else SERIES_ROWS
        self.pairs = np.empty((2 * self.rows * COLUMNS, 2), dtype=np.int64)
        self.held: list[np.ndarray] = []
        self.list = np.zeros(series.ALL_PLACES, dtype=np.int64)
        self._program(program, registers, 1 if tables is None else self.rows + 1, program.left.dtype.type)
        self._matrix(matrix, program.left.dtype.type)
        if tables is not None:
            self._tables(tables)
        self._strip = callable_from_python(interpreter.strip if tables is None else series.strip)

    def strip(self, i0: int, i1: int, j: int) -> tuple[int, np.ndarray]:
        """Compute rows i0 to i1 from column j on; return the next column and the pairs reported."""
        self.list[interpreter.FOUND] = 0
        here = self.list.ctypes.data
        self._strip(here, here, i0, i1, j)
        return int(self.list[interpreter.NEXT]), self.pairs[: self.list[interpreter.FOUND]]

    def _at(self, array: np.ndarray) -> int:
        self.held.append(array)
        return array.ctypes.data

    def _program(self, program: Program, registers: int, rows: int, real: type) -> None:
        p, i = self.list, interpreter
        state = memory.aligned((rows, registers, 2, COLUMNS), real)
        p[i.STATE], p[i.STATE_ROW] = self._at(state), state.strides[0]
        p[i.SPARE] = self._at(memory.aligned((i.SPARE_ROWS, COLUMNS), real))
        p[i.OPS], p[i.STEPS] = self._at(program.ops), len(program.ops)
        p[i.NUMBERS], p[i.NUMBERS_ROW] = self._at(program.numbers), program.numbers.strides[0]
        p[i.LEFT], p[i.LEFT_ROW] = self._at(program.left), program.left.strides[0]
        p[i.RIGHT], p[i.RIGHT_ROW] = self._at(program.right), program.right.strides[0]
        p[i.PAIRS], p[i.CAPACITY] = self._at(self.pairs), len(self.pairs)
        p[i.RUN] = address(i.run)

    def _matrix(self, matrix: Matrix, real: type) -> None:
        p, i = self.list, interpreter
        result = matrix.ntk if matrix.nngp is None else matrix.nngp
        assert result is not None
        stored = result.dtype.type
        p[i.GRAM], p[i.GRAM_ROW], p[i.START] = self._at(matrix.gram), matrix.gram.strides[0], matrix.start
        p[i.NNGP], p[i.NTK] = (0 if array is None else self._at(array) for array in (matrix.nngp, matrix.ntk))
        p[i.WIDTH], p[i.SYMMETRIC] = result.shape[1], matrix.symmetric
        p[i.INVERSE1], p[i.INVERSE2] = self._at(matrix.inverse1), self._at(matrix.inverse2)
        p[i.SETTINGS] = self._at(matrix.settings)
        p[i.REAL], p[i.STORED] = np.dtype(real).itemsize, result.itemsize
        p[i.LOAD], p[i.STORE] = address(i.load, real), address(i.store, real, stored)
        p[i.FLIP] = address(blocks.flip, stored)

    def _tables(self, tables: series.Tables) -> None:
        p, s, order = self.list, series, tables.order
        arrays = (tables.values, tables.layout, tables.levels, tables.orders, tables.segments)
        p[s.VALUES], p[s.LAYOUT], p[s.LEVELS], p[s.ORDERS], p[s.SEGMENTS] = (self._at(array) for array in arrays)
        p[s.LEVEL_COUNT], p[s.SEGMENT_COUNT], p[s.ORDER] = len(tables.levels), len(tables.segments) - 1, order
        shapes = ((self.rows + 2,), (self.rows + 2, order), (order, COLUMNS), (memory.LANES, order))
        p[s.LARGEST], p[s.A], p[s.C], p[s.TURNED] = (self._at(memory.aligned(shape, np.float64)) for shape in shapes)
        functions = (mehler.cosines, mehler.spread, mehler.pair, blocks.flip, series.step)
        p[s.COSINES], p[s.SPREAD], p[s.PAIR], p[s.TURN], p[s.STEP] = (address(function) for function in functions)
