"""Slopes, rates and extrapolated limits, each with a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy import stats

from deeplimits.errors import InputError

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Slope:
    """Exponent s of a power law y = exp(intercept) x**s, with its interval.

    `chi_square` is the weighted sum of squared residuals over `degrees` degrees of freedom (0 where the errors were
    unknown); [low, high] covers s with probability `confidence`.
    """

    value: float
    low: float
    high: float
    standard_error: float
    intercept: float
    chi_square: float
    degrees: int
    confidence: float

    def inside(self, low: float, high: float) -> bool:
        """Return whether the whole interval of the exponent lies in [low, high]."""
        return low <= self.low and self.high <= high


@dataclass(frozen=True)
class Coefficient:
    """A fitted number with its interval."""

    value: float
    low: float
    high: float
    standard_error: float


@dataclass(frozen=True)
class Rate:
    """rms**2 = a**2 / n + b**2 / L**2: how fast one network approaches the corner in width and in depth."""

    a: Coefficient
    b: Coefficient
    chi_square: float
    degrees: int
    confidence: float


@dataclass(frozen=True)
class Limit:
    """m(n, L) = value + a / n + b / L, extrapolated to infinite width and depth."""

    value: float
    low: float
    high: float
    standard_error: float
    a: float
    b: float
    chi_square: float
    degrees: int
    confidence: float


def slope(x: Values, y: Values, y_error: Values | None = None, confidence: float = 0.99) -> Slope:
    """Fit y = C x**s by weighted least squares of log y on log x.

    With standard errors `y_error` the weights are (y / y_error)**2 and the interval is normal, widened by
    sqrt(chi_square / degrees) where the power law does not fit; without them the scatter of the points gives the
    error and the interval uses Student's t.

    Valid when: x and y are positive and there are at least two different x; two points without errors give an
    infinite interval.

    Raises:
        InputError: otherwise.
    """
    points, values, errors = _positive(x, y, y_error)
    design = np.stack([np.log(points), np.ones_like(points)], axis=1)
    relative = None if errors is None else errors / values
    solution, covariance, chi_square, degrees, quantile = _least_squares(design, np.log(values), relative, confidence)
    error = sqrt(covariance[0, 0])
    half = quantile * error if error < inf else inf
    return Slope(
        value=float(solution[0]),
        low=float(solution[0] - half),
        high=float(solution[0] + half),
        standard_error=error,
        intercept=float(solution[1]),
        chi_square=chi_square,
        degrees=degrees,
        confidence=confidence,
    )


def rate_in_width_and_depth(width: Values, depth: Values, rms: Values, error: Values, confidence: float = 0.99) -> Rate:
    """Fit rms**2 = a**2 / n + b**2 / L**2 with a, b >= 0 (weighted, non-negative least squares).

    The relative errors error / rms are kept while the fitted values replace the measured ones in the weights, so
    that a place that came out low by chance does not draw the fit. A coefficient that would be negative is 0 and keeps
    the upper end of its unconstrained interval.

    Valid when: there are at least two places with different n / L**2.
    """
    n, depths, values, errors = (np.asarray(v, dtype=np.float64) for v in (width, depth, rms, error))
    _require(n.size >= 2, "two places or more", f"{n.size} were given")
    _require(bool((values > 0).all() and (errors > 0).all()), "positive rms and errors", "one is zero or negative")
    design = np.stack([1 / n, depths**-2.0], axis=1)
    square, relative = values**2, 2 * errors / values
    fitted = square
    for _ in range(8):
        free = _least_squares(design, square, relative * fitted, confidence)
        solution = _non_negative(design, square, relative * fitted, free[0])
        fitted = np.maximum(design @ solution, 1e-3 * square)
    _, covariance, chi_square, degrees, quantile = free
    residual = (square - design @ solution) / (relative * fitted)
    a, b = (
        _root(solution[i], free[0][i], sqrt(covariance[i, i]) if covariance[i, i] < inf else inf, quantile)
        for i in range(2)
    )
    return Rate(a, b, float(residual @ residual) if degrees else chi_square, degrees, confidence)


def extrapolate(width: Values, depth: Values, value: Values, error: Values, confidence: float = 0.99) -> Limit:
    """Fit m(n, L) = m_inf + a / n + b / L by weighted least squares and return m_inf with its interval.

    Valid when: there are at least three places that do not lie on one line in (1/n, 1/L).

    Raises:
        InputError: otherwise.
    """
    n, depths, values, errors = (np.asarray(v, dtype=np.float64) for v in (width, depth, value, error))
    design = np.stack([np.ones_like(n), 1 / n, 1 / depths], axis=1)
    if n.size < 3 or np.linalg.matrix_rank(design / np.linalg.norm(design, axis=0), tol=1e-9) < 3:
        raise InputError(
            where="extrapolate",
            why=f"{n.size} places do not determine a plane in (1/width, 1/depth)",
            fix="give at least three places, with two widths and two depths among them",
        )
    errors = np.maximum(errors, 1e-14 * np.maximum(np.abs(values).max(), 1e-300))
    solution, covariance, chi_square, degrees, quantile = _least_squares(design, values, errors, confidence)
    spread = sqrt(covariance[0, 0])
    middle = float(solution[0])
    return Limit(
        value=middle,
        low=middle - quantile * spread,
        high=middle + quantile * spread,
        standard_error=spread,
        a=float(solution[1]),
        b=float(solution[2]),
        chi_square=chi_square,
        degrees=degrees,
        confidence=confidence,
    )


def common(value: Values, error: Values, confidence: float = 0.99) -> Coefficient:
    """Return the weighted mean of independent estimates of one number, widened where they disagree.

    Valid when: the errors are positive.

    Raises:
        InputError: otherwise.
    """
    values, errors = np.asarray(value, dtype=np.float64), np.asarray(error, dtype=np.float64)
    _require(values.size >= 1 and bool((errors > 0).all()), "estimates with positive errors", str(errors))
    solution, covariance, _, _, quantile = _least_squares(np.ones((values.size, 1)), values, errors, confidence)
    middle, spread = float(solution[0]), sqrt(covariance[0, 0])
    return Coefficient(middle, middle - quantile * spread, middle + quantile * spread, spread)


def _least_squares(
    design: np.ndarray, target: np.ndarray, errors: np.ndarray | None, confidence: float
) -> tuple[np.ndarray, np.ndarray, float, int, float]:
    weight = np.ones_like(target) if errors is None else 1 / errors
    scale = np.linalg.norm(design * weight[:, None], axis=0)
    left, singular, right = np.linalg.svd(design * weight[:, None] / scale, full_matrices=False)
    _require(singular[-1] > 1e-12 * singular[0], "points that differ", "they all lie at one place")
    solution = (right.T @ ((left.T @ (target * weight)) / singular)) / scale
    covariance = (right.T / singular**2) @ right / np.outer(scale, scale)
    residual = (target - design @ solution) * weight
    degrees = len(target) - design.shape[1]
    chi_square = float(residual @ residual)
    level = 0.5 + confidence / 2
    if errors is not None:
        lack = max(1.0, chi_square / degrees) if degrees else 1.0
        return solution, covariance * lack, chi_square, degrees, float(stats.norm.ppf(level))
    if not degrees:
        return solution, np.full_like(covariance, inf), 0.0, 0, inf
    return solution, covariance * chi_square / degrees, 0.0, degrees, float(stats.t.ppf(level, degrees))


def _non_negative(design: np.ndarray, target: np.ndarray, errors: np.ndarray, free: np.ndarray) -> np.ndarray:
    if (free >= 0).all():
        return free
    from scipy.optimize import nnls

    scale = np.linalg.norm(design / errors[:, None], axis=0)
    return nnls(design / errors[:, None] / scale, target / errors)[0] / scale


def _root(square: float, free: float, error: float, quantile: float) -> Coefficient:
    value = sqrt(square)
    half = quantile * error if error < inf else inf
    low, high = sqrt(max(0.0, free - half)), sqrt(max(0.0, free + half, square))
    return Coefficient(value, min(low, value), high, error / (2 * value) if value > 0 else high)


def _positive(x: Values, y: Values, y_error: Values | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    _require(points.shape == values.shape and points.ndim == 1, "x, y of one length", f"{points.shape}, {values.shape}")
    _require(len(np.unique(points)) >= 2, "two different x or more", f"x is {points.tolist()}")
    for name, array in (("x", points), ("y", values)):
        bad = np.flatnonzero(~((array > 0) & (array < inf)))
        _require(not bad.size, f"positive finite {name}", f"{name}[{bad[:1].tolist()}] is {array[bad[:1]].tolist()}")
    if y_error is None:
        return points, values, None
    errors = np.asarray(y_error, dtype=np.float64)
    _require(errors.shape == values.shape and bool((errors > 0).all()), "one positive y_error a point", str(errors))
    return points, values, errors


def _require(condition: bool, needed: str, found: str) -> None:
    if not condition:
        raise InputError(where="fit", why=f"a fit needs {needed}: {found}", fix=f"give {needed}")
