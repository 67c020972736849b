"""Random compositions of layers against a recursion that reads the description itself, matrix by matrix."""

from __future__ import annotations

from math import inf, pi

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deeplimits as dl
from deeplimits.architecture.compose import Parallel, Repeat, Residual, Serial, expand
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.norm import LayerNorm, RMSNorm

act, DEPTH, WIDTH = dl.act, dl.DEPTH, dl.WIDTH
X = np.random.default_rng(5).standard_normal((5, 4)) * np.array([[0.4], [1], [1], [2], [1]])
X[4] = -1.5 * X[1]


def relu(q1, q2, k):
    s = np.sqrt(q1 * q2)
    t = np.arccos(np.clip(k / s, -1, 1))
    return s * (np.sin(t) + (pi - t) * np.cos(t)) / (2 * pi), (pi - t) / (2 * pi)


def erf(q1, q2, k):
    a, b = 1 + 2 * q1, 1 + 2 * q2
    return 2 / pi * np.arcsin(2 * k / np.sqrt(a * b)), 4 / pi / np.sqrt(a * b - 4 * k * k)


def cosine(q1, q2, k):
    e = np.exp(-(q1 + q2) / 2)
    return e * np.cosh(k), e * np.sinh(k)


DUALS = {act.Relu: relu, act.Erf: erf, act.Cos: cosine}


def evaluate(layer, k, theta, features, width=None):
    """Return (K, Theta, features) after a layer at a finite depth; `width` means the standard parametrization."""
    q = np.diag(k)
    match layer:
        case Serial(layers=layers):
            for part in layers:
                k, theta, features = evaluate(part, k, theta, features, width)
        case Residual(branch=branch, scale=scale):
            b, t, _ = evaluate(branch, k, theta, features, width)
            k, theta = k + scale**2 * b, theta + scale**2 * t
        case Parallel(branches=branches):
            found = [evaluate(branch, k, theta, features, width) for branch in branches]
            k, theta, features = sum(f[0] for f in found), sum(f[1] for f in found), found[0][2]
        case Dense(features=out, weight_std=w, bias_std=b):
            gain, shift = (w * w, b * b) if width is None else (features, float(b > 0))
            theta, k = w * w * theta + gain * k + shift, w * w * k + b * b
            features = width if out == WIDTH else out
        case LayerNorm(epsilon=e) | RMSNorm(epsilon=e):
            scale = np.sqrt(np.outer(q + e, q + e))
            k, theta = k / scale, theta / scale
        case _:
            k, slope = DUALS[type(layer)](q[:, None], q[None, :], k)
            theta = slope * theta
    return k, theta, features


stds, biases = st.sampled_from([0.5, 0.8, 1.1, 1.4]), st.sampled_from([0.0, 0.0, 0.3])
dense = st.builds(Dense, weight_std=stds, bias_std=biases)
activations = st.sampled_from([act.Relu(), act.Erf(), act.Cos()])
norms = st.sampled_from([LayerNorm(), RMSNorm(0.1)])
scales = st.sampled_from([0.5, 1.0, DEPTH**-0.5, 0.7 / DEPTH, lambda place, depth: 1 / (place + depth)])
step = st.builds(lambda a, d: Serial(a, d), activations, dense)
normed = st.builds(lambda n, a, d: Serial(n, a, d), norms, activations, dense)
branch = step | normed


def larger(inner):
    """Blocks from Gaussian features to Gaussian features."""
    return st.one_of(
        st.builds(lambda b, s: Repeat(Residual(b, s), DEPTH), inner, scales),
        st.builds(lambda b, n: Repeat(Residual(b, 0.6), n), inner, st.integers(1, 3)),
        st.builds(lambda a, b: Parallel(a, b), inner, inner),
        st.builds(lambda a, b, d: Serial(Parallel(Serial(a, d), Serial(), b)), inner, inner, dense),
        st.builds(lambda a, b: Serial(a, b), inner, inner),
        st.builds(lambda b: Repeat(b, 2), inner),
    )


def closed(block):
    """Say whether a block ends every residual branch in a Dense layer of its own."""
    try:
        dl.describe(Serial(Dense(), block, Dense(1)), 2)
    except dl.DeepLimitsError:
        return False
    return True


blocks = st.recursive(branch, larger, max_leaves=5).filter(closed)
readout = st.builds(lambda w, b: Dense(1, w, b), stds, biases)
networks = st.builds(lambda d, b, r: Serial(d, b, r), dense, blocks, readout)


@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(networks, st.integers(1, 4), st.booleans())
def test_random_networks(net, depth, standard):
    width = 32 if standard else None
    k, theta, _ = evaluate(expand(net, depth), X @ X.T / 4, np.zeros((5, 5)), 4, width)
    options = {"parametrization": "standard", "widths": 32} if standard else {}
    found = dl.kernel(net, X, depth=depth, **options)
    for value, expected in ((found.nngp, k), (found.ntk, theta)):
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        off = np.abs(value - expected)
        np.testing.assert_array_less(off, 1e-7 * scale + 1e-14)  # the plain recursion loses half its digits at c = 1
        generic = ~np.eye(5, dtype=bool)
        generic[1, 4] = generic[4, 1] = False
        np.testing.assert_array_less(off[generic], 1e-11 * scale[generic] + 1e-14)


@settings(max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(dense, branch, branch, st.sampled_from([0.4, 0.9]), readout)
def test_random_flows_are_limits_of_their_layers(first, one, two, factor, last):
    """Any block with scales c DEPTH**-1/2: differences to depth infinity halve from depth 64 to 128."""
    block = Serial(Residual(one, factor * DEPTH**-0.5), Residual(two, 0.5 * DEPTH**-0.5))
    net = Serial(first, Repeat(block), last)
    limit, near, nearer = (dl.kernel(net, X, depth=depth) for depth in (inf, 64, 128))
    for kind in ("nngp", "ntk"):
        a, b, c = (getattr(k, kind) for k in (near, nearer, limit))
        wide, narrow = np.abs(a - c).max(), np.abs(b - c).max()
        assert wide <= 0.1 * np.abs(c).max()
        assert narrow == pytest.approx(wide / 2, rel=0.1, abs=1e-9 * np.abs(c).max())
