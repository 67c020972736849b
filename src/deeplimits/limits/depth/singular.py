"""The singular kernel: what the NTK of a fully-connected network tends to where E phi = 0 and E phi' != 0."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from deeplimits.errors import AccuracyWarning, NoLimit
from deeplimits.limits.depth.dual_map import SINGULAR, SMALL, Cosines, DualMap
from deeplimits.numerics.gaussian.expansion import Expansion
from deeplimits.numerics.gaussian.polynomial import PolynomialFamily

MOST_LAYERS = 50_000
LINEAR = 1e-17
"""Below this 1 - c is multiplied by f'(1) in every layer, to rounding."""
_SETTLED, _TOLERANCE, _WARN, _MOST_NODES = 1e-17, 1e-9, 1e-7, 200_000


@dataclass(frozen=True)
class SingularKernel:
    """psi(c) = lim f^L(c) / A'^(2L), so that psi(f(c)) = A'^2 psi(c) and psi(c) ~ c at orthogonal inputs.

    It is the limit of NTK_L(c) / ((L + 1) A'^(2L)); the error at depth L is of order 1/L.

    Attributes:
        dual: the map of cosines f.
        table: log(psi(c) / c) at positive cosines, as a spline of log(c / (1 - c)).
        error: estimate of the spline's error, relative to psi.

    Source: radhakrishnan-2022-wide-deep-optimal.
    """

    dual: DualMap
    table: BSpline
    error: float

    def __call__(self, at: Cosines) -> tuple[np.ndarray, np.ndarray]:
        """Return sign and logarithm of |psi|; inputs that coincide have +infinity, psi(0) = 0 has -infinity.

        Shapes: both that of the cosines.
        """
        sign, value = np.ones(at.c.shape), np.zeros(at.c.shape)
        left, c, gap, span = np.arange(at.c.size), at.c.ravel(), at.gap.ravel(), at.span.ravel()
        sign, value = sign.ravel(), value.ravel()
        if self.dual.parity < 0:
            sign[c < 0] = -1
            c, gap = np.abs(c), np.minimum(gap, span)
        for _ in range(MOST_LAYERS):
            ahead = c >= 0
            value[left[ahead]] += self._log(c[ahead], gap[ahead])
            left, back = left[~ahead], Cosines(c, gap, span)[~ahead]
            if not left.size:
                break
            tiny = np.abs(self.dual.excess(np.maximum(back.c, -SMALL))) <= _SETTLED
            tiny &= np.abs(back.c) <= SMALL
            value[left[tiny]] += np.log(-back.c[tiny])
            sign[left[tiny]] = -1
            left, back = left[~tiny], back[~tiny]
            new = self.dual.step(back)[0]
            value[left] -= log(self.dual.multiplier)
            c, gap, span = new.c, new.gap, new.span
        return sign.reshape(at.c.shape), value.reshape(at.c.shape)

    def _log(self, c: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """Return log psi at cosines >= 0."""
        with np.errstate(divide="ignore"):
            start, close = np.log(c), np.log(gap)
        layers = np.zeros(c.shape)
        if (gap < LINEAR).any():
            deep = (gap < LINEAR) & (gap > 0)
            layers[deep] = np.ceil((log(LINEAR) - close[deep]) / log(self.dual.growth))
            close = close + layers * log(self.dual.growth)
        x = np.clip(start - close, self.table.t[0], self.table.t[-1])
        with np.errstate(invalid="ignore"):
            value = start + self.table(x) - layers * log(self.dual.multiplier)
        return np.where(gap > 0, value, np.inf)


@lru_cache(maxsize=8)
def _tabulated(dual: DualMap) -> SingularKernel:
    low, high = log(dual.multiplier) + log(1e-12), -log(LINEAR) + log(dual.growth) + 1
    wrong = 0.0
    if isinstance(dual.family, Expansion) and not isinstance(dual.family, PolynomialFamily):
        layer, wrong = _spline(lambda x: _layer(dual, x), low, high)
        table, error = _spline(lambda x: _iterated(layer, x, low, log(dual.multiplier)), low, high)
    else:
        table, error = _spline(lambda x: log_ratio(dual, Cosines.logistic(x)), low, high)
    error = max(error, wrong * (high - low) / log(dual.growth))
    if error > _WARN:
        warnings.warn(f"the singular kernel is good to {error:.1e} of itself", AccuracyWarning, stacklevel=3)
    return SingularKernel(dual, table, error)


def _spline(function: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> tuple[BSpline, float]:
    """Return a quintic spline through a function, halved until the nodes it has not seen agree, and the last error."""
    x = np.linspace(low, high, 8 * ceil(high - low))
    values = function(x)
    while True:
        spline = make_interp_spline(x, values, k=5)
        middle = (x[1:] + x[:-1]) / 2
        exact = function(middle)
        error = float(np.max(np.abs(spline(middle) - exact)))
        where = np.arange(1, len(x))
        x, values = np.insert(x, where, middle), np.insert(values, where, exact, axis=0)
        if error <= _TOLERANCE or 2 * len(x) > _MOST_NODES:
            return make_interp_spline(x, values, k=5), error


def _layer(dual: DualMap, x: np.ndarray) -> np.ndarray:
    """Return log(f(c) / (A'^2 c)) and log((1 - f(c)) / (1 - c)) at c / (1 - c) = exp(x), shape (N, 2)."""
    at = Cosines.logistic(x)
    new = dual.step(at)[0]
    return np.stack([_added(dual, at, new), np.log(new.gap / at.gap)], axis=1)


def _iterated(layer: BSpline, x: np.ndarray, low: float, multiplier: float) -> np.ndarray:
    """Return log(psi(c) / c) from one layer's table: costly series are then evaluated once."""
    total, left = np.zeros(x.shape), np.arange(x.size)
    for _ in range(MOST_LAYERS):
        rise, fall = layer(x).T
        total[left] += np.maximum(rise, 0)
        x = x + multiplier + rise - fall
        more = x > low
        if not more.any():
            break
        left, x = left[more], x[more]
    return total


def singular_kernel(dual: DualMap) -> SingularKernel:
    """Return the singular kernel of a map of cosines.

    Args:
        dual: with A = 0 and A' != 0.

    Raises:
        NoLimit: another case, or a map so close to linear that no depth within reach tells them apart.

    Source: radhakrishnan-2022-wide-deep-optimal.

    Example:
        >>> from deeplimits.limits.depth.dual_map import dual_map
        >>> from deeplimits.limits.depth.optimal import optimal_activation
        >>> psi = singular_kernel(dual_map(optimal_activation(2)))
        >>> sign, value = psi(Cosines(np.array([0.3]), np.array([0.7]), np.array([1.3])))
        >>> np.exp(value).round(4)
        array([0.3389])
    """
    if dual.case != SINGULAR:
        raise NoLimit("singular kernel", f"the activation's case is {dual.case}", "use one with E phi = 0, E phi' != 0")
    layers = -log(_SETTLED) / -log(dual.multiplier) - log(LINEAR) / log(dual.growth)
    if layers > MOST_LAYERS:
        why = f"f is linear but for {dual.growth - 1:.1e}: about {layers:.0f} layers would tell it apart"
        raise NoLimit("singular kernel", why, "use an activation that bends more at variance one")
    return _tabulated(dual)


def log_ratio(dual: DualMap, at: Cosines) -> np.ndarray:
    """Return log(psi(c) / c) at positive cosines, layer by layer: the sum of log(f(c_l) / (A'^2 c_l)).

    Shapes: that of the cosines.
    """
    total, left = np.zeros(at.c.shape), np.arange(at.c.size)
    for _ in range(MOST_LAYERS):
        new = dual.step(at)[0]
        added = _added(dual, at, new)
        total[left] += added
        more = added > _SETTLED
        if not more.any():
            break
        left, at = left[more], new[more]
    return total


def _added(dual: DualMap, at: Cosines, new: Cosines) -> np.ndarray:
    """Return log(f(c) / (A'^2 c))."""
    small = at.c <= SMALL
    added = np.log(new.c / at.c) - log(dual.multiplier)
    added[small] = np.log1p(dual.excess(at.c[small]))
    return added
