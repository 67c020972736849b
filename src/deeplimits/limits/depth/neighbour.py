"""The nearest training input as infinite depth sees it, where E phi = E phi' = 0."""

from __future__ import annotations

from math import log

import numpy as np

from deeplimits.limits.depth.dual_map import SMALL, Cosines, DualMap

MOST_LAYERS = 10_000
_HALF, _SETTLED = 0.5, 1e-17


def potential(dual: DualMap, at: Cosines) -> tuple[np.ndarray, np.ndarray]:
    """Return sign and G at cosines: NTK_L(c) ~ sign * exp(-exp(G) k^L), k the order of the first Hermite coefficient.

    exp(G) = -lim log|f^L(c)| / k^L: the input of smallest G outgrows every other one. G falls as c rises from 0 to 1,
    so that among nonnegative cosines it is the nearest input; it is what compares negative cosines with positive ones.

    Shapes: both that of the cosines; +infinity for G at c = 0, -infinity at c = 1.

    Source: radhakrishnan-2022-wide-deep-optimal (1-nearest neighbour); derived (G and negative cosines).

    Example:
        >>> from deeplimits.architecture.activation import Hermite
        >>> from deeplimits.limits.depth.dual_map import dual_map
        >>> c = np.array([0.5, -0.5])
        >>> potential(dual_map(Hermite(2)), Cosines(c, 1 - c, 1 + c))
        (array([1., 1.]), array([-0.36651292, -0.36651292]))
    """
    k, shape = dual.order, at.c.shape
    sign, value = np.ones(at.c.size), np.full(at.c.size, np.inf)
    at = Cosines(at.c.ravel(), at.gap.ravel(), at.span.ravel())
    value[(at.gap == 0) | ((at.span == 0) & (dual.parity != 0))] = -np.inf
    sign[(at.span == 0) & (dual.parity < 0)] = -1
    left = np.flatnonzero(np.isinf(value) & (value > 0) & (at.c != 0))
    at, ratio = at[left], np.ones(left.size)
    for layer in range(MOST_LAYERS):
        inside = np.abs(at.c) <= _HALF
        value[left[inside]] = np.log(-_small(dual, at[inside])) - layer * log(k)
        sign[left[inside]] = _last_sign(dual, at[inside], ratio[inside])
        left, at, ratio = left[~inside], at[~inside], ratio[~inside]
        if not left.size:
            break
        new, slope = dual.step(at)
        at, ratio = new, 1 + ratio * at.c * slope / new.c
    return sign.reshape(shape), value.reshape(shape)


def _small(dual: DualMap, at: Cosines) -> np.ndarray:
    """Return lim log|f^L(c)| / k^L at 0 < |c| <= 1/2."""
    assert dual.terms is not None
    k, first = dual.order, log(dual.terms[dual.order])
    total, factor = np.log(np.abs(at.c)) + first / (k - 1), 1.0
    while at.c.size:
        new = dual.step(at)[0]
        tiny = np.abs(at.c) <= SMALL
        factor /= k
        rest = np.empty(at.c.shape)
        rest[~tiny] = np.log(np.abs(new.c[~tiny])) - first - k * np.log(np.abs(at.c[~tiny]))
        rest[tiny] = np.log1p(dual.excess(at.c[tiny]))
        total += factor * rest
        if factor * np.abs(rest).max() <= _SETTLED:
            break
        at = new
    return total


def _last_sign(dual: DualMap, at: Cosines, ratio: np.ndarray) -> np.ndarray:
    """Return the sign of the NTK many layers later, from the cosine and the ratio NTK / f^L so far."""
    while at.c.size and (np.abs(at.c) > SMALL).any():
        new, slope = dual.step(at)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = 1 + ratio * at.c * slope / new.c
        at = new
    rising = 1 + dual.order * ratio
    return np.sign(rising) * (np.sign(at.c) if dual.order % 2 else 1)
