"""The plane of weight_std and bias_std: which phase each point is in, how deep signals reach, and the edge of chaos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import make_interp_spline

from deeplimits.architecture.activation import Activation
from deeplimits.errors import DescriptionError
from deeplimits.limits.flow.variance_map import VarianceMap
from deeplimits.limits.kernel.activation import family as family_of
from deeplimits.numerics.gaussian.expansion import Expansion, powers
from deeplimits.numerics.gaussian.family import Family

POINTS = 61
FINER = 16
_HALVINGS = 45


@dataclass(frozen=True, eq=False)
class PhaseDiagram:
    """What a fully-connected network does over a grid of standard deviations.

    Attributes:
        activation: the activation.
        weight_std: shape (M,), rising.
        bias_std: shape (N,), rising.
        chi: f'(1) at the attracting variance, shape (N, M); NaN where variances grow beyond 1e4.
        variance: q*, likewise, infinite there.
        correlation_length: -1/log chi or, in the chaotic phase, -1/log f'(c*), to 1e-5 of itself; likewise.
        edge: (weight_std, bias_std) along the edge of chaos, shape (K, 2).
        here: (weight_std, bias_std) of the point the diagram was asked from.
    """

    activation: Activation
    weight_std: np.ndarray
    bias_std: np.ndarray
    chi: np.ndarray
    variance: np.ndarray
    correlation_length: np.ndarray
    edge: np.ndarray
    here: tuple[float, float]


def phase_diagram(activation: Activation, weights: Any, biases: Any, weight: float, bias: float) -> PhaseDiagram:
    """Return the phase diagram around a point.

    Args:
        activation: the activation.
        weights: values of weight_std in rising order; None for 61 from 0.4 to twice `weight`.
        biases: values of bias_std in rising order; None for 61 from 0 to 1, or to twice `bias` where that is more.
        weight: weight_std of the point.
        bias: bias_std of the point.

    Raises:
        DescriptionError: values that are not positive (weights) or nonnegative, or not in rising order.

    Source: poole-2016; schoenholz-2017.
    """
    weights = _axis("weight_std", np.linspace(0.4 * weight, 2 * weight, POINTS) if weights is None else weights)
    biases = _axis("bias_std", np.linspace(0, max(1.0, 2 * bias), POINTS) if biases is None else biases)
    family = family_of(activation)
    w, b = np.meshgrid(weights**2, biases**2)
    variances = VarianceMap(family)
    if family.homogeneous == 1:
        prime = float(family.diagonal(np.ones(1))[1][0])
        chi = w * prime
        q = np.where(chi < 1, b / np.where(chi < 1, 1 - chi, 1), np.where((chi == 1) & (b == 0), 1.0, np.inf))
        edge = np.array([[prime**-0.5, 0.0]]) if prime > 0 else np.empty((0, 2))
    else:
        q = _variances(variances, w.ravel(), b.ravel()).reshape(w.shape)
        finite = np.where(np.isfinite(q), q, 1.0)
        chi = np.where(np.isfinite(q), w * _diagonal(family, finite), np.nan)
        edge = _edge(variances, biases)
    chi = np.where(np.isfinite(q), chi, np.nan)
    length = _lengths(family, w, q, chi)
    return PhaseDiagram(activation, weights, biases, chi, q, length, edge, (weight, bias))


def _axis(name: str, values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    lowest_allowed = name == "bias_std"
    good = values.ndim == 1 and values.size > 1 and bool(np.isfinite(values).all() and (np.diff(values) > 0).all())
    if not good or values[0] < 0 or (values[0] == 0 and not lowest_allowed):
        kind = "nonnegative" if lowest_allowed else "positive"
        fix = f"give at least two {kind} numbers, e.g. numpy.linspace(0.5, 3, 61)"
        raise DescriptionError("Criticality.diagram", f"{name} is not a rising list of {kind} numbers", fix)
    return values


def _diagonal(family: Any, q: np.ndarray) -> np.ndarray:
    """Return E[phi'^2] at variances, in order of size so that small ones keep their accuracy and price."""
    flat, result = q.ravel(), np.empty(q.size)
    order = np.argsort(flat)
    for part in np.array_split(order, max(1, q.size // 400)):
        result[part] = family.diagonal(flat[part])[1]
    return result.reshape(q.shape)


def _variances(variances: VarianceMap, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the attracting fixed point next to the variance of unit inputs after one layer, or infinity."""
    x, square = np.log(variances.grid), variances.table[0]
    known = np.isfinite(square) & (square > 0)
    x, square = x[known], square[known]
    log_square = make_interp_spline(x, np.log(square), k=5)
    gain, result = log_square.derivative(), np.full(w.shape, np.inf)
    for place, (weight, bias) in enumerate(zip(w, b, strict=True)):
        above = weight * square + bias > np.exp(x) * (1 + 1e-11)
        turns = np.flatnonzero(above[:-1] & ~above[1:])
        if bias == 0 and variances.shrinks_at_zero(weight):
            result[place] = 0.0
        if turns.size:
            start = np.log(weight + bias)
            result[place] = turns[np.abs(x[turns] - start).argmin()]
    inside = np.isfinite(result) & ~((b == 0) & (result == 0))
    low = x[np.where(inside, result, 0).astype(int)]
    high = low + (x[1] - x[0])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rises = w * np.exp(log_square(middle)) + b > np.exp(middle)
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    middle = (low + high) / 2
    cycles = w * np.exp(log_square(middle) - middle) * gain(middle) <= -1
    return np.where(inside, np.where(cycles, np.inf, np.exp(middle)), result)


def _lengths(family: Any, w: np.ndarray, q: np.ndarray, chi: np.ndarray) -> np.ndarray:
    """Return correlation lengths: from chi, or from f' at the fixed point c* < 1 found by halving log(1 - c)."""
    rate = chi.copy()
    chaotic = np.isfinite(q) & (chi > 1)
    if chaotic.any():
        order = np.argsort(q[chaotic])
        weight, variance = w[chaotic][order], q[chaotic][order]
        found = np.empty(order.size)
        for part in np.array_split(np.arange(order.size), max(1, order.size // 400)):
            found[part] = _slope_apart(family, weight[part], variance[part])
        values = np.empty(order.size)
        values[order] = found
        rate[chaotic] = values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, np.where(rate == 1, np.inf, np.abs(1 / np.log(rate))), 0 * rate)


def _slope_apart(family: Any, weight: np.ndarray, q: np.ndarray) -> np.ndarray:
    layer = _series(family, q) if isinstance(family, Expansion) else _closed(family, q)
    low, high = np.full(q.shape, -40.0), np.zeros(q.shape)
    for _ in range(34):
        middle = (low + high) / 2
        gap = np.exp(middle)
        wider = weight * layer(gap)[0] / q > gap
        low, high = np.where(wider, middle, low), np.where(wider, high, middle)
    return weight * layer(np.exp(high))[1]


def _closed(family: Family, q: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    def layer(gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        down, _, slope = family.near(gap * q, (2 - gap) * q, q, q)
        return down, slope

    return layer


def _series(family: Expansion, q: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return Q - K and dK as functions of 1 - c, the Hermite coefficients taken once."""
    order = family.order_for(float(q.max()), 1.0, 1e-12)
    squares, primes = (family.sequence(q, order, times) ** 2 for times in (0, 1))

    def layer(gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fall = powers(gap, 2 - gap, order)[0]
        return np.einsum("kn,kn->n", squares, fall), np.einsum("kn,kn->n", primes, 1 - fall)

    return layer


def _edge(variances: VarianceMap, biases: np.ndarray) -> np.ndarray:
    """Return the edge of chaos, parametrised by the variance: weight = 1/P(q), bias = q - Q(q)/P(q), both >= 0."""
    known = np.isfinite(variances.table[0]) & (variances.table[0] > 0) & (variances.table[1] > 0)
    x = np.log(variances.grid[known])
    square, prime = (make_interp_spline(x, np.log(part[known]), k=5) for part in variances.table)
    gain = square.derivative()
    fine = np.linspace(x[0], x[-1], FINER * len(x))
    q, weight = np.exp(fine), np.exp(-prime(fine))
    bias = q - weight * np.exp(square(fine))
    steady = np.abs(weight * np.exp(square(fine) - fine) * gain(fine)) < 1
    good = (bias > 1e-9 * q) & (bias <= (1.02 * biases[-1]) ** 2) & (bias >= biases[0] ** 2) & steady
    edge = np.sqrt(np.stack([weight[good], bias[good]], axis=1))
    order = np.argsort(edge[:, 1])
    edge = edge[order]
    if biases[0] == 0 and variances.vanishes and variances.table[1][0] > 0:
        start = float(variances.at(0.0)[1]) ** -0.5
        if len(edge) and abs(edge[0, 0] / start - 1) < 1e-2 and edge[0, 1] < 1e-2:
            edge = np.concatenate([[[start, 0.0]], edge])
    return edge
