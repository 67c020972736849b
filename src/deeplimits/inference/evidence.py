"""The evidence, log p(y): its value, its gradient in hyperparameters, and its maximum by L-BFGS-B in logarithms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from math import exp, log, pi
from typing import Any

import numpy as np

from deeplimits.architecture.layer import Layer
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError, PrecisionError, nearest
from deeplimits.inference.gaussian_process import factorise
from deeplimits.inference.prior import Prior, Rows
from deeplimits.limits.kernel.gradient import pullback

NOISE = "noise"
REACH, NOISE_REACH = 1e2, 1e6  # how far from its start a hyperparameter may go, as a factor either way
STEPS = 100
Objective = Callable[[Mapping[str, float]], tuple[float, dict[str, float]]]


@dataclass(frozen=True)
class Maximum:
    """Where the evidence is largest.

    Attributes:
        values: {path: value}.
        evidence: log p(y) there.
        evaluations: how often the evidence and its gradient were computed.
    """

    values: dict[str, float]
    evidence: float
    evaluations: int


def regression(
    prior: Prior, kind: str, rows: Rows, y: np.ndarray, noise: float, paths: Iterable[str] = (), unit: float = 1.0
) -> tuple[float, dict[str, float]]:
    """Return log N(y; 0, K + noise I), summed over outputs, and its gradient.

    The gradient is that of sum of G_ij K_ij with G = (a a^T - (K + noise I)^-1) / 2 and a = (K + noise I)^-1 y.

    Args:
        prior: the network.
        kind: "nngp" or "ntk".
        rows: inputs, shape (N, d).
        y: centred and scaled targets, shape (N,) or (N, outputs).
        noise: variance on the scale of y.
        paths: hyperparameters of the network, and "noise" (on the user's scale), to differentiate in.
        unit: what a variance of one stands for on the user's scale; the density returned is that of the user's y.

    Source: rasmussen-williams-2006, section 5.4.1.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> prior = Prior(Mlp("relu"), 1)
        >>> value, gradient = regression(prior, "nngp", np.ones((1, 2)), np.zeros(1), 1.0, ["noise"])
        >>> round(value + 0.5 * log(2 * pi * 2.0), 12), round(gradient["noise"], 12)
        (0.0, -0.25)
    """
    paths, y = tuple(paths), y.reshape(len(y), -1)
    factor = factorise("log_marginal_likelihood", prior.matrix(rows, kind), noise, rows, unit)
    answer = factor.solve(y)
    value = -0.5 * float(np.vdot(y, answer)) - 0.5 * y.shape[1] * factor.log_determinant
    value -= 0.5 * y.size * log(2 * pi * unit)
    if not paths:
        return value, {}
    weights = factor.inverse()
    weights *= -y.shape[1]
    weights += answer @ answer.T
    weights *= 0.5
    gradient = {NOISE: float(np.trace(weights)) / unit} if NOISE in paths else {}
    return value, gradient | network_gradient(prior, kind, rows, weights, paths)


def network_gradient(
    prior: Prior, kind: str, rows: Rows, weights: np.ndarray, paths: Iterable[str]
) -> dict[str, float]:
    """Return the gradient of sum of weights_ij K_ij in the network's own hyperparameters among `paths`."""
    known = prior.net.hyperparameters()
    at = {path: float(known[path]) for path in paths if path != NOISE}
    return pullback(prior.net, rows, weights, at, prior.depth, kind) if at else {}


def tuned(where: str, net: Layer, asked: Any, noise: float | None) -> dict[str, float]:
    """Return {path: where it starts} of the hyperparameters to maximise over.

    Args:
        where: named in errors.
        net: the description.
        asked: None, "all", or paths; "noise" is one of them where there is noise.
        noise: its variance, or None for an estimator without.

    Raises:
        DescriptionError: a path that is none, that has no gradient, or that does not start above zero.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> tuned("fit", Mlp("erf"), "all", 0.1)
        {'weight_std': 1.0, 'readout_std': 1.0, 'noise': 0.1}
    """
    known = {path: float(value) for path, value in net.hyperparameters().items()}
    if noise is not None:
        known[NOISE] = noise
    if asked is None:
        return {}
    if isinstance(asked, str) and asked == "all":
        return {path: value for path, value in known.items() if value > 0}
    paths = list(asked) if isinstance(asked, list | tuple | set | frozenset) else [asked]
    for path in paths:
        if path not in known:
            raise DescriptionError(where, _no_gradient(net, path), f"{nearest(str(path), known)}; or 'all'")
        if known[path] <= 0:
            why = f"optimize={path!r}: {known[path]:g} has no logarithm, in which the evidence is maximised"
            raise DescriptionError(where, why, f"start {path} above zero")
    return {path: known[path] for path in paths}


def _no_gradient(net: Layer, path: Any) -> str:
    held = getattr(net, str(path), None) if str(path) in {field.name for field in fields(net)} else None  # type: ignore[arg-type]
    if held is not None:
        return f"optimize={path!r}: {held!r} is not a number that the kernel has a gradient in"
    return f"optimize={path!r} is no hyperparameter with a gradient"


def maximise(where: str, objective: Objective, start: Mapping[str, float], forgiving: bool) -> Maximum:
    """Return the largest evidence found from `start` on, within a factor of 100 (noise: 1e6) of it.

    Args:
        where: named in errors and warnings.
        objective: {path: value} -> (evidence, {path: gradient}).
        start: {path: value}, all above zero.
        forgiving: whether a path on which nothing depends is left out instead of refused.

    Raises:
        DescriptionError: nothing depends on a path.

    Source: definition.

    Example:
        >>> found = maximise("fit", lambda at: (-(at["a"] - 2.0) ** 2, {"a": -2 * (at["a"] - 2.0)}), {"a": 1.0}, False)
        >>> round(found.values["a"], 4)
        2.0
    """
    from scipy.optimize import minimize

    first, gradient = objective(start)
    idle = [path for path in start if gradient[path] == 0.0]
    if idle and not forgiving:
        why = f"optimize={idle[0]!r}: the evidence does not depend on it, its gradient is zero"
        raise DescriptionError(where, why, "leave it out")
    paths = [path for path in start if path not in idle]
    if not paths:
        return Maximum(dict(start), first, 1)
    worst = 1e3 * abs(first) + 1e6

    def negative(logs: np.ndarray) -> tuple[float, np.ndarray]:
        at = dict(start) | {path: exp(value) for path, value in zip(paths, logs, strict=True)}
        try:
            value, slope = objective(at)
        except PrecisionError:  # too far: the line search comes back
            return worst, np.zeros(len(paths))
        return -value, np.array([-slope[path] * at[path] for path in paths])

    reach = np.log([NOISE_REACH if path == NOISE else REACH for path in paths])
    at = np.log([start[path] for path in paths])
    bounds = np.stack([at - reach, at + reach], axis=1)
    found = minimize(negative, at, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    values = dict(start) | {path: exp(value) for path, value in zip(paths, found.x, strict=True)}
    _warn(where, found, paths, bounds, values)
    return Maximum(values, -float(found.fun), int(found.nfev) + 1)


def _warn(where: str, found: Any, paths: list[str], bounds: np.ndarray, values: dict[str, float]) -> None:
    for path, value, (low, high) in zip(paths, found.x, bounds, strict=True):
        if not low < value < high:
            text = f"{where}: the evidence still rises where {path} reached {values[path]:.3g}, as far as it may go"
            warnings.warn(f"{text}; start it elsewhere, or leave it out of optimize", AccuracyWarning, stacklevel=4)
    if not found.success:
        text = f"{where}: the evidence may not be at its maximum ({found.message})"
        warnings.warn(text, AccuracyWarning, stacklevel=4)


def check_paths(where: str, given: Any, known: Iterable[str]) -> dict[str, float]:
    """Return {path: float} of hyperparameters given to `log_marginal_likelihood`.

    Raises:
        InputError: an unknown path.
    """
    known = tuple(known)
    for path in given:
        if path not in known:
            raise InputError(where, f"{path!r} is no hyperparameter", nearest(str(path), known))
    return {path: float(value) for path, value in given.items()}
