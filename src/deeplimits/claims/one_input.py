"""Wide networks of one input, many at a time: what an input sees of each weight matrix is drawn, the rest never exists.

z_{l+1} = W phi(z_l) has independent rows given z_l, and W' b given W phi(z_l) = z_{l+1} is known along phi(z_l) and
free across it. Laws of preactivations and of the NTK are exact at every width; the inputs have |x|^2 / d = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deeplimits.plane.record import Estimate

Function = Callable[[np.ndarray], np.ndarray]
NODES = 80
DEGREE = 40


@dataclass(frozen=True)
class Law:
    """A perceptron: phi, phi', n Var(W_ij) = weight, and whether W is orthogonal instead of Gaussian."""

    phi: Function
    slope: Function
    weight: float = 1.0
    orthogonal: bool = False


def relu(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0)."""
    return np.maximum(x, 0.0)


def step(x: np.ndarray) -> np.ndarray:
    """Return 1 for x > 0, else 0: the slope of ReLU."""
    return (x > 0).astype(float)


def sech2(x: np.ndarray) -> np.ndarray:
    """Return the slope of tanh."""
    return 1 - np.tanh(x) ** 2


def forward(law: Law, width: int, layers: int, networks: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the preactivations of every layer, (networks, width) each.

    Example:
        >>> drawn = forward(Law(np.tanh, sech2, orthogonal=True), 4, 3, 2, np.random.default_rng(0))
        >>> len(drawn), (drawn[0] ** 2).mean(1).round(12).tolist()
        (3, [1.0, 1.0])
    """
    square, found = np.ones(networks), []
    for _ in range(layers):
        z = rng.standard_normal((networks, width))
        if law.orthogonal:
            z *= (width / (z**2).sum(1))[:, None] ** 0.5
        found.append(z * (law.weight * square)[:, None] ** 0.5)
        square = (law.phi(found[-1]) ** 2).mean(1)
    return found


def tangent(law: Law, z: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Return the NTK of every network's one output, (networks,), given its preactivations.

    The readout is a row of one more matrix of the same law, of weight one: on a sphere where weights are orthogonal.
    """
    networks, width = z[0].shape
    readout = rng.standard_normal((networks, width))
    if law.orthogonal:
        readout *= (width / (readout**2).sum(1))[:, None] ** 0.5
    squares = [np.ones(networks), *((law.phi(one) ** 2).mean(1) for one in z)]
    back = law.slope(z[-1]) * readout / width**0.5
    total = squares[-1] + law.weight * squares[-2] * (back**2).sum(1)
    for layer in reversed(range(len(z) - 1)):
        phi = law.phi(z[layer])
        across = _across(phi, rng.standard_normal((networks, width)))
        if law.orthogonal:
            unit = z[layer + 1] / np.linalg.norm(z[layer + 1], axis=1, keepdims=True)
            rest = np.linalg.norm(_across(unit, back), axis=1)
            across *= (law.weight**0.5 * rest / np.linalg.norm(across, axis=1))[:, None]
        else:
            across *= (law.weight / width * (back**2).sum(1))[:, None] ** 0.5
        along = (z[layer + 1] * back).sum(1) / (phi**2).sum(1)
        back = law.slope(z[layer]) * (along[:, None] * phi + across)
        total = total + law.weight * squares[layer] * (back**2).sum(1)
    return total


def mean_tangent(law: Law, z: list[np.ndarray]) -> np.ndarray:
    """Return the mean NTK given the preactivations, over everything else in Gaussian weights, (networks,).

    E|b|^2 and E(z.b)^2 of the gradients b obey a recursion of their own.
    """
    width = z[0].shape[1]
    squares = [np.ones(len(z[0])), *((law.phi(one) ** 2).mean(1) for one in z)]
    slope = law.slope(z[-1])
    norm, overlap = (slope**2).mean(1), ((z[-1] * slope) ** 2).mean(1)
    total = squares[-1] + law.weight * squares[-2] * norm
    for layer in reversed(range(len(z) - 1)):
        phi, slope, below = law.phi(z[layer]), law.slope(z[layer]), z[layer]
        length = (phi**2).sum(1)
        along, free = overlap / length**2, law.weight / width * norm
        tilted = slope * below
        overlap = along * (tilted * phi).sum(1) ** 2 + free * ((tilted**2).sum(1) - (tilted * phi).sum(1) ** 2 / length)
        bent = ((slope * phi) ** 2).sum(1)
        norm = along * bent + free * ((slope**2).sum(1) - bent / length)
        total = total + law.weight * squares[layer] * norm
    return total


def controls(law: Law, z: list[np.ndarray]) -> np.ndarray:
    """Return numbers of mean zero, (networks, 2 layers).

    They are averages over neurons of phi^2 and phi'^2 less their means given the layer below.
    """
    networks = len(z[0])
    variance, found = np.full(networks, law.weight), []
    for one in z:
        for function in (law.phi, law.slope):
            found.append((function(one) ** 2).mean(1) - _gaussian(function, variance))
        variance = law.weight * (law.phi(one) ** 2).mean(1)
    return np.stack(found, axis=1)


def controlled(values: np.ndarray, zero: np.ndarray) -> Estimate:
    """Return the mean of values, (networks,), with its error, after the part linear in numbers of mean zero is removed.

    Example:
        >>> x = np.linspace(-1, 1, 101)
        >>> round(controlled(3 + x, x[:, None]).value, 12)
        3.0
    """
    design = np.column_stack([np.ones(len(values)), zero])
    fitted = np.linalg.lstsq(design.T @ design, design.T @ values, rcond=None)[0]
    rest = values - zero @ fitted[1:]
    return Estimate(float(rest.mean()), float(rest.std(ddof=design.shape[1]) / len(values) ** 0.5))


def _across(direction: np.ndarray, vector: np.ndarray) -> np.ndarray:
    share = (direction * vector).sum(1) / (direction**2).sum(1)
    return vector - share[:, None] * direction


def _gaussian(function: Function, variance: np.ndarray) -> np.ndarray:
    """Return <function^2> at variances: half-lines exactly, others by Chebyshev interpolation of a quadrature."""
    if function in (relu, step):
        return variance / 2 if function is relu else np.full(len(variance), 0.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    low, high = variance.min(), max(variance.max(), variance.min() * (1 + 1e-9))
    grid = np.polynomial.Chebyshev.interpolate(
        lambda q: function(np.sqrt(q)[:, None] * nodes) ** 2 @ weights, DEGREE, domain=[low, high]
    )
    return grid(variance)
