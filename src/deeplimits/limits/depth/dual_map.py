"""The map of cosines that one layer makes, and which classifier its iteration ends in."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from math import isfinite, log, sqrt
from typing import Any

import numpy as np

from deeplimits.architecture.activation import activation as read_activation
from deeplimits.errors import AccuracyWarning, NoLimit, PrecisionError
from deeplimits.limits.kernel.activation import family as family_of
from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.polynomial import PolynomialFamily

ZERO = 1e-10
"""Coefficients up to this size are zeros that rounding moved."""
TERMS = 64
SMALL = 1 / 64
UNRELIABLE, ACCURATE = 5e-2, 1e-8
_JUMP = 2.0

SINGULAR, NEIGHBOUR, MAJORITY = "singular kernel", "1-nearest neighbour", "majority vote"


@dataclass(frozen=True)
class Cosines:
    """Cosines with what is small near 1 and near -1: c, 1 - c and 1 + c, of one shape."""

    c: np.ndarray
    gap: np.ndarray
    span: np.ndarray

    def __getitem__(self, which: Any) -> Cosines:
        return Cosines(self.c[which], self.gap[which], self.span[which])

    @classmethod
    def logistic(cls, x: np.ndarray) -> Cosines:
        """Return the positive cosines with log(c / (1 - c)) = x."""
        with np.errstate(over="ignore"):
            c, gap = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
        return cls(c, gap, 1 + c)


@dataclass(frozen=True)
class DualMap:
    """f(c) = E[phi(u) phi(v)] / E[phi(u)^2] of standard normals u, v with correlation c: one layer's map of cosines.

    f(c) = sum over k of a_k^2 c^k with a_k the Hermite coefficients of phi / sqrt(E[phi^2]).

    Attributes:
        family: the expectations of phi.
        scale: E[phi(z)^2], by which phi is normalised.
        mean: A = E phi = a_0, after normalisation.
        slope: A' = E phi' = a_1, likewise.
        growth: B' = E phi'^2 = f'(1), likewise.
        parity: 1 for an even phi, -1 for an odd one, else 0.
        order: the first k with a_k != 0 beyond the mean.
        terms: a_k^2 for k < 64, those below the order exactly 0; None where the family has no coefficients.

    Source: radhakrishnan-2022-wide-deep-optimal; daniely-2016-dual.
    """

    family: Family
    scale: float
    mean: float
    slope: float
    growth: float
    parity: int
    order: int
    terms: np.ndarray | None = field(compare=False, repr=False)

    @property
    def case(self) -> str:
        """Which classifier infinite depth makes of it."""
        return MAJORITY if self.mean else SINGULAR if self.slope else NEIGHBOUR

    @property
    def multiplier(self) -> float:
        """f'(0), the multiplier at orthogonal inputs: A'^2 where A = 0."""
        return self.slope**2

    @property
    def alpha(self) -> float:
        """Exponent of the singular kernel, psi ~ |x - x'|^-alpha: -4 log|A'| / log B'; NaN in the other cases."""
        return -4 * log(abs(self.slope)) / log(self.growth) if self.case == SINGULAR else float("nan")

    def step(self, at: Cosines) -> tuple[Cosines, np.ndarray]:
        """Return f and f' at cosines; f with its relative accuracy near 0, 1 and -1."""
        if isinstance(self.family, PolynomialFamily) and self.terms is not None:
            degree = min(len(self.family.ascending), len(self.terms))
            if degree == len(self.family.ascending):
                return polynomial_step(self.terms[:degree], at)
        one = np.ones_like(at.gap)
        down, up, slope = (part / self.scale for part in self.family.near(at.gap, at.span, one, one))
        c = (up - down) / 2
        if self.terms is not None:
            small = np.abs(at.c) <= SMALL
            c[small] = np.polynomial.polynomial.polyval(at.c[small], self.terms)
        return Cosines(c, down, up), slope

    def excess(self, c: np.ndarray) -> np.ndarray:
        """Return f(c) / (a_k^2 c^k) - 1, k the order, at cosines of at most 1/64."""
        return c * np.polynomial.polynomial.polyval(c, self._powers()[1:])

    def elasticity(self, c: np.ndarray) -> np.ndarray:
        """Return c f'(c) / f(c), k at c = 0, at cosines of at most 1/64 and A = 0."""
        powers = self._powers()
        weighted = (self.order + np.arange(len(powers))) * powers
        return np.polynomial.polynomial.polyval(c, weighted) / (1 + self.excess(c))

    def _powers(self) -> np.ndarray:
        assert self.terms is not None
        return self.terms[self.order :] / self.terms[self.order]


def polynomial_step(terms: np.ndarray, at: Cosines) -> tuple[Cosines, np.ndarray]:
    """Return f and f' of f(c) = sum of terms[k] c^k, terms >= 0 of sum 1, by sums of positive numbers near 1 and -1."""
    u, back = np.abs(at.c), at.c < 0
    least = np.minimum(at.gap, at.span)
    k = np.arange(len(terms))
    lost, kept = [], []
    for parity in (0, 1):
        part = np.where(k % 2 == parity, terms, 0)
        rest = np.cumsum(part[::-1])[::-1][1:]
        lost.append(least * np.polynomial.polynomial.polyval(u, rest if len(rest) else [0.0]))
        kept.append(2 * part.sum() - lost[parity])
    gap = np.where(back, kept[1] + lost[0], lost[0] + lost[1])
    span = np.where(back, lost[1] + kept[0], kept[0] + kept[1])
    c = np.where(np.minimum(gap, span) < 0.5, (span - gap) / 2, np.polynomial.polynomial.polyval(at.c, terms))
    slope = np.polynomial.polynomial.polyval(at.c, (k * terms)[1:] if len(terms) > 1 else [0.0])
    return Cosines(c, gap, span), slope


def dual_map(activation: Any) -> DualMap:
    """Return the map of cosines of an activation, normalised by E[phi(z)^2] of a standard normal z.

    Args:
        activation: a name or an object of `dl.act`.

    Raises:
        DescriptionError: not an activation.
        NoLimit: E[phi^2] or E[phi'^2] is zero or infinite, or phi is linear: there is no infinitely deep classifier.
        PrecisionError: whether a coefficient is zero is below the accuracy of the quadrature.

    Source: radhakrishnan-2022-wide-deep-optimal.

    Example:
        >>> from deeplimits.architecture.activation import Hermite, Relu
        >>> dual_map(Relu()).case, dual_map(Hermite(2)).case
        ('majority vote', '1-nearest neighbour')
    """
    layer = read_activation(activation)
    where, family, one = f"infinite depth of {layer!r}", family_of(layer), np.ones(1)
    with np.errstate(over="ignore", invalid="ignore"):
        square, prime = (float(part[0]) for part in family.diagonal(one))
    if not (isfinite(square) and square > 0):
        fix = "scale it so that its variance is finite and positive"
        raise NoLimit(where, f"E[phi(z)^2] = {square:g} for a standard normal z", fix)
    error = float(family.error(1.0))
    if not error <= UNRELIABLE or _jumps(family, square, prime):
        why = "E[phi(z)^2] or E[phi'(z)^2] is infinite, or beyond the quadrature: a jump, or growth like exp(z^2/4)"
        raise NoLimit(where, why, "give a continuous function of slower growth")
    mean = float(family.mean(one)[0]) / sqrt(square)
    terms = _terms(family, square)
    slope = float(_slope(family, square) if terms is None else terms[1])
    _decided(where, error, {"A = E phi": mean, "A' = E phi'": slope, "B' - 1 = E phi'^2 - 1": prime / square - 1})
    mean, slope = (0.0 if abs(value) <= ZERO else value for value in (mean, slope))
    order, squares = _leading(terms)
    if mean == 0 and order == 1 and (squares is None or 1 - float(squares[1]) <= ZERO):
        why = "the activation is linear: f(c) = c, the NTK divided by depth is the linear kernel at every depth"
        raise NoLimit(where, why, "use a linear model, or an activation that bends")
    if mean == 0 and order == TERMS:
        raise NoLimit(where, f"its first {TERMS} Hermite coefficients are zero", "use an activation of lower order")
    return DualMap(family, square, mean, slope, prime / square, _parity(family), order, squares)


def _decided(where: str, error: float, numbers: dict[str, float]) -> None:
    """Refuse numbers whose sign or vanishing the quadrature does not tell, and warn where the rest is inaccurate."""
    for name, value in numbers.items():
        if ZERO < abs(value) <= error:
            fix = "use an activation of dl.act, which has closed forms, or a function without kinks"
            raise PrecisionError(where, f"{name} = {value:.1e} may be zero: the quadrature is good to {error:.1e}", fix)
    if error > ACCURATE:
        warnings.warn(f"{where}: the quadrature is good to {error:.1e}", AccuracyWarning, stacklevel=3)


def _jumps(family: Family, square: float, prime: float) -> bool:
    """Say whether 1 - f falls faster than E[phi'^2] allows near c = 1: a jump of phi, whose derivative counts as 0."""
    gap = np.full(1, 1e-12)
    fall = float(family.near(gap, 2 - gap, np.ones(1), np.ones(1))[0][0])
    return fall > _JUMP * max(prime, ZERO * square) * 1e-12


def _terms(family: Any, square: float) -> np.ndarray | None:
    """Return the first Hermite coefficients of the normalised function."""
    if not hasattr(family, "coefficients"):
        return None
    return family.coefficients(np.ones(1), TERMS)[:, 0] / sqrt(square)


def _slope(family: Family, square: float) -> float:
    """Return E phi'(z) = E z phi(z) of a family without coefficients, by quadrature of its function."""
    z, step = np.linspace(-13, 13, 260001, retstep=True)
    density = np.exp(-(z**2) / 2) / sqrt(2 * np.pi)
    return float(np.sum(z * family.function(z) * density) * step) / sqrt(square)


def _leading(terms: np.ndarray | None) -> tuple[int, np.ndarray | None]:
    """Return the first order beyond the mean and the squares, those below it exactly zero."""
    if terms is None:
        return 1, None
    present = np.abs(terms[1:]) > ZERO
    order = 1 + int(np.argmax(present)) if present.any() else TERMS
    squares = terms**2
    squares[1:order] = 0
    if abs(terms[0]) <= ZERO:
        squares[0] = 0
    return order, squares


def _parity(family: Family) -> int:
    x = np.linspace(0.01, 8, 800)
    with np.errstate(over="ignore"):
        up, down = family.function(x), family.function(-x)
    near = 1e-13 * np.maximum(np.abs(up), np.abs(down))
    return 1 if (np.abs(up - down) <= near).all() else -1 if (np.abs(up + down) <= near).all() else 0


def reason(dual: DualMap, ridge: float) -> str:
    """Say in words which classifier infinite depth makes of the activation, and why."""
    numbers = f"A = E phi = {dual.mean:.6g}, A' = E phi' = {dual.slope:.6g}, B' = E phi'^2 = {dual.growth:.6g}"
    head = f"{numbers} (phi divided by sqrt(E phi^2) = {sqrt(dual.scale):.6g}): "
    if dual.case == SINGULAR:
        return head + (
            "A = 0 and A' != 0: the NTK tends to a singular kernel, psi ~ |x - x'|^-alpha with alpha = -4 log|A'| / "
            f"log B' = {dual.alpha:.6g}; consistent where alpha is the dimension of the inputs' sphere and no cosine "
            "is negative"
        )
    if dual.case == NEIGHBOUR:
        return head + "A = A' = 0: the kernel of the nearest training input outgrows every other"
    if dual.growth > 1 + ZERO:
        return head + "A != 0 and B' > 1: all distinct inputs reach the same correlation, exponentially fast in depth"
    if dual.growth >= 1 - ZERO:
        return head + "A != 0 and B' = 1: all distinct inputs reach the same correlation, like a power of depth"
    return (
        head + f"A != 0 and B' < 1: all kernel entries become equal; ridge = {ridge:g} > 0 is what leaves a classifier"
    )


def check_ridge(dual: DualMap, ridge: float) -> None:
    """Refuse an activation whose ridgeless classifier has no limit.

    Raises:
        NoLimit: A != 0 and B' < 1 without a ridge.
    """
    if dual.case == MAJORITY and dual.growth < 1 - ZERO and not ridge > 0:
        why = (
            f"A = {dual.mean:.4g} != 0 and B' = {dual.growth:.4g} < 1: all entries of the NTK become equal, and "
            "without a ridge the classifier has no limit"
        )
        fix = "pass ridge > 0 (kept while depth grows: a majority vote), or an activation with E phi = 0"
        raise NoLimit("InfiniteDepthClassifier", why, fix)
