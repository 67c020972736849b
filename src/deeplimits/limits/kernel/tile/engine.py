"""The fast kernel: the Gram matrix, then a tape on its tiles by compiled code, on all cores, in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from deeplimits.limits.kernel.tape import Tape
from deeplimits.limits.kernel.tile import interpreter, univariate
from deeplimits.limits.kernel.tile.encode import Diagonals, encode, has_series
from deeplimits.limits.kernel.tile.thread import SERIES_ROWS, Matrix, Thread
from deeplimits.numerics.arrays import squares

if TYPE_CHECKING:
    from deeplimits.limits.kernel.tile.series import Tables

CLOSE = {np.float64: 1e-3, np.float32: 5e-3}
CHUNK, WIDE_ROWS, WIDE_COLUMNS = 20_000, 256, 1024
FITTED_ENTRIES = 200_000  # below, the fit of one function costs more than the entries do


@dataclass(frozen=True)
class Request:
    """What the engine is asked for.

    Attributes:
        tape: the steps.
        x1, x2: inputs, shapes (N, d) and (M, d), of one dtype (float32 or float64); x2 None: x1 against itself.
        before1, before2: {step: q} before each step of `Tape.needs`, shapes (N,) and (M,); before2 None with x2.
        near: (i, j) -> (k, theta) for pairs of rows x1[i], x2[j] that are nearly parallel or opposite.
        diagonal: (k, theta), each (N,), written on the diagonal where x2 is None.
        nngp, ntk: which results are wanted.
        wide: compute in float64 whatever the dtype of the inputs and results (series always are, and homogeneous
            tapes are where they need it).
        close: pairs with |cosine| > 1 - close go to `near`; None: 1e-3 in float64, 5e-3 or more in float32.
        threads: number of threads; None: one for each core.
    """

    tape: Tape
    x1: np.ndarray
    x2: np.ndarray | None
    before1: Diagonals
    before2: Diagonals | None
    near: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    diagonal: tuple[np.ndarray, np.ndarray]
    nngp: bool = True
    ntk: bool = True
    wide: bool = False
    close: float | None = None
    threads: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of each result."""
        return len(self.x1), len(self.x1 if self.x2 is None else self.x2)


def evaluate(request: Request) -> dict[str, np.ndarray]:
    """Return the wanted results, {"nngp": (N, M), "ntk": (N, M)}, in the dtype of the inputs.

    Memory: the results, the per-input columns of the tape and one tile for each thread.
    """
    dtype, names = request.x1.dtype, [name for name in ("nngp", "ntk") if getattr(request, name)]
    results = {name: np.empty(request.shape, dtype=dtype) for name in names}
    way = _way(request)
    run = _Run(request, way, results)
    if way.real == dtype.type:
        home = results[names[0]]
        gram(request.x1, request.x2, home)
        run.sweep(home, 0, request.shape[0])
    else:
        for start, strip in _wide_strips(request):
            run.sweep(strip, start, start + len(strip))
    if request.x2 is None:
        for name in names:
            np.fill_diagonal(results[name], request.diagonal[name == "ntk"])
    return results


@dataclass(frozen=True)
class _Way:
    """The program, its tables of coefficients, the dtype of the registers, and which pairs are left out."""

    program: interpreter.Program
    tables: Tables | None
    real: type
    close: float


def _way(request: Request) -> _Way:
    rows, columns = request.shape
    worth = rows * columns >= FITTED_ENTRIES and univariate.homogeneous(request.tape)
    planned = univariate.plan(request.tape, request.x1.dtype.type) if worth else None
    if planned is not None:
        columns = None if request.x2 is None else squares(request.x2)
        program = univariate.program(planned, squares(request.x1), columns)
        return _Way(program, None, planned.real, request.close or planned.close)
    real = np.float64 if request.wide or has_series(request.tape) else request.x1.dtype.type
    program, tables = encode(request.tape, request.before1, request.before2, real)
    return _Way(program, tables, real, request.close or CLOSE[real])


def gram(x1: np.ndarray, x2: np.ndarray | None, out: np.ndarray) -> None:
    """Write x1 x2^T into `out`; of x1 x1^T only the lower triangle."""
    if x2 is not None:
        np.matmul(x1, x2.T, out=out)
        return
    update = blas.dsyrk if x1.dtype == np.float64 else blas.ssyrk
    update(1.0, np.ascontiguousarray(x1).T, trans=1, c=out.T, overwrite_c=1, lower=0)


def _wide_strips(request: Request) -> Iterator[tuple[int, np.ndarray]]:
    other = request.x1 if request.x2 is None else request.x2
    buffer = np.empty((min(WIDE_ROWS, request.shape[0]), request.shape[1]))
    for start in range(0, request.shape[0], WIDE_ROWS):
        rows = request.x1[start : start + WIDE_ROWS].astype(np.float64)
        end = min(start + WIDE_ROWS, len(other)) if request.x2 is None else len(other)
        for left in range(0, end, WIDE_COLUMNS):
            right = min(left + WIDE_COLUMNS, end)
            buffer[: len(rows), left:right] = rows @ other[left:right].astype(np.float64).T
        yield start, buffer[: len(rows)]


def _inverse_norms(x: np.ndarray, dtype: type) -> np.ndarray:
    norms = np.sqrt(squares(x) * x.shape[1])
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(dtype)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Run:
    """One evaluation: the compiled body, where it writes, and what each thread does."""

    def __init__(self, request: Request, way: _Way, results: dict[str, np.ndarray]):
        self.request, self.results, self.way = request, results, way
        self.norms1 = _inverse_norms(request.x1, way.real)
        self.norms2 = self.norms1 if request.x2 is None else _inverse_norms(request.x2, way.real)
        self.threads = request.threads or cores()

    def sweep(self, gram: np.ndarray, start: int, end: int) -> None:
        """Compute rows start to end from their Gram matrix, whose first row is row `start`."""
        way, matrix = self.way, self._matrix(gram, start)
        rows = interpreter.ROWS if way.tables is None else SERIES_ROWS
        starts = iter(range(start, end, rows)[::-1])
        count = min(self.threads, -(-(end - start) // rows))
        threads = [Thread(way.program, way.tables, self.request.tape.registers, matrix) for _ in range(count)]
        if count == 1:
            self._worker(threads[0], starts, end)
            return
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(self._worker, thread, starts, end) for thread in threads]:
                done.result()

    def _matrix(self, gram: np.ndarray, start: int) -> Matrix:
        results, symmetric = (self.results.get(name) for name in ("nngp", "ntk")), self.request.x2 is None
        settings = np.array([1 / self.request.x1.shape[1], 1 - self.way.close], dtype=self.way.real)
        return Matrix(gram, start, *results, symmetric, self.norms1, self.norms2, settings)

    def _worker(self, thread: Thread, starts: Iterator[int], end: int) -> None:
        waiting: list[np.ndarray] = []
        for i0 in starts:
            i1 = min(i0 + thread.rows, end)
            j, stop = 0, i1 if self.request.x2 is None else self.request.shape[1]
            while j < stop:
                j, pairs = thread.strip(i0, i1, j)
                if len(pairs):
                    waiting.append(pairs.copy())
                if sum(map(len, waiting)) >= CHUNK:
                    self._near(waiting)
        self._near(waiting)

    def _near(self, waiting: list[np.ndarray]) -> None:
        if not waiting:
            return
        pairs = np.concatenate(waiting)
        waiting.clear()
        for first in range(0, len(pairs), CHUNK):
            i, j = pairs[first : first + CHUNK].T
            k, theta = self.request.near(i, j)
            for name, result in self.results.items():
                with np.errstate(over="ignore"):
                    value = (k if name == "nngp" else theta).astype(result.dtype)
                result[i, j] = value
                if self.request.x2 is None:
                    result[j, i] = value
