"""How much each training input says about a new one at infinite depth."""

from __future__ import annotations

from math import inf

import numpy as np

from deeplimits.limits.depth.dual_map import MAJORITY, SINGULAR, ZERO, Cosines, DualMap
from deeplimits.limits.depth.neighbour import potential
from deeplimits.limits.depth.recursion import log_ntk
from deeplimits.limits.depth.singular import singular_kernel

TIED = 1e-12


def votes(dual: DualMap, at: Cosines, depth: float = inf) -> np.ndarray:
    """Return the weights of the training inputs, sum of |w| = 1 in each row, or all 0 where all inputs are orthogonal.

    The limit of NTK_L(x, X) NTK_L(X, X)^-1, up to a positive factor in each row: psi(c) for the singular kernel, the
    nearest inputs in equal shares (each with the sign of its NTK), or equal shares for all. An input that coincides
    with a training input takes that one's target. At a finite depth with A = 0 it is the kernel sum, NTK_L(x, x_i).

    Args:
        dual: the map of cosines.
        at: cosines of new inputs against distinct training inputs, shape (M, N).
        depth: infinity, or a number of layers.

    Source: radhakrishnan-2022-wide-deep-optimal.
    """
    if dual.case == MAJORITY:
        shares = np.full(at.c.shape, 1 / at.c.shape[1])
        return _coincident(dual, at, shares) if dual.growth >= 1 - ZERO else shares
    if depth != inf or dual.case == SINGULAR:
        sign, value = singular_kernel(dual)(at) if depth == inf else log_ntk(dual, at, depth)
        top = value.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            weights = np.where(value == -np.inf, 0, sign * np.exp(value - np.where(np.isfinite(top), top, 0)))
        weights[~np.isfinite(weights)] = 0
    else:
        weights = _nearest(dual, at)
    total = np.abs(weights).sum(axis=1, keepdims=True)
    return _coincident(dual, at, weights / np.where(total > 0, total, 1))


def _nearest(dual: DualMap, at: Cosines) -> np.ndarray:
    if dual.parity or (at.c >= 0).all():
        apart = np.sqrt(np.minimum(at.gap, at.span) if dual.parity else at.gap)
        sign = np.sign(at.c) if dual.parity < 0 else np.ones(at.c.shape)
        near = apart <= apart.min(axis=1, keepdims=True) * (1 + TIED)
        return sign * near * (at.c != 0)
    sign, value = potential(dual, at)
    with np.errstate(invalid="ignore"):
        near = value <= value.min(axis=1, keepdims=True) + TIED
    return sign * near * (value < np.inf)


def _coincident(dual: DualMap, at: Cosines, weights: np.ndarray) -> np.ndarray:
    """Give all the weight to training inputs that coincide with the new one, or are opposite where parity says so."""
    same = (at.gap == 0).astype(float)
    if dual.parity:
        same = same + dual.parity * (at.span == 0)
    rows = np.abs(same).sum(axis=1)
    found = rows > 0
    weights[found] = same[found] / rows[found, None]
    return weights
