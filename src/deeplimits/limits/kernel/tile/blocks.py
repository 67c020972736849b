"""One step of a tape on one row of a tile: compiled loops over a few hundred entries that stay in the first-level cache.

Shapes: `state` (registers, 2, B) holds k and theta of the block, `spare` (SPARE, B) is scratch; `a` (columns, N1) and `b` (columns, N2) hold what each
input contributes to a step, from column `at` on; `i` is the row's input, `j` the block's first column, `size` its width.
`v` (6,) holds the step's numbers. Formulas of an angle run after `turn`, in separate short loops: one long loop has
too long a chain of dependent operations to keep the processor busy.
"""

from __future__ import annotations

from numba import njit

from deeplimits.limits.kernel.tile.scalar import angle, exponential, inverse_root, wide_vectors

FAST = {"fastmath": True, "error_model": "numpy", "nogil": True, "cache": True, "_nrt": False}
SPARE = 10


@njit(**FAST)
def affine(state, r, size, v):
    """theta <- v0 theta + v2 k + v3; k <- v0 k + v1."""
    wide_vectors()
    k, theta = state[r, 0], state[r, 1]
    weight, bias, gain, shift = v[0], v[1], v[2], v[3]
    for n in range(size):
        theta[n] = weight * theta[n] + gain * k[n] + shift
        k[n] = weight * k[n] + bias


@njit(**FAST)
def add(state, target, source, size, v):
    """target <- v0 target + v1 source, in both k and theta."""
    wide_vectors()
    k, theta, other, other_theta = state[target, 0], state[target, 1], state[source, 0], state[source, 1]
    keep, factor = v[0], v[1]
    for n in range(size):
        k[n] = keep * k[n] + factor * other[n]
        theta[n] = keep * theta[n] + factor * other_theta[n]


@njit(**FAST)
def copy(state, target, source, size):
    """target <- source."""
    wide_vectors()
    k, theta, other, other_theta = state[target, 0], state[target, 1], state[source, 0], state[source, 1]
    for n in range(size):
        k[n] = other[n]
        theta[n] = other_theta[n]


@njit(**FAST)
def normalise(state, r, size, a, b, at, i, j):
    """k and theta times a_i b_j; column: 1/sqrt(q + epsilon)."""
    wide_vectors()
    k, theta, u = state[r, 0], state[r, 1], b[at, j : j + size]
    row = a[at, i]
    for n in range(size):
        scale = row * u[n]
        k[n] *= scale
        theta[n] *= scale


@njit(**FAST)
def turn(state, spare, r, size, a, b, at, i, j):
    """spare <- cosine k a_i b_j, 1/sine, angle."""
    wide_vectors()
    k, u, row, one = state[r, 0], b[at, j : j + size], a[at, i], state.dtype.type(1)
    c, inverse, t = spare[0], spare[1], spare[2]
    for n in range(size):
        c[n] = min(max(k[n] * (row * u[n]), -one), one)
    for n in range(size):
        inverse[n] = inverse_root((one - c[n]) * (one + c[n]))
    for n in range(size):
        t[n] = angle(c[n], (one - c[n]) * (one + c[n]) * inverse[n])


@njit(**FAST)
def rectified_0(state, spare, r, size, v):
    """v2 + v1 t, derivative zero."""
    wide_vectors()
    k, theta = state[r, 0], state[r, 1]
    t = spare[2]
    turned, start, zero = v[1], v[2], state.dtype.type(0)
    for n in range(size):
        k[n] = start + turned * t[n]
        theta[n] = zero


@njit(**FAST)
def rectified_1(state, spare, r, size, v, a, b, at, i, j):
    """s s' (v0 sin t + (v2 + v1 t) cos t), theta times v2 + v1 t; columns: 1/s, s = sqrt(q)."""
    wide_vectors()
    k, theta, w = state[r, 0], state[r, 1], b[at + 1, j : j + size]
    c, inverse, t = spare[0], spare[1], spare[2]
    one, sines, turned, start, root = state.dtype.type(1), v[0], v[1], v[2], a[at + 1, i]
    for n in range(size):
        slope = start + turned * t[n]
        k[n] = (root * w[n]) * (sines * ((one - c[n]) * (one + c[n]) * inverse[n]) + c[n] * slope)
        theta[n] *= slope


@njit(**FAST)
def rectified_2(state, spare, r, size, v, a, b, at, i, j):
    """As p = 1 with sin t -> 3 sin t cos t, cos t -> 1 + 2 cos(t)**2; columns: 1/sqrt(q), q, 2 sqrt(q)."""
    wide_vectors()
    k, theta = state[r, 0], state[r, 1]
    c, inverse, t = spare[0], spare[1], spare[2]
    w, x, scale, first = b[at + 1, j : j + size], b[at + 2, j : j + size], a[at + 1, i], a[at + 2, i]
    one, two = state.dtype.type(1), state.dtype.type(2)
    sines, turned, start, sines_1 = v[0] + v[0] + v[0], v[1], v[2], v[3]
    turned_1, start_1 = v[4], v[5]
    for n in range(size):
        s = (one - c[n]) * (one + c[n]) * inverse[n]
        k[n] = (scale * w[n]) * (sines * s * c[n] + (start + turned * t[n]) * (one + two * c[n] * c[n]))
        theta[n] *= (first * x[n]) * (sines_1 * s + (start_1 + turned_1 * t[n]) * c[n])


@njit(**FAST)
def rectified_3(state, spare, r, size, v, a, b, at, i, j):
    """sin t -> 15 sin t - 11 sin(t)**3, cos t -> 9 cos t + 6 cos(t)**3; columns: 1/sqrt(q), q**1.5, 3 q."""
    wide_vectors()
    k, theta = state[r, 0], state[r, 1]
    c, inverse, t = spare[0], spare[1], spare[2]
    w, x, scale, first = b[at + 1, j : j + size], b[at + 2, j : j + size], a[at + 1, i], a[at + 2, i]
    one, two, nine, six = state.dtype.type(1), state.dtype.type(2), state.dtype.type(9), state.dtype.type(6)
    sines, cubes, turned, start = state.dtype.type(15) * v[0], state.dtype.type(11) * v[0], v[1], v[2]
    sines_1, turned_1, start_1 = v[3] + v[3] + v[3], v[4], v[5]
    for n in range(size):
        square = (one - c[n]) * (one + c[n])
        s, cosines = square * inverse[n], c[n] * (nine + six * c[n] * c[n])
        k[n] = (scale * w[n]) * (s * (sines - cubes * square) + (start + turned * t[n]) * cosines)
        theta[n] *= (first * x[n]) * (sines_1 * s * c[n] + (start_1 + turned_1 * t[n]) * (one + two * c[n] * c[n]))


@njit(**FAST)
def erf(state, spare, r, size, v, a, b, at, i, j):
    """v0 asin(k u u') + v1, theta times v0 u u' / sqrt(1 - (k u u')**2); column: u = f sqrt(2/(1 + 2 f**2 q))."""
    wide_vectors()
    k, theta, u = state[r, 0], state[r, 1], b[at, j : j + size]
    inverse, t = spare[1], spare[2]
    amplitude, front, row = v[0], v[1] + v[0] * state.dtype.type(1.5707963267948966), v[0] * a[at, i]
    for n in range(size):
        k[n] = front - amplitude * t[n]
        theta[n] *= row * u[n] * inverse[n]


@njit(**FAST)
def gelu(state, spare, r, size, v, a, b, at, i, j):
    """k G + P (q q' - k**2 + k**2 (u**2 + u'**2)); columns: u = 1/sqrt(1 + q), q."""
    wide_vectors()
    k, theta = state[r, 0], state[r, 1]
    inverse, t = spare[1], spare[2]
    u, w, row, q = b[at, j : j + size], b[at + 1, j : j + size], a[at, i], a[at + 1, i]
    factor, front = v[0], v[1] + v[0] * state.dtype.type(1.5707963267948966)
    for n in range(size):
        old, scale, both = k[n], row * u[n] * inverse[n], row * row + u[n] * u[n]
        probability, density = front - factor * t[n], factor * scale
        k[n] = old * probability + density * (q * w[n] - old * old + old * old * both)
        theta[n] *= probability + density * old * (both + scale * scale)


@njit(**FAST)
def sine(state, r, size, v, a, b, at, i, j):
    """v1 e1 - v2 e2, theta times v3 e1 + v4 e2, e = exp(+-v0 k - h - h'); column: h = v0 q / 2."""
    wide_vectors()
    k, theta, u = state[r, 0], state[r, 1], b[at, j : j + size]
    rate, front, back, front_1, back_1, row = v[0], v[1], v[2], v[3], v[4], a[at, i]
    for n in range(size):
        low, move = -(row + u[n]), rate * k[n]
        together, apart = exponential(low + move), exponential(low - move)
        k[n] = front * together - back * apart
        theta[n] *= front_1 * together + back_1 * apart


@njit(**FAST)
def growth(state, r, size, v, a, b, at, i, j):
    """v1 exp(v0 k + h + h'), theta times v0 as much; column: h = v0 q / 2."""
    wide_vectors()
    k, theta, u = state[r, 0], state[r, 1], b[at, j : j + size]
    rate, amplitude, row = v[0], v[1], a[at, i]
    for n in range(size):
        value = amplitude * exponential(row + u[n] + rate * k[n])
        k[n] = value
        theta[n] *= rate * value


@njit(**FAST)
def bump(state, r, size, v, a, b, at, i, j):
    """K = u u' / sqrt(1 - (v0 k u u')**2), theta times v0**2 k K**3; v0 = 2 rate; column: u = 1/sqrt(1 + 2 rate q)."""
    wide_vectors()
    k, theta, u = state[r, 0], state[r, 1], b[at, j : j + size]
    one, rate, row = state.dtype.type(1), v[0], a[at, i]
    for n in range(size):
        old, scale = k[n], row * u[n]
        s = rate * old * scale
        value = scale * inverse_root((one - s) * (one + s))
        k[n] = value
        theta[n] *= rate * rate * old * value * value * value
