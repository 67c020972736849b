"""The dual problem of a kernel machine: sweeps of coordinate ascent, and Newton steps where these are slow."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.machine.loss import Dual, Loss

Array = NDArray[np.float64]
SLOW = 0.1  # of the gap, left after a round of sweeps that is followed by a Newton step
LONGEST = 64  # sweeps of a round
HALVINGS = 30
STEPS = 20  # of Newton after a round of sweeps
CUT = 0.95  # of the way to a limit that a logarithm guards
RIDGE = 1e-13  # of the kernel's largest diagonal, in the direction of a Newton step alone


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights of f(x) = sum_i weights_i K(x, x_i) and how good they are.

    Attributes:
        weights, outputs: b and f = K b at the rows, shape (P,).
        objective: |f|^2/2 + C sum l(f, y), |f|^2 = b.K b.
        gap: objective less the dual's value: no function has an objective below objective - gap, and
            |f(x) - best f(x)| <= sqrt(2 gap K(x, x)) everywhere.
        sweeps: taken.
        converged: whether gap <= tol objective.
    """

    weights: Array
    outputs: Array
    objective: float
    gap: float
    sweeps: int
    converged: bool

    @property
    def share(self) -> float:
        """The gap over the objective."""
        return self.gap / self.objective if self.gap else 0.0

    def predict(self, cross: Any) -> Array:
        """Return f at new points.

        Args:
            cross: K between them and the rows, shape (M, P).
        """
        return np.asarray(cross, dtype=np.float64) @ self.weights


def solve(kernel: Array, y: Array, loss: Loss, C: float, tol: float, max_iter: int) -> Solution:
    """Return the minimum of |f|^2/2 + C sum l(f, y) over functions of the kernel, no bias.

    Args:
        kernel: shape (P, P), symmetric and positive semidefinite.
        y: shape (P,).
        loss: l.
        C: above 0.
        tol: of the gap of primal and dual, over the objective.
        max_iter: most sweeps over the rows.

    Example:
        >>> from deeplimits.limits.training.machine.loss import Hinge
        >>> found = solve(np.eye(2), np.array([1.0, -1.0]), Hinge(), 0.5, 1e-9, 100)
        >>> found.weights, found.gap, found.converged
        (array([ 0.5, -0.5]), 0.0, True)
    """
    kernel = np.ascontiguousarray(kernel, dtype=np.float64)
    dual, weights = loss.dual(y, C), np.zeros(len(y))
    if dual.entropy:
        weights = y * C / 2
    taken, size, last = 0, 1, np.inf
    best = _measured(kernel, y, loss, C, dual, weights, taken, tol)
    while not best.converged and taken < max_iter and isfinite(best.gap):
        size = min(size, max_iter - taken)
        weights, outputs = best.weights.copy(), best.outputs.copy()
        _sweep(kernel, y, dual, weights, outputs, size)
        taken, last, size = taken + size, best.gap, min(2 * size, LONGEST)
        best = _measured(kernel, y, loss, C, dual, weights, taken, tol)
        if not best.converged and best.gap > SLOW * last:
            weights = _newton(kernel, y, dual, best.weights, best.outputs)
            best = _measured(kernel, y, loss, C, dual, weights, taken, tol)
    return best


def _measured(
    kernel: Array, y: Array, loss: Loss, C: float, dual: Dual, weights: Array, taken: int, tol: float
) -> Solution:
    """Return weights with their gap, as a sum of one nonnegative number a row."""
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = kernel @ weights
        losses = C * loss.value(outputs, y)
        objective = float(max(weights @ outputs, 0.0) / 2 + losses.sum())
        gap = float(np.maximum(losses + weights * outputs + dual.costs(weights), 0.0).sum())
    return Solution(weights, outputs, objective, gap, taken, gap <= tol * objective)


def _sweep(kernel: Array, y: Array, dual: Dual, weights: Array, outputs: Array, count: int) -> None:
    from deeplimits.limits.training.machine.ascent import sweep_logistic, sweep_plain

    if dual.entropy:
        sweep_logistic(kernel, dual.entropy, y, weights, outputs, count)
    else:
        limits = dual.low, dual.high
        sweep_plain(kernel, dual.target, dual.threshold, dual.shift, *limits, weights, outputs, count)


def _newton(kernel: Array, y: Array, dual: Dual, weights: Array, outputs: Array) -> Array:
    """Return weights after Newton steps among those that are free, each cut at the first limit that it meets.

    Without an entropy the last one ends at the best weights of their face; cutting all limits at once would spoil the
    balance of weights that a large common part of the kernel demands.
    """
    for _ in range(STEPS):
        low, high = dual.low, dual.high
        if dual.threshold:
            low, high = np.where(weights > 0, 0.0, low), np.where(weights < 0, 0.0, high)
        direction = _direction(kernel, y, dual, weights, outputs)
        if not direction.any():
            return weights
        limit = np.where(direction > 0, high, low)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            room = np.where(direction != 0, (limit - weights) / direction, np.inf)
        first = int(room.argmin())
        share = min(1.0, float(room[first]) * (CUT if dual.entropy else 1.0))
        value, met = weights @ outputs / 2 + dual.costs(weights).sum(), share == room[first]
        for _ in range(HALVINGS):
            trial = np.clip(weights + share * direction, dual.low, dual.high)
            if met:
                trial[first] = limit[first]
            moved = kernel @ trial
            if trial @ moved / 2 + dual.costs(trial).sum() < value:
                break
            share, met = share / 2, False
        else:
            return weights
        weights, outputs = trial, moved
        if share == 1.0 and not dual.entropy:
            return weights
    return weights


def _direction(kernel: Array, y: Array, dual: Dual, weights: Array, outputs: Array) -> Array:
    """Return Newton's direction among the weights that are at no limit and no kink, 0 for the others."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    slope = outputs - dual.target + dual.shift * weights + dual.threshold * np.sign(weights)
    curve = np.full(len(weights), dual.shift + RIDGE * float(np.diagonal(kernel).max(initial=0.0)))
    free = (weights > dual.low) & (weights < dual.high) & ((weights != 0) | (dual.threshold == 0))
    if dual.entropy:
        size = np.abs(weights)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = slope + y * np.log(size / (dual.entropy - size))
            curve = dual.entropy / (size * (dual.entropy - size))
        free &= np.isfinite(curve) & np.isfinite(slope)
    found = np.zeros_like(weights)
    try:
        factor = cho_factor(kernel[np.ix_(free, free)] + np.diag(curve[free]), lower=True)
    except LinAlgError:
        return found
    found[free] = -cho_solve(factor, slope[free])
    return found
