"""A linear model whose features are a root of the kernel, trained in its weights: no formula of the limit is used."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

import deeplimits as dl

RNG = np.random.default_rng(1)
NET, DEPTH = dl.Mlp("erf", weight_std=1.3, bias_std=0.2, readout_std=0.8, readout_bias_std=0.1), 2
X, NEW = RNG.standard_normal((9, 4)), RNG.standard_normal((5, 4)) * 1.5
Y = np.stack([np.sin(X.sum(1)), 3 * X[:, 0] + 1], axis=1)


def kernels(train="all", net=NET, depth=DEPTH):
    """Return K, and the kernel that moves the outputs, on training rows and then new ones, (14, 14) each."""
    found = dl.kernel(net, np.concatenate([X, NEW]), depth=depth)
    return found.nngp, found.nngp if train == "readout" else found.ntk


def propagator(moving, rule="flow", time=1.0, rate=None, momentum=0.0, ridge=0.0):
    """Return the matrix B (14, 9) with f(t) = f(0) + B (y - f_X(0)), from weights moved step by step.

    f = f(0) + J w with J J^T the kernel, w = 0 at the start, and the loss (1/2)|f_X - y|^2 + (ridge/2) |w|^2.
    """
    J = np.linalg.cholesky(moving)
    seen = J[: len(X)]
    hessian = seen.T @ seen + ridge * np.eye(len(J))
    if rule == "flow":
        size, count = len(J), len(X)
        block = np.zeros((size + count, size + count))
        block[:size, :size], block[:size, size:] = -hessian * time, seen.T * time
        return J @ expm(block)[:size, size:]
    w, v = np.zeros((2, len(J), len(X)))
    for _ in range(time):
        v = momentum * v - rate * (hessian @ w - seen.T)
        w = w + v
    return J @ w


def law(nngp, B, y):
    """Return mean (14, C) and covariance (14, 14) of f(0) + B (y - f_X(0)), f(0) ~ N(0, K)."""
    map_ = np.eye(len(nngp)) - np.pad(B, ((0, 0), (0, len(nngp) - B.shape[1])))
    return B @ y, map_ @ nngp @ map_.T
