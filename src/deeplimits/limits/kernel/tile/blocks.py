"""One step of a tape on one row of a tile: compiled loops over a few hundred entries that stay in first-level cache.

Every block has the same arguments, pointers to the same kind of reals:
`k`, `theta`: the step's register; `k2`, `theta2`: another register; `c`, `inverse`, `t`: cosine, 1/sine and angle,
left by `turn`; `v`: the step's numbers; `a`, `a1`, `a2`: what the row's input contributes (one number each);
`u`, `u1`, `u2`: what the columns' inputs contribute; `n_size`: how many entries.

Formulas of an angle run after `turn`, in short loops: one long loop has too long a chain of dependent operations to
keep the processor busy.
"""

from __future__ import annotations

from deeplimits.limits.kernel.tile.scalar import angle, arcsine, exponential, inverse_root, like, vectorise

UNROLL, HEAD = 4, 8


def affine(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """theta <- v0 theta + v2 k + v3; k <- v0 k + v1."""
    vectorise()
    weight, bias, gain, shift = v[0], v[1], v[2], v[3]
    for n in range(n_size):
        theta[n] = weight * theta[n] + gain * k[n] + shift
        k[n] = weight * k[n] + bias


def add(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """k <- k + v0 k2, theta likewise."""
    vectorise()
    factor = v[0]
    for n in range(n_size):
        k[n] += factor * k2[n]
        theta[n] += factor * theta2[n]


def copy(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """k <- k2, theta likewise."""
    vectorise()
    for n in range(n_size):
        k[n] = k2[n]
        theta[n] = theta2[n]


def normalise(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """k and theta times a u; column: 1/sqrt(q + epsilon)."""
    vectorise()
    row = a[0]
    for n in range(n_size):
        scale = row * u[n]
        k[n] *= scale
        theta[n] *= scale


def turn(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """c <- k a u, clamped to [-1, 1]; inverse <- 1/sine; t <- angle."""
    vectorise()
    row, one = a[0], like(a[0], 1.0)
    for n in range(n_size):
        c[n] = min(max(k[n] * (row * u[n]), -one), one)
    for n in range(n_size):
        inverse[n] = inverse_root((one - c[n]) * (one + c[n]))
    for n in range(n_size):
        t[n] = angle(c[n], (one - c[n]) * (one + c[n]) * inverse[n])


def lean(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """As `turn`, but t <- asin(c), which keeps its digits where c is small."""
    vectorise()
    row, one = a[0], like(a[0], 1.0)
    for n in range(n_size):
        c[n] = min(max(k[n] * (row * u[n]), -one), one)
    for n in range(n_size):
        inverse[n] = inverse_root((one - c[n]) * (one + c[n]))
    for n in range(n_size):
        t[n] = arcsine(c[n], (one - c[n]) * (one + c[n]) * inverse[n])


def rectified_0(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """v2 + v1 t, derivative zero; column: 1/sqrt(q)."""
    vectorise()
    turned, start, zero = v[1], v[2], like(v[0], 0.0)
    for n in range(n_size):
        k[n] = start + turned * t[n]
        theta[n] = zero


def rectified_1(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """s s' (v0 sin t + (v2 + v1 t) cos t), theta times v2 + v1 t; columns: 1/s, s = sqrt(q)."""
    vectorise()
    one, sines, turned, start, root = like(v[0], 1.0), v[0], v[1], v[2], a1[0]
    for n in range(n_size):
        slope = start + turned * t[n]
        k[n] = (root * u1[n]) * (sines * ((one - c[n]) * (one + c[n]) * inverse[n]) + c[n] * slope)
        theta[n] *= slope


def rectified_2(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """As p = 1 with sin t -> 3 sin t cos t, cos t -> 1 + 2 cos(t)**2; columns: 1/sqrt(q), q, 2 sqrt(q)."""
    vectorise()
    one, two, scale, first = like(v[0], 1.0), like(v[0], 2.0), a1[0], a2[0]
    sines, turned, start, sines_1, turned_1, start_1 = v[0] * like(v[0], 3.0), v[1], v[2], v[3], v[4], v[5]
    for n in range(n_size):
        s = (one - c[n]) * (one + c[n]) * inverse[n]
        k[n] = (scale * u1[n]) * (sines * s * c[n] + (start + turned * t[n]) * (one + two * c[n] * c[n]))
        theta[n] *= (first * u2[n]) * (sines_1 * s + (start_1 + turned_1 * t[n]) * c[n])


def rectified_3(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """sin t -> 15 sin t - 11 sin(t)**3, cos t -> 9 cos t + 6 cos(t)**3; columns: 1/sqrt(q), q**1.5, 3 q."""
    vectorise()
    one, two, nine, six = like(v[0], 1.0), like(v[0], 2.0), like(v[0], 9.0), like(v[0], 6.0)
    sines, cubes, turned, start = like(v[0], 15.0) * v[0], like(v[0], 11.0) * v[0], v[1], v[2]
    sines_1, turned_1, start_1, scale, first = v[3] * like(v[0], 3.0), v[4], v[5], a1[0], a2[0]
    for n in range(n_size):
        square = (one - c[n]) * (one + c[n])
        s, cosines = square * inverse[n], c[n] * (nine + six * c[n] * c[n])
        k[n] = (scale * u1[n]) * (s * (sines - cubes * square) + (start + turned * t[n]) * cosines)
        theta[n] *= (first * u2[n]) * (sines_1 * s * c[n] + (start_1 + turned_1 * t[n]) * (one + two * c[n] * c[n]))


def erf(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """v1 + v0 asin c, theta v0 a u / sqrt(1 - c**2), c = k a u, after `lean`; column f sqrt(2/(1 + 2 f**2 q))."""
    vectorise()
    amplitude, front, row = v[0], v[1], v[0] * a[0]
    for n in range(n_size):
        k[n] = front + amplitude * t[n]
        theta[n] *= row * u[n] * inverse[n]


def gelu(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """k G + P (q q' - k**2 + k**2 (a**2 + u**2)), G = v1 + v0 asin c, c = k a u; column: 1/sqrt(1 + q), q, sqrt(1 + q).

    Where q, q' > 1, in terms of c alone: rounding that is not the same in k and in c would be felt at small angles.
    """
    vectorise()
    one, two, row, q, root = like(a[0], 1.0), like(a[0], 2.0), a[0], a1[0], a2[0]
    factor, front = v[0], v[1] + v[0] * like(v[0], 1.5707963267948966)
    for n in range(n_size):
        old, pair, both = k[n], row * u[n], row * row + u[n] * u[n]
        scale, sine_ = pair * inverse[n], (one - c[n]) * (one + c[n]) * inverse[n]
        probability, density = front - factor * t[n], factor * scale
        small = old * probability + density * (q * u1[n] - old * old + old * old * both)
        large = (root * u2[n]) * (c[n] * probability + factor * sine_)
        large += factor * pair * (inverse[n] - sine_ * (two + q + u1[n]))
        k[n] = large if min(q, u1[n]) > one else small
        theta[n] *= probability + density * old * (both + scale * scale)


def sine(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """v1 e1 - v2 e2, theta times v3 e1 + v4 e2, e = exp(+-m - a - u), m = v0 k; column: v0 q / 2.

    Where m is small, exp(-a - u) times sums of cosh m and sinh m, so that differences of e1 and e2 keep their digits.
    """
    vectorise()
    one, two, half, rate, row = like(v[0], 1.0), like(v[0], 2.0), like(v[0], 0.5), v[0], a[0]
    front, back, front_1, back_1 = v[1], v[2], v[3], v[4]
    even, odd, even_1, odd_1 = front - back, front + back, front_1 + back_1, front_1 - back_1
    p3, p5, p7, p9 = like(v[0], 1 / 6), like(v[0], 1 / 20), like(v[0], 1 / 42), like(v[0], 1 / 72)
    p11, p13, p4, p6 = like(v[0], 1 / 110), like(v[0], 1 / 156), like(v[0], 1 / 12), like(v[0], 1 / 30)
    p8, p10, p12, p14 = like(v[0], 1 / 56), like(v[0], 1 / 90), like(v[0], 1 / 132), like(v[0], 1 / 182)
    for n in range(n_size):
        low, m = -(row + u[n]), rate * k[n]
        together, apart, y = exponential(low + m), exponential(low - m), m * m
        base = together * apart
        base *= inverse_root(base)
        sinh = m * (one + p3 * y * (one + p5 * y * (one + p7 * y * (one + p9 * y * (one + p11 * y * (one + p13 * y))))))
        tail = p8 * y * (one + p10 * y * (one + p12 * y * (one + p14 * y)))
        cosh = one + y / two * (one + p4 * y * (one + p6 * y * (one + tail)))
        small = abs(m) < half
        k[n] = base * (even * cosh + odd * sinh) if small else front * together - back * apart
        theta[n] *= base * (even_1 * cosh + odd_1 * sinh) if small else front_1 * together + back_1 * apart


def growth(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """v1 exp(v0 k + a + u), theta times v0 as much; column: v0 q / 2."""
    vectorise()
    rate, amplitude, row = v[0], v[1], a[0]
    for n in range(n_size):
        value = amplitude * exponential(row + u[n] + rate * k[n])
        k[n] = value
        theta[n] *= rate * value


def bump(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """K = a u / sqrt(1 - (v0 k a u)**2), theta times v0**2 k K**3; v0 = 2 rate; column: 1/sqrt(1 + 2 rate q)."""
    vectorise()
    one, rate, row = like(v[0], 1.0), v[0], a[0]
    for n in range(n_size):
        old, scale = k[n], row * u[n]
        s = rate * old * scale
        value = scale * inverse_root((one - s) * (one + s))
        k[n] = value
        theta[n] *= rate * rate * old * value * value * value


def chebyshev(k, theta, k2, theta2, c, inverse, t, v, a, a1, a2, u, u1, u2, n_size):
    """a1 u1 times two Chebyshev series in a rational map of the angle (v0 to v5), by Clenshaw's rule; v6: lengths."""
    vectorise()
    front, slope, bottom, first, second, shift = v[0], v[1], v[2], v[3], v[4], v[5]
    zero, half, count, root = like(v[0], 0.0), like(v[0], 0.5), int(v[6]), a1[0]
    for n in range(n_size):
        t[n] = (front + slope * t[n]) / (bottom + t[n] * (first + second * t[n])) + shift
        k[n], theta[n], c[n], inverse[n] = zero, zero, zero, zero
    m = count
    while m > 0:
        m -= UNROLL
        i, j = m + HEAD, m + count + HEAD
        p0, p1, p2, p3 = v[i], v[i + 1], v[i + 2], v[i + 3]
        q0, q1, q2, q3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        for n in range(n_size):
            x, last, before = t[n], k[n], c[n]
            before = (p3 - before) + x * last
            last = (p2 - last) + x * before
            before = (p1 - before) + x * last
            k[n] = (p0 - last) + x * before
            c[n] = before
            last, before = theta[n], inverse[n]
            before = (q3 - before) + x * last
            last = (q2 - last) + x * before
            before = (q1 - before) + x * last
            theta[n] = (q0 - last) + x * before
            inverse[n] = before
    for n in range(n_size):
        scale, x = root * u1[n], half * t[n]
        k[n] = scale * (k[n] - x * c[n])
        theta[n] = scale * (theta[n] - x * inverse[n])


def flip(source, target, n_stride, n_target, n_rows, n_columns):
    """target[j, i] <- source[i, j]; the rows of the two matrices are `n_stride` and `n_target` apart."""
    vectorise()
    for j in range(n_columns):
        for i in range(n_rows):
            target[j * n_target + i] = source[i * n_stride + j]
