"""One step of a tape on one row of a tile: compiled loops over a few hundred entries that stay in the first-level cache.

Shapes: `state` (registers, 2, B) holds k and theta of the block; `a` (columns, N1) and `b` (columns, N2) hold what each
input contributes to a step, from column `at` on; `i` is the row's input, `j` the block's first column, `size` its width.
`v` (6,) holds the step's numbers.
"""

from __future__ import annotations

from numba import njit

from deeplimits.limits.kernel.tile.scalar import angle, arcsine, exponential, inverse_root, wide_vectors

FAST = {"fastmath": True, "error_model": "numpy", "nogil": True, "cache": True}


@njit(**FAST)
def affine(state, r, size, v):
    """theta <- v0 theta + v2 k + v3; k <- v0 k + v1."""
    wide_vectors()
    weight, bias, gain, shift = v[0], v[1], v[2], v[3]
    for n in range(size):
        state[r, 1, n] = weight * state[r, 1, n] + gain * state[r, 0, n] + shift
        state[r, 0, n] = weight * state[r, 0, n] + bias


@njit(**FAST)
def add(state, target, source, size, v):
    """target <- v0 target + v1 source, in both k and theta."""
    wide_vectors()
    keep, factor = v[0], v[1]
    for n in range(size):
        state[target, 0, n] = keep * state[target, 0, n] + factor * state[source, 0, n]
        state[target, 1, n] = keep * state[target, 1, n] + factor * state[source, 1, n]


@njit(**FAST)
def copy(state, target, source, size):
    """target <- source."""
    wide_vectors()
    for n in range(size):
        state[target, 0, n] = state[source, 0, n]
        state[target, 1, n] = state[source, 1, n]


@njit(**FAST)
def normalise(state, r, size, a, b, at, i, j):
    """k and theta times a_i b_j; column: 1/sqrt(q + epsilon)."""
    wide_vectors()
    row = a[at, i]
    for n in range(size):
        scale = row * b[at, j + n]
        state[r, 0, n] *= scale
        state[r, 1, n] *= scale


@njit(**FAST)
def rectified_0(state, r, size, v, a, b, at, i, j):
    """v0 (pi - t) + v1 t, derivative zero; column: 1/sqrt(q)."""
    wide_vectors()
    one = state.dtype.type(1)
    row = a[at, i]
    for n in range(size):
        c = min(max(state[r, 0, n] * (row * b[at, j + n]), -one), one)
        square = (one - c) * (one + c)
        t = angle(c, square * inverse_root(square))
        state[r, 0, n] = v[2] + v[1] * t
        state[r, 1, n] = state.dtype.type(0)


@njit(**FAST)
def rectified_1(state, r, size, v, a, b, at, i, j):
    """s s' (v0 sin t + v2 cos t + v1 t cos t), theta times v2 + v1 t; columns: 1/sqrt(q), sqrt(q)."""
    wide_vectors()
    one = state.dtype.type(1)
    sines, turn, start = v[0], v[1], v[2]
    row, root = a[at, i], a[at + 1, i]
    for n in range(size):
        c = min(max(state[r, 0, n] * (row * b[at, j + n]), -one), one)
        square = (one - c) * (one + c)
        s = square * inverse_root(square)
        slope = start + turn * angle(c, s)
        state[r, 0, n] = (root * b[at + 1, j + n]) * (sines * s + c * slope)
        state[r, 1, n] *= slope


@njit(**FAST)
def rectified_2(state, r, size, v, a, b, at, i, j):
    """p = 2: columns 1/sqrt(q), q, 2 sqrt(q); v: J weights (v0 of sin, v1, v2 of the angle), the derivative's (v3, v4, v5)."""
    wide_vectors()
    one = state.dtype.type(1)
    two, three = one + one, one + one + one
    row, scale, first = a[at, i], a[at + 1, i], a[at + 2, i]
    for n in range(size):
        c = min(max(state[r, 0, n] * (row * b[at, j + n]), -one), one)
        square = (one - c) * (one + c)
        s = square * inverse_root(square)
        t = angle(c, s)
        state[r, 0, n] = (scale * b[at + 1, j + n]) * (three * v[0] * s * c + (v[2] + v[1] * t) * (one + two * c * c))
        state[r, 1, n] *= (first * b[at + 2, j + n]) * (v[3] * s + (v[5] + v[4] * t) * c)


@njit(**FAST)
def rectified_3(state, r, size, v, a, b, at, i, j):
    """p = 3: columns 1/sqrt(q), q**1.5, 3 q; v as in p = 2."""
    wide_vectors()
    one = state.dtype.type(1)
    two, three = one + one, one + one + one
    sines, cubes = state.dtype.type(15) * v[0], state.dtype.type(11) * v[0]
    nine, six = three * three, two * three
    row, scale, first = a[at, i], a[at + 1, i], a[at + 2, i]
    for n in range(size):
        c = min(max(state[r, 0, n] * (row * b[at, j + n]), -one), one)
        square = (one - c) * (one + c)
        s = square * inverse_root(square)
        t = angle(c, s)
        value = s * (sines - cubes * square) + (v[2] + v[1] * t) * c * (nine + six * c * c)
        slope = three * v[3] * s * c + (v[5] + v[4] * t) * (one + two * c * c)
        state[r, 0, n] = (scale * b[at + 1, j + n]) * value
        state[r, 1, n] *= (first * b[at + 2, j + n]) * slope


@njit(**FAST)
def erf(state, r, size, v, a, b, at, i, j):
    """v0 asin(k u u') + v1, theta times v0 u u' / sqrt(1 - (k u u')**2); column: u = f sqrt(2/(1 + 2 f**2 q))."""
    wide_vectors()
    one, zero, right = state.dtype.type(1), state.dtype.type(0), state.dtype.type(1.5707963267948966)
    amplitude, shift = v[0], v[1]
    row = a[at, i]
    for n in range(size):
        scale = row * b[at, j + n]
        s = state[r, 0, n] * scale
        square = max((one - s) * (one + s), zero)
        inverse = inverse_root(square)
        size_s, other = abs(s), square * inverse
        p = arcsine(min(size_s, other))
        p = right - p if size_s > other else p
        state[r, 0, n] = (amplitude if s > zero else -amplitude) * p + shift
        state[r, 1, n] *= amplitude * scale * inverse


@njit(**FAST)
def gelu(state, r, size, v, a, b, at, i, j):
    """k G + P (q q' - k**2 + k**2 (u**2 + u'**2)); columns: u = 1/sqrt(1 + q), q."""
    wide_vectors()
    one, zero, right = state.dtype.type(1), state.dtype.type(0), state.dtype.type(1.5707963267948966)
    turn, quarter = v[0], v[1]
    row, q = a[at, i], a[at + 1, i]
    for n in range(size):
        column = b[at, j + n]
        k, scale = state[r, 0, n], row * column
        s = k * scale
        square = max((one - s) * (one + s), zero)
        inverse = inverse_root(square)
        size_s, other = abs(s), square * inverse
        p = arcsine(min(size_s, other))
        p = right - p if size_s > other else p
        probability = quarter + turn * (p if s > zero else -p)
        density = turn * scale * inverse
        both = row * row + column * column
        state[r, 0, n] = k * probability + density * (q * b[at + 1, j + n] - k * k + k * k * both)
        state[r, 1, n] *= probability + density * k * (both + scale * scale * inverse * inverse)


@njit(**FAST)
def sine(state, r, size, v, a, b, at, i, j):
    """v1 e1 - v2 e2, theta times v3 e1 + v4 e2, e = exp(+-v0 k - h - h'); column: h = v0 q / 2."""
    wide_vectors()
    rate, row = v[0], a[at, i]
    for n in range(size):
        low, move = -(row + b[at, j + n]), rate * state[r, 0, n]
        together, apart = exponential(low + move), exponential(low - move)
        state[r, 0, n] = v[1] * together - v[2] * apart
        state[r, 1, n] *= v[3] * together + v[4] * apart


@njit(**FAST)
def growth(state, r, size, v, a, b, at, i, j):
    """v1 exp(v0 k + h + h'), theta times v0 as much; column: h = v0 q / 2."""
    wide_vectors()
    rate, row = v[0], a[at, i]
    for n in range(size):
        value = v[1] * exponential(row + b[at, j + n] + rate * state[r, 0, n])
        state[r, 0, n] = value
        state[r, 1, n] *= rate * value


@njit(**FAST)
def bump(state, r, size, v, a, b, at, i, j):
    """K = u u' / sqrt(1 - (v0 k u u')**2), theta times v0**2 k K**3; v0 = 2 rate; column: u = 1/sqrt(1 + 2 rate q)."""
    wide_vectors()
    one = state.dtype.type(1)
    rate, row = v[0], a[at, i]
    for n in range(size):
        k, scale = state[r, 0, n], row * b[at, j + n]
        s = rate * k * scale
        value = scale * inverse_root((one - s) * (one + s))
        state[r, 0, n] = value
        state[r, 1, n] *= rate * rate * k * value * value * value
