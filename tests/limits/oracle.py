"""Kernels at 50 digits with mpmath, written independently of the package: pairs of inputs, plain formulas."""

from __future__ import annotations

import numpy as np
from mpmath import mp, mpf

mp.dps = 50


def relu(q1, q2, k):
    """Return (E[phi phi], E[phi' phi']) of ReLU."""
    s = mp.sqrt(q1 * q2)
    if s == 0:
        return mpf(0), mpf(1) / 4
    t = mp.atan2(mp.sqrt(abs(s * s - k * k)), k)
    return s * (mp.sin(t) + (mp.pi - t) * mp.cos(t)) / (2 * mp.pi), (mp.pi - t) / (2 * mp.pi)


def leaky(slope):
    """Return the dual of leaky ReLU."""
    a, b = (1 + mpf(slope)) / 2, (1 - mpf(slope)) / 2

    def dual(q1, q2, k):
        s = mp.sqrt(q1 * q2)
        t = mp.atan2(mp.sqrt(abs(s * s - k * k)), k)
        value = a * a * k + b * b * 2 / mp.pi * s * (mp.sin(t) + (mp.pi / 2 - t) * mp.cos(t))
        return value, a * a + b * b * (1 - 2 * t / mp.pi)

    return dual


def erf(q1, q2, k):
    """Return (E[phi phi], E[phi' phi']) of erf."""
    a, b = 1 + 2 * q1, 1 + 2 * q2
    return 2 / mp.pi * mp.asin(2 * k / mp.sqrt(a * b)), 4 / mp.pi / mp.sqrt(a * b - 4 * k * k)


def gelu(q1, q2, k):
    """Return (E[phi phi], E[phi' phi']) of GELU."""
    a, b = 1 + q1, 1 + q2
    g = mpf(1) / 4 + mp.asin(k / mp.sqrt(a * b)) / (2 * mp.pi)
    d = a * b - k * k
    p = 1 / (2 * mp.pi * mp.sqrt(d))
    value = k * g + p * (q1 * q2 - k * k + k * k * (1 / a + 1 / b))
    return value, g + k * p * (1 / a + 1 / b) + p * k / d


def sine(q1, q2, k):
    """Return (E[phi phi], E[phi' phi']) of sin."""
    e = mp.exp(-(q1 + q2) / 2)
    return e * mp.sinh(k), e * mp.cosh(k)


DUALS = {"relu": relu, "leaky": leaky(0.2), "abs": leaky(-1), "erf": erf, "gelu": gelu, "sin": sine}


def start(x, y):
    """Return (q1, q2, k) of two float64 rows, exactly."""
    x, y = ([mpf(float(v)) for v in row] for row in (x, y))
    d = len(x)
    dot = lambda a, b: sum(u * v for u, v in zip(a, b, strict=True)) / d
    return dot(x, x), dot(y, y), dot(x, y)


def mlp(dual, x, y, depth, weight_std, bias_std, readout_std=1.0):
    """Return {depth: (K, Theta)} of an MLP at every depth up to `depth`."""
    w, b, r = (mpf(float(v)) ** 2 for v in (weight_std, bias_std, readout_std))
    q1, q2, k = start(x, y)
    theta = mpf(0)
    found = {}
    for layer in range(1, depth + 1):
        q1, q2, k, theta = w * q1 + b, w * q2 + b, w * k + b, w * theta + w * k + b
        value, slope = dual(q1, q2, k)
        theta = slope * theta
        q1, q2, k = dual(q1, q1, q1)[0], dual(q2, q2, q2)[0], value
        found[layer] = (r * k, r * theta + r * k)
    return found


def resnet(dual, x, y, depth, weight_std, bias_std):
    """Return (K, Theta) of a residual network with one-layer branches scaled by 1/sqrt(depth)."""
    w, b = (mpf(float(v)) ** 2 for v in (weight_std, bias_std))
    q1, q2, k = start(x, y)
    theta, a = k, 1 / mpf(depth)
    for _ in range(depth):
        value, slope = dual(q1, q2, k)
        theta = theta + a * (w * slope * theta + w * value + b)
        q1, q2 = (q + a * (w * dual(q, q, q)[0] + b) for q in (q1, q2))
        k = k + a * (w * value + b)
    return k, theta + k


def near_pairs(angle, ratio=1.0, dimension=5, seed=0):
    """Return two float64 rows at about the given angle, the second `ratio` times as long."""
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, dimension))
    z -= x * (x @ z) / (x @ x)
    z *= np.linalg.norm(x) / np.linalg.norm(z)
    return x, ratio * (np.cos(angle) * x + np.sin(angle) * z)
