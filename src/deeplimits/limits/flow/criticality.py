"""`dl.criticality`: the edge of chaos of an activation, and what a point off the edge does to variances and angles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from math import inf, isfinite, log, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimits.architecture.activation import Activation
from deeplimits.architecture.activation import activation as read_activation
from deeplimits.architecture.layer import number
from deeplimits.errors import AccuracyWarning, DescriptionError, NoLimit
from deeplimits.limits.flow.correlation_map import CorrelationMap
from deeplimits.limits.flow.variance_map import HIGHEST, VarianceMap
from deeplimits.limits.kernel.activation import family as family_of

if TYPE_CHECKING:
    from deeplimits.limits.flow.phase_diagram import PhaseDiagram

CRITICAL = 1e-10
_UNRELIABLE, _ACCURATE = 1e-6, 1e-8


@dataclass(frozen=True)
class Criticality:
    """What a fully-connected network without skips does at a weight_std and a bias_std.

    q_{l+1} = weight_std^2 E[phi(u)^2] + bias_std^2 and c_{l+1} = f(c_l), the correlation of two inputs at q = q*.

    Attributes:
        activation: the activation.
        weight_std, bias_std: standard deviations, weights multiplied by 1/sqrt(inputs).
        phase: "ordered" (chi < 1), "critical" (the edge of chaos) or "chaotic" (chi > 1).
        variance: the fixed point q* that variances tend to; any variance (NaN) where all are fixed.
        chi: f'(1) = weight_std^2 E[phi'(u)^2], u ~ N(0, q*): how much a small angle's square grows in a layer.
        curvature: f''(1) = weight_std^2 q* E[phi''(u)^2]; infinite at a kink.
        correlation: c* that the correlation of two distinct inputs tends to; NaN where variances vanish, since then it
            depends on the inputs.
        correlation_length: layers in which c_l - c* falls by e: -1/log chi, or -1/log f'(c*) if chaotic; infinite on
            the edge, 0 where it vanishes faster; of the covariances where variances vanish.
        variance_length: likewise of q_l - q*: -1/log|dq'/dq|.
        closing_power, closing_constant: l^power (1 - c_l) tends to this constant on the edge; NaN elsewhere.
        others: further (weight_std, variance) that solve the same equations.
    """

    activation: Activation
    weight_std: float
    bias_std: float
    phase: str
    variance: float
    chi: float
    curvature: float
    correlation: float
    correlation_length: float
    variance_length: float
    closing_power: float = nan
    closing_constant: float = nan
    others: tuple[tuple[float, float], ...] = field(default=())

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Say in words which phase this is and how fast it is reached."""
        what = "any variance is kept" if self.variance != self.variance else f"variances tend to {self.variance:.6g}"
        if isfinite(self.variance_length) and self.variance_length > 0:
            what += f" in {self.variance_length:.4g} layers a factor e"
        where = f"{self.activation!r} at weight_std = {self.weight_std:.12g}, bias_std = {self.bias_std:.6g}"
        head = f"{where} is {self.phase} (chi = {self.chi:.6g}): {what}; "
        return head + self._angles() + self._rest()

    def _angles(self) -> str:
        if self.variance == 0:
            return "covariances vanish with them, and what correlations tend to depends on the inputs"
        if self.phase == "critical":
            if self.closing_constant != self.closing_constant:
                return "how angles close is beyond the accuracy of the quadrature"
            if self.closing_constant == inf:
                return "angles are kept"
            return f"angles close like 1 - c = {self.closing_constant:.6g} / l^{self.closing_power:.0f}"
        if self.correlation_length == 0:
            return f"correlations reach {self.correlation:.6g} faster than any exp(-c l)"
        where = "1" if self.phase == "ordered" else f"{self.correlation:.6g}"
        return f"correlations of distinct inputs tend to {where}, {self.correlation_length:.6g} layers a factor e"

    def _rest(self) -> str:
        if not self.others:
            return "."
        rest = ", ".join(f"weight_std = {weight:.6g} (variance {q:.4g})" for weight, q in self.others)
        return f". Further solutions: {rest}."

    def diagram(self, weight_std: Any = None, bias_std: Any = None) -> PhaseDiagram:
        """Return chi, variance and correlation length over a grid, with the edge of chaos; `dl.plot` draws it.

        Args:
            weight_std: values in rising order; 61 around this point by default.
            bias_std: likewise.
        """
        from deeplimits.limits.flow.phase_diagram import phase_diagram

        return phase_diagram(self.activation, weight_std, bias_std, self.weight_std, self.bias_std)


def criticality(activation: Any, bias_std: float = 0.0, weight_std: float | None = None) -> Criticality:
    """Return the edge of chaos of an activation at a bias, or the phase at a weight and a bias.

    The edge solves q = weight_std^2 E[phi(u)^2] + bias_std^2 and chi = weight_std^2 E[phi'(u)^2] = 1, u ~ N(0, q).

    Args:
        activation: a name or an object of `dl.act`.
        bias_std: standard deviation of the biases.
        weight_std: standard deviation of the weights (times sqrt(inputs)); None for the one on the edge.

    Valid when: fully-connected layers without skips at infinite width; fixed points of the variance from 1e-12 to 1e4.

    Raises:
        DescriptionError: an unknown activation, a negative or non-finite standard deviation.
        NoLimit: no attracting variance there, or no edge at this bias.

    Source: poole-2016; schoenholz-2017.

    Example:
        >>> edge = criticality("tanh", bias_std=0.05**0.5)
        >>> round(edge.weight_std**2, 5), round(edge.variance, 5), round(edge.closing_constant, 3)
        (1.76095, 0.57005, 6.171)
        >>> print(criticality("relu"))  # doctest: +NORMALIZE_WHITESPACE
        Relu() at weight_std = 1.41421356237, bias_std = 0 is critical (chi = 1): any variance is kept;
        angles close like 1 - c = 44.4132 / l^2.
    """
    layer = read_activation(activation)
    bias = number("criticality", "bias_std", bias_std) ** 2
    family = family_of(layer)
    if family.homogeneous == 1:
        return _homogeneous(layer, family, bias, None if weight_std is None else _weight(weight_std))
    variances = VarianceMap(family)
    _continuous(layer, variances)
    if weight_std is None:
        return _edge(layer, variances, bias)
    return _point(layer, variances, _weight(weight_std), bias)


def _weight(weight_std: Any) -> float:
    weight = number("criticality", "weight_std", weight_std) ** 2
    if weight == 0:
        raise DescriptionError("criticality", "weight_std=0 makes every layer constant", "give a positive number")
    return weight


def _continuous(layer: Activation, variances: VarianceMap) -> None:
    one, gap, family = np.ones(1), np.full(1, 1e-12), variances.family
    fall, prime = float(family.near(gap, 2 - gap, one, one)[0][0]), float(family.diagonal(one)[1][0])
    if fall > 2 * max(prime, 1e-10) * 1e-12 or not family.error(1.0) < 0.5:
        why = "it has a jump, or grows like exp(u^2/4): chi is infinite, every weight is chaotic at small angles"
        raise NoLimit(f"criticality({layer!r})", why, "use a continuous activation of slower growth")


def _edge(layer: Activation, variances: VarianceMap, bias: float) -> Criticality:
    where = f"criticality({layer!r}, bias_std={sqrt(bias):.6g})"
    roots = variances.edges(bias)
    steady, growing = [], []
    for q in roots:
        _, prime, slope = variances.at(q)
        (steady if abs(slope) < prime else growing).append((q, 1 / prime, slope / prime))
    if bias == 0 and variances.vanishes:
        prime = variances.at(0.0)[1]
        if prime > 0 and variances.shrinks_at_zero(1 / prime):
            steady.insert(0, (0.0, 1 / prime, 1.0))
    if not steady:
        if growing:
            q, weight, gain = growing[0]
            why = (
                f"chi = 1 at weight_std = {sqrt(weight):.6g}, variance {q:.6g}, but a deviation from that variance is "
                f"multiplied by {gain:.4g} a layer: it is never reached"
            )
        else:
            why = f"no variance between 0 and {HIGHEST:g} is fixed where chi = 1: there is no edge at this bias"
        fix = (
            "change bias_std (criticality(..., weight_std=1.0).diagram() finds edges), or scale branches by DEPTH**-0.5"
        )
        raise NoLimit(where, why, fix)
    (q, weight, gain), rest = steady[0], steady[1:]
    others = tuple((sqrt(w), v) for v, w, _ in rest)
    if q == 0:
        return _record(layer, weight, bias, 0.0, 1.0, 0.0, inf, (nan, nan), others)
    correlations = CorrelationMap(variances.family, weight, bias, q)
    curvature, closing = _near_one(where, correlations)
    return _record(layer, weight, bias, q, 1.0, curvature, _length(gain), closing, others)


def _point(layer: Activation, variances: VarianceMap, weight: float, bias: float) -> Criticality:
    where = f"criticality({layer!r}, bias_std={sqrt(bias):.6g}, weight_std={sqrt(weight):.6g})"
    found = []
    if bias == 0 and variances.shrinks_at_zero(weight):
        found.append((0.0, weight * variances.at(0.0)[1]))
    roots = [(q, weight * variances.at(q)[2]) for q in variances.fixed_points(weight, bias)]
    found += [(q, gain) for q, gain in roots if abs(gain) < 1]
    if not found:
        cycles = [q for q, gain in roots if gain <= -1]
        why = f"no variance up to {HIGHEST:g} is fixed: they grow beyond"
        if cycles:
            why = f"variances circle around {cycles[0]:.6g} for ever"
        raise NoLimit(where, why, "lower weight_std, or scale residual branches by DEPTH**-0.5")
    start = weight + bias
    q, gain = min(found, key=lambda pair: abs(log(max(pair[0], 1e-12) / start)))
    others = tuple((sqrt(weight), v) for v, _ in found if v != q)
    if q == 0:
        return _record(layer, weight, bias, 0.0, gain, 0.0, _length(gain), (nan, nan), others)
    correlations = CorrelationMap(variances.family, weight, bias, q)
    chi = weight * variances.at(q)[1]
    curvature, closing = _near_one(where, correlations)
    closing = closing if abs(chi - 1) <= CRITICAL else (nan, nan)
    return _record(layer, weight, bias, q, chi, curvature, _length(gain), closing, others, correlations)


def _near_one(where: str, correlations: CorrelationMap) -> tuple[float, tuple[float, float]]:
    """Return the curvature and the closing law, NaN where the quadrature does not tell a kink from a steep bend."""
    error = float(correlations.family.error(correlations.q))
    if error > _ACCURATE:
        warnings.warn(f"{where}: the Hermite series is good to {error:.1e}", AccuracyWarning, stacklevel=4)
    if error > _UNRELIABLE:
        return nan, (nan, nan)
    return correlations.curvature(), correlations.closing()


def _homogeneous(layer: Activation, family: Any, bias: float, weight: float | None) -> Criticality:
    """Take an activation with phi(t x) = t phi(x), whose variances grow by the same factor chi in every layer."""
    prime = float(family.diagonal(np.ones(1))[1][0])
    if prime == 0:
        raise NoLimit(f"criticality({layer!r})", "the activation is zero", "give it a slope")
    if weight is None and bias > 0:
        why = f"at chi = 1 (weight_std = {prime**-0.5:.6g}) each layer adds bias_std^2 = {bias:.6g} to the variance"
        fix = "use bias_std=0, where the edge is exact, or weight_std below the edge"
        raise NoLimit(f"criticality({layer!r}, bias_std={sqrt(bias):.6g})", f"no edge with biases: {why}", fix)
    weight = 1 / prime if weight is None else weight
    chi = weight * prime
    critical = abs(chi - 1) <= CRITICAL
    if (chi > 1 and not critical) or (critical and bias > 0):
        why = f"the variance is multiplied by chi = {chi:.6g} a layer and grows without bound"
        fix = f"use weight_std <= {prime**-0.5:.6g} (and bias_std = 0 there)"
        raise NoLimit(f"criticality({layer!r}, bias_std={sqrt(bias):.6g}, weight_std={sqrt(weight):.6g})", why, fix)
    q = nan if critical else bias / (1 - chi)
    correlations = CorrelationMap(family, weight, bias, q if q > 0 else 1.0)
    closing = correlations.closing() if critical else (nan, nan)
    curvature = correlations.curvature() if q != 0 else nan
    return _record(layer, weight, bias, q, 1.0 if critical else chi, curvature, _length(chi), closing)


def _length(gain: float) -> float:
    """Return -1/log|gain|, infinite at 1 and 0 at 0."""
    if abs(abs(gain) - 1) <= CRITICAL:
        return inf
    return -1 / log(abs(gain)) if gain != 0 else 0.0


def _record(
    layer: Activation,
    weight: float,
    bias: float,
    q: float,
    chi: float,
    curvature: float,
    variance_length: float,
    closing: tuple[float, float],
    others: tuple[tuple[float, float], ...] = (),
    correlations: CorrelationMap | None = None,
) -> Criticality:
    phase = "critical" if abs(chi - 1) <= CRITICAL else "ordered" if chi < 1 else "chaotic"
    correlation, length = 1.0 if q != 0 else nan, _length(chi)
    if phase == "chaotic" and correlations is not None:
        gap = correlations.apart()
        correlation, length = 1 - gap, _length(correlations.gap(gap)[1])
    deviations = sqrt(weight), sqrt(bias)
    known = (q, chi, curvature, correlation, length, variance_length)
    return Criticality(layer, *deviations, phase, *known, *closing, others)
