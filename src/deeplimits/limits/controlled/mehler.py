"""The equation d2K/dsdt = (a V(K) + b) z for activations known by their Hermite coefficients, compiled.

V = sum over p of a_p(q1) a_p(q2) c^p, c the correlation: coefficients come once for each point of a path, from a
table. A path against itself needs its variances ahead of time: a row of cells is solved with that of its end, again
and again until it stays. The scheme is that of `kink`.

Source: mehler-1866 for V; cirone-2023-neural-signature-kernels for the equation; the scheme is derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from deeplimits.limits.controlled import lanes
from deeplimits.limits.controlled.general import ENOUGH, ROUNDS, Equation
from deeplimits.limits.controlled.table import BLOCK, HIGHEST, LOWEST, Table
from deeplimits.limits.kernel.tile.compiled import callable_from_python
from deeplimits.limits.kernel.tile.engine import cores
from deeplimits.limits.kernel.tile.memory import aligned, filed
from deeplimits.limits.kernel.tile.scalar import vectorise

SMALLEST, LARGEST = 2.0**LOWEST, 4.0**HIGHEST
BEYOND = HIGHEST
HELD = 1 << 28  # bytes of coefficients kept at once
Paths = Sequence[np.ndarray]
Rows = tuple[np.ndarray, np.ndarray]
Points = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(fastmath=True, error_model="numpy")
def _growth(k, rx, n_i, ax, n_p, ry, n_j, ay, n_q, powers, limits, numbers):
    """G = a V + b and dG/dk at corner (i, j), whose coefficients begin at n_p and n_q."""
    inverse = rx[2 * n_i + 1] * ry[2 * n_j + 1]
    c = min(max(k * inverse, -1.0), 1.0)
    blocks = 1
    while limits[blocks - 1] < abs(c):
        blocks += 1
    power = 1.0
    for p in range(BLOCK):
        powers[p] = power
        power *= c
    for p in range(BLOCK, blocks * BLOCK):
        powers[p] = powers[p - BLOCK] * power
    value, slope = ax[n_p] * ay[n_q], 0.0
    for p in range(1, blocks * BLOCK):
        term = ax[n_p + p] * ay[n_q + p]
        value += term * powers[p]
        slope += term * powers[p - 1] * p
    return numbers[0] * value + numbers[1], numbers[0] * slope * inverse


@njit(fastmath=True, error_model="numpy")
def _move(corner, left, above, slopes, z, numbers):
    """What the growth at three corners adds in a cell; `slopes` is the sum of dG/dk at `left` and `above`."""
    sides = left + above
    return (numbers[2] * corner + numbers[3] * sides + numbers[4] * z * slopes * (sides + corner)) * z


@njit(error_model="numpy")
def _octave(q):
    """The octave of the standard deviation, or BEYOND."""
    if not q < LARGEST:
        return BEYOND
    return np.int64(np.floor(np.log2(max(np.sqrt(max(q, 0.0)), SMALLEST))))


@njit(fastmath=True, error_model="numpy")
def _read(q, octave, place, r, i, a, here, nodes, weights, values, n_count, n_order):
    """Write what `Table.read` returns of a variance to row i, whose coefficients begin at `here`."""
    root = max(np.sqrt(max(q, 0.0)), SMALLEST)
    x, total, hit = 2.0 * root / 2.0**octave - 3.0, 0.0, -1
    for n in range(n_count):
        apart = x - nodes[n]
        hit = n if apart == 0.0 else hit
        weights[n] = nodes[n_count + n] / (apart if apart != 0.0 else 1.0)
    for n in range(n_count):
        weights[n] = weights[n] if hit < 0 else (1.0 if n == hit else 0.0)
        total += weights[n]
    for p in range(n_order):
        a[here + p] = 0.0
    for n in range(n_count):
        for p in range(n_order):
            a[here + p] += weights[n] / total * values[place + n * n_order + p]
    r[2 * i], r[2 * i + 1] = root, 1.0 / root


def _own(
    x, z, q, r, a, k, g, h, new, growth, slope, powers, limits, numbers, nodes, weights, values,
    i_places, i_row, i_octave, n_x, n_d, n_count, n_order,
):  # fmt: skip
    """The triangle below the diagonal of a path against itself, from a row on; ends where an octave has no table."""
    vectorise()
    for i in range(i_row[0], n_x):
        i_row[0] = i
        for j in range(i + 1):
            z[j] = 0.0
            for d in range(n_d):
                z[j] += x[i * n_d + d] * x[j * n_d + d]
        end, stays, here = k[i], False, (i + 1) * n_order
        for _ in range(ROUNDS):
            i_octave[0] = _octave(end)
            if i_octave[0] == BEYOND or i_places[i_octave[0] - LOWEST] < 0:
                return
            place = i_places[i_octave[0] - LOWEST] * n_count * n_order
            _read(end, i_octave[0], place, r, i + 1, a, here, nodes, weights, values, n_count, n_order)
            if stays:
                break
            new[0] = k[0]
            growth[0], slope[0] = _growth(new[0], r, i + 1, a, here, r, 0, a, 0, powers, limits, numbers)
            for j in range(i):
                slopes = slope[j] + h[j + 1]
                new[j + 1] = new[j] + k[j + 1] - k[j] + _move(g[j], growth[j], g[j + 1], slopes, z[j], numbers)
                on = (j + 1) * n_order
                found = _growth(new[j + 1], r, i + 1, a, here, r, j + 1, a, on, powers, limits, numbers)
                growth[j + 1], slope[j + 1] = found
            last = end
            end = 2 * new[i] - k[i] + _move(g[i], growth[i], growth[i], 2 * slope[i], z[i], numbers)
            stays = abs(end - last) <= ENOUGH * max(abs(end), numbers[5])
        q[i + 1] = new[i + 1] = end
        growth[i + 1], slope[i + 1] = _growth(end, r, i + 1, a, here, r, i + 1, a, here, powers, limits, numbers)
        for n in range(i + 2):
            k[n], g[n], h[n] = new[n], growth[n], slope[n]
    i_row[0] = n_x


def _pairs(x, y, z, rx, ry, a, b, k, g, h, powers, limits, numbers, n_x, n_y, n_d, n_order):
    """Row by row, as in `kink`."""
    vectorise()
    for i in range(n_x):
        for j in range(n_y):
            z[j] = 0.0
            for d in range(n_d):
                z[j] += x[i * n_d + d] * y[j * n_d + d]
        here = (i + 1) * n_order
        west, corner, before = k[0], k[0], g[0]
        growth, slope = _growth(k[0], rx, i + 1, a, here, ry, 0, b, 0, powers, limits, numbers)
        g[0], h[0] = growth, slope
        for j in range(n_y):
            new = west + k[j + 1] - corner + _move(before, growth, g[j + 1], slope + h[j + 1], z[j], numbers)
            corner, before, west = k[j + 1], g[j + 1], new
            on = (j + 1) * n_order
            growth, slope = _growth(new, rx, i + 1, a, here, ry, j + 1, b, on, powers, limits, numbers)
            k[j + 1], g[j + 1], h[j + 1] = new, growth, slope


def _each(k, rx, ry, a, b, i_x, i_y, value, slope, powers, limits, numbers, n_size, n_order):
    """G and dG/dk at covariances k, each with its rows of coefficients."""
    vectorise()
    for n in range(n_size):
        p, q = i_x[n], i_y[n]
        found = _growth(k[n], rx, p, a, p * n_order, ry, q, b, q * n_order, powers, limits, numbers)
        value[n], slope[n] = found


@cache
def _compiled(walk: Any) -> Any:
    return callable_from_python(walk)


def _call(walk: Any, *given: Any) -> None:
    _compiled(walk)(*[one.ctypes.data if isinstance(one, np.ndarray) else one for one in given])


@dataclass(frozen=True, eq=False)
class Mehler(Equation):
    """An equation with a table of its activation, which grows as variances are met.

    Attributes:
        table: of its family.

    Example:
        >>> from deeplimits.numerics.gaussian.polynomial import PolynomialFamily
        >>> straight = PolynomialFamily((0.0, 1.0))
        >>> equation = Mehler(straight, 1.0, 0.0, 1.0, (1.0, 0.0, 0.0), Table(straight, 1e-16))
        >>> equation.grid([np.ones((2, 1))], None)[0].round(12).tolist()                        # 1 + 4 z + z^2, z = 1
        [[6.0]]
    """

    table: Table

    def growth(self, k: Tensor, q1: Tensor, q2: Tensor) -> tuple[Tensor, Tensor]:
        found = np.broadcast_arrays(*(part.numpy() for part in (k, q1, q2)))
        (u, i), (v, j) = (np.unique(part.numpy(), return_inverse=True) for part in (q1, q2))
        if not (self.table.cover(u) and self.table.cover(v)):
            return super().growth(k, q1, q2)
        rows = (np.broadcast_to(n.reshape(part.shape), found[0].shape) for n, part in ((i, q1), (j, q2)))
        given = (found[0].ravel(), self._read(u), self._read(v), *(row.ravel() for row in rows))
        value, slope = (torch.from_numpy(part.reshape(found[0].shape)) for part in self._each(*given))
        return value, slope

    def grid(self, dx: Paths, dy: Paths | None) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return K of all pairs, (N, M), of each x with itself and of each y with itself; None where a table fails.

        Args:
            dx: steps of N paths, shape (n, d) each.
            dy: of M paths, or None for x against itself.
        """
        steps = [*dx, *(dy or ())]
        variances = [self.own(path) for path in steps]
        known = [q for q in variances if q is not None]
        if len(known) < len(steps):
            return None
        ends, first = np.array([q[-1] for q in known]), 0 if dy is None else len(dx)
        if not np.isfinite(ends).all():
            return np.full((len(dx), len(ends) - first), np.inf), ends[: len(dx)], ends[first:]
        held = max(2 * cores(), HELD // (8 * self.table.order * max(map(len, known))))
        read = lru_cache(maxsize=held)(lambda n: (filed(steps[n]), *self._read(known[n])))
        columns = lanes.groups([len(q) for q in known[first:]], 1)

        def run(i: int, group: int) -> np.ndarray:
            return self._end(read(i), read(first + int(columns[group][0])))

        found = lanes.matrix(len(dx), columns, dy is None, run)
        if dy is None:
            found[np.diag_indices(len(dx))] = ends
        return found, ends[: len(dx)], ends[first:]

    def own(self, x: np.ndarray) -> np.ndarray | None:
        """Return K(s, s) along a path of steps x, (n, d): shape (n + 1,), its end infinite where it is too large."""
        size, row, octave = len(x) + 1, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        z, q, k, g, h, new, growth, slope = (aligned((size,), float) for _ in range(8))
        q[0] = k[0] = self.start
        if not self.table.cover(q[:1]):
            return None
        start = self._read(q[:1])
        g[:1], h[:1] = self._each(k[:1], start, start, np.zeros(1), np.zeros(1))
        while row[0] < len(x):
            table, known = self.table, row[0] + 1
            r, a = aligned((size, 2), float), aligned((size, table.order), float)
            r[:known], a[:known] = table.read(q[:known])
            moving = (filed(x), z, q, r, a, k, g, h, new, growth, slope)
            read = (filed(table.nodes), aligned((table.count,), float), filed(table.values), table.places)
            _call(_own, *moving, *self._held(), *read, row, octave, *x.shape, table.count, table.order)
            if row[0] < len(x) and octave[0] == BEYOND:
                q[-1] = np.inf
                return q
            if row[0] < len(x) and not table.add(int(octave[0])):
                return None
        return q

    def _read(self, q: np.ndarray) -> Rows:
        roots, coefficients = self.table.read(q)
        return filed(roots), filed(coefficients)

    def _each(self, k: np.ndarray, x: Rows, y: Rows, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return G and dG/dk at covariances k, whose variances are rows i of x and j of y."""
        value, slope = aligned(k.shape, float), aligned(k.shape, float)
        places = (np.ascontiguousarray(n, dtype=np.int64) for n in (i, j))
        held = (*places, value, slope, *self._held(), len(k), self.table.order)
        _call(_each, filed(k), x[0], y[0], x[1], y[1], *held)
        return value, slope

    def _end(self, x: Points, y: Points) -> np.ndarray:
        (dx, rx, a), (dy, ry, b) = x, y
        k, z = (aligned((len(dy) + 1,), float) for _ in range(2))
        k[:] = self.start
        g, h = self._each(k, (rx, a), (ry, b), np.zeros(len(k)), np.arange(len(k)))
        _call(_pairs, dx, dy, z, rx, ry, a, b, k, g, h, *self._held(), len(dx), len(dy), dx.shape[1], self.table.order)
        return k[-1:]

    def _held(self) -> tuple[np.ndarray, ...]:
        """Return room for the powers of a correlation, how many blocks it needs, and the numbers of the scheme."""
        numbers = np.array([self.weight, self.bias, *self.scheme, self.start + 1e-300])
        return aligned((self.table.order,), float), filed(self.table.limits), numbers
