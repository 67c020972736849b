"""How the NTK's fluctuations and its motion fall with the width, for polynomial activations and for ReLU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_input import relu, step
from deeplimits.limits.corrections.cluster_graph import width_exponent
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.measure import variance
from deeplimits.plane.record import Estimate

Function = Callable[[np.ndarray], np.ndarray]
HEADLINE = "exponent in the width of Var(NTK), quadratic activation"
STEP = 1e-4  # of the central difference along the gradient; its error is of the order of its square
DEEP = "reported: at these widths the next orders in 1/n are as large"
MOST = 2_000_000  # entries of the matrices held at once


@dataclass(frozen=True)
class Sizes:
    """(width, networks) for each of two and of three layers of weights."""

    shallow: tuple[tuple[int, int], ...]
    deep: tuple[tuple[int, int], ...]


def square(x: np.ndarray) -> np.ndarray:
    """Return x^2 / 2."""
    return x**2 / 2


def itself(x: np.ndarray) -> np.ndarray:
    """Return x: the slope of x^2 / 2."""
    return x


KINDS: dict[str, tuple[Function, Function]] = {"quadratic": (square, itself), "ReLU": (relu, step)}


def gradients(weights: list[np.ndarray], phi: Function, prime: Function) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the output f (networks,) and its gradients, for scalar inputs 1; weights (networks, out, in), N(0, 1).

    f = w_L phi(w_(L-1) phi(... w_1) / sqrt(n)) / sqrt(n).
    """
    states, heights = [np.ones((len(weights[0]), 1))], []
    for matrix in weights:
        heights.append(np.einsum("soi,si->so", matrix, states[-1]) / matrix.shape[2] ** 0.5)
        states.append(phi(heights[-1]))
    back, found = np.ones((len(weights[0]), 1)), []
    for layer in reversed(range(len(weights))):
        scale = weights[layer].shape[2] ** -0.5
        found.insert(0, scale * back[:, :, None] * states[layer][:, None, :])
        if layer:
            back = scale * np.einsum("soi,so->si", weights[layer], back) * prime(heights[layer - 1])
    return heights[-1][:, 0], found


def tangent(gradient: list[np.ndarray]) -> np.ndarray:
    """Return the NTK, (networks,): the square of the gradient."""
    return np.sum([np.einsum("soi,soi->s", one, one) for one in gradient], axis=0)


def drawn(kind: str, width: int, layers: int, networks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the NTK of every network and f (d NTK / d weights) . (d f / d weights): minus its rate of change.

    Under gradient flow on f^2 / 2 the NTK moves at minus that rate.
    """
    phi, prime = KINDS[kind]
    size = max(1, MOST // (width * width if layers > 2 else width))
    kernels, moves = [], []
    for chunk in range(-(-networks // size)):
        rng = generator(0, "claims", "aitken", kind, width, layers, chunk)
        count = min(size, networks - chunk * size)
        shapes = [(width, 1), *[(width, width)] * (layers - 2), (1, width)]
        weights = [rng.standard_normal((count, *shape)) for shape in shapes]
        output, gradient = gradients(weights, phi, prime)
        up, down = (
            tangent(gradients([w + sign * STEP * g for w, g in zip(weights, gradient, strict=True)], phi, prime)[1])
            for sign in (1, -1)
        )
        kernels.append(tangent(gradient))
        moves.append(output * (up - down) / (2 * STEP))
    return np.concatenate(kernels), np.concatenate(moves)


def exponents(layers: int, pairs: tuple[tuple[int, int], ...]) -> Measured:
    """Measure both exponents at a number of layers of weights, for a quadratic activation and for ReLU."""
    fluctuation = width_exponent(4, [(0, 1), (2, 3)]) - 1  # without its disconnected part
    motion = width_exponent(4, [(0, 1), (0, 2)])
    widths, parts, panels = [float(width) for width, _ in pairs], [], []
    for kind in KINDS:
        spreads, moves = [], []
        for width, networks in pairs:
            kernels, rates = drawn(kind, width, layers, networks)
            spreads.append(variance(kernels[:, None]))
            moves.append(Estimate(float(rates.mean()), float(rates.std(ddof=1)) / networks**0.5))
        found = {"Var(NTK)": (fluctuation, spreads), "f dNTK.df": (motion, moves)}
        curves = []
        for name, (predicted, values) in found.items():
            title = HEADLINE if (name, kind, layers) == ("Var(NTK)", "quadratic", 2) else (
                f"exponent in the width of {name}, {kind}, {layers} layers of weights"
            )  # fmt: skip
            fitted = slope(widths, [v.value for v in values], [v.error for v in values], CONFIDENCE)
            counts = kind == "quadratic" and layers == 2
            note = "" if counts else (DEEP if kind == "quadratic" else "reported: the proof is for polynomials")
            parts.append(
                agreement.inside(
                    title, predicted, fitted, predicted - 0.15, predicted + 0.15, paper=counts, counts=counts, note=note
                )
            )
            line = [values[0].value * (width / widths[0]) ** predicted for width in widths]
            curves.append(Curve(name, widths, [v.value for v in values], [v.error for v in values], line))
        panels.append(Panel(f"{kind}, {layers} layers; lines: 1/n", "width n", "over networks", curves, y_scale="log"))
    return Measured(parts, panels)


def shallow(sizes: Sizes) -> Measured:
    """Measure networks with one hidden layer."""
    return exponents(2, sizes.shallow)


def deep(sizes: Sizes) -> Measured:
    """Measure networks with two hidden layers."""
    return exponents(3, sizes.deep)


CLAIM = Claim(
    key="aitken-2020-wide-asymptotics",
    statement=(
        "Correlation functions of networks with polynomial activations fall with the width by exponents that a cluster "
        "graph gives: the variance of the NTK, and its motion under gradient flow, as 1/width."
    ),
    source="aitken-2020-wide-asymptotics; dyer-2020-feynman-diagrams",
    headline=HEADLINE,
    steps=(Step("shallow", shallow, 10.0), Step("deep", deep, 25.0)),
    full=Sizes(
        shallow=((16, 40_000), (64, 20_000), (128, 10_000), (512, 4000)),
        deep=((32, 10_000), (128, 3000), (512, 200)),
    ),
    reduced=Sizes(shallow=((16, 1000), (64, 500)), deep=((16, 500), (32, 300))),
)
