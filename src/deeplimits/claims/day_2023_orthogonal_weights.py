"""Orthogonal against Gaussian weights: fluctuations of preactivations and of the NTK, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_input import Law, forward, relu, sech2, step, tangent
from deeplimits.limits.corrections.single import DenseLayer, SingleState, single
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.series import Series
from deeplimits.numerics.seeds import generator
from deeplimits.plane.measure import variance
from deeplimits.plane.record import Estimate

HEADLINE = "largest n Var(q) / E(q)^2 of orthogonal tanh networks at any measured layer"
WIDTH = 24
KINK = 8  # layer at which what grows is compared: deeper, tails over networks are too long
TANH, RELU = Series(np.tanh, sech2, "tanh"), RectifiedPower(1, 1.0, 0.0)


@dataclass(frozen=True)
class Sizes:
    """Layers at which preactivations are measured, depths at which the NTK is, and networks of either."""

    layers: tuple[int, ...]
    depths: tuple[int, ...]
    networks: tuple[int, int]


def relative(values: np.ndarray) -> Estimate:
    """Return n Var / mean^2 over networks with its error."""
    found, mean = variance(values[:, None]), float(values.mean())
    return Estimate(WIDTH * found.value / mean**2, WIDTH * found.error / mean**2)


def squares(name: str, law: Law, sizes: Sizes) -> list[Estimate]:
    """Return n Var(q)/E(q)^2, q = |z|^2/n, at the layers."""
    z = forward(law, WIDTH, max(sizes.layers), sizes.networks[0], generator(0, "claims", "day", name))
    return [relative((z[layer - 1] ** 2).mean(1)) for layer in sizes.layers]


def states(orthogonal: bool, weight: float = 1.0) -> list[SingleState]:
    """Return the theory's preactivations, layer by layer."""
    family = TANH if weight == 1.0 else RELU
    return single(family, [DenseLayer(weight, orthogonal=orthogonal)] * 49, np.ones(1))


def preactivations(sizes: Sizes) -> Measured:
    """Measure how |z|^2/n fluctuates from the first layer to the fortieth."""
    gaussian, orthogonal = (squares(_name(kind), Law(np.tanh, sech2, 1.0, kind), sizes) for kind in (False, True))
    kinked = squares("orthogonal ReLU", Law(relu, step, 2.0, True), sizes)
    first, last = gaussian[0], gaussian[-1]
    kinks = sizes.layers.index(KINK)
    growth, climb = _over(first, last), _over(kinked[1], kinked[kinks])
    worst = max(orthogonal, key=lambda one: one.value)
    kink = _theory(states(True, 2.0), sizes.layers)
    theory = {kind: _theory(states(kind), sizes.layers) for kind in (False, True)}
    parts = [
        agreement.between(HEADLINE, max(theory[True]), worst, 0.0, 0.2),
        agreement.above(
            f"growth of n Var(q) / E(q)^2, layer {sizes.layers[0]} to {sizes.layers[-1]}, Gaussian tanh", 10.0, growth,
            predicted=theory[False][-1] / theory[False][0],
        ),
        agreement.above(
            f"the same from layer {sizes.layers[1]} to {KINK}, orthogonal ReLU: it is not cured", 5.0, climb,
            predicted=kink[kinks] / kink[1],
        ),
    ]  # fmt: skip
    curves = [
        _curve("Gaussian tanh", sizes.layers, gaussian, theory[False]),
        _curve("orthogonal tanh", sizes.layers[1:], orthogonal[1:], theory[True][1:]),
        _curve("orthogonal ReLU", sizes.layers[1:], kinked[1:], kink[1:]),
    ]
    panel = Panel(f"Preactivations, n = {WIDTH}; lines: order 1/n", "layer", "n Var(q) / E(q)²", curves, y_scale="log")
    return Measured(parts, [panel])


def tangents(sizes: Sizes) -> Measured:
    """Measure how the NTK fluctuates and how its mean moves."""
    spread: dict[bool, list[Estimate]] = {False: [], True: []}
    mean: dict[bool, list[Estimate]] = {False: [], True: []}
    predicted: dict[bool, list[SingleState]] = {False: [], True: []}
    for kind in (False, True):
        law = Law(np.tanh, sech2, 1.0, kind)
        for depth in sizes.depths:
            rng = generator(0, "claims", "day", "tangent", _name(kind), depth)
            values = tangent(law, forward(law, WIDTH, depth, sizes.networks[1], rng), rng)
            hidden = DenseLayer(1.0, orthogonal=kind)
            at = single(TANH, [hidden] * (depth + 1), np.ones(1))[-1]
            limit = float(at.h[0])
            spread[kind].append(relative(values))
            error = float(values.std(ddof=1)) / len(values) ** 0.5
            mean[kind].append(Estimate(WIDTH * (float(values.mean()) / limit - 1), WIDTH * error / limit))
            predicted[kind].append(at)
    kinks = sizes.depths.index(KINK)
    rise, worst = _over(spread[False][0], spread[False][kinks]), max(spread[True], key=lambda one: one.value)
    ratios = {kind: [float((s.h_variance / s.h**2)[0]) for s in found] for kind, found in predicted.items()}
    moved = {kind: [float((s.h_shift / s.h)[0]) for s in found] for kind, found in predicted.items()}
    parts = [
        agreement.between(
            "largest n Var(NTK) / mean^2 of orthogonal tanh at any measured depth", max(ratios[True]), worst, 0.0, 0.5,
        ),
        agreement.above(
            f"growth of n Var(NTK) / mean^2, depth {sizes.depths[0]} to {KINK}, Gaussian tanh", 2.0, rise,
            predicted=ratios[False][kinks] / ratios[False][0],
        ),
        agreement.between(
            f"n (mean NTK / limit - 1) of orthogonal tanh, depth {sizes.depths[-1]}: it saturates", moved[True][-1],
            mean[True][-1], 0.5, 1.5,
        ),
    ]  # fmt: skip
    panels = [
        Panel(
            f"NTK, n = {WIDTH}; lines: order 1/n", "hidden layers", "n Var(NTK) / mean²",
            [_curve(_name(kind), sizes.depths, spread[kind], ratios[kind]) for kind in (False, True)], y_scale="log",
        ),
        Panel(
            f"Mean NTK, n = {WIDTH}; lines: order 1/n", "hidden layers", "n (mean NTK / limit − 1)",
            [_curve(_name(kind), sizes.depths, mean[kind], moved[kind]) for kind in (False, True)],
        ),
    ]  # fmt: skip
    return Measured(parts, panels)


def _name(orthogonal: bool) -> str:
    return "orthogonal tanh" if orthogonal else "Gaussian tanh"


def _theory(found: list[SingleState], layers: tuple[int, ...]) -> list[float]:
    """Return n Var(q) / K^2 = V / K^2 + 2 at the layers, to leading order."""
    return [float((found[layer - 1].v / found[layer - 1].k ** 2)[0]) + 2 for layer in layers]


def _over(first: Estimate, last: Estimate) -> Estimate:
    """Return last / first with its error."""
    ratio = last.value / first.value
    return Estimate(ratio, ratio * float(np.hypot(first.error / first.value, last.error / last.value)))


def _curve(name: str, x: tuple[int, ...], found: list[Estimate], line: list[float]) -> Curve:
    return Curve(name, [float(at) for at in x], [one.value for one in found], [one.error for one in found], line)


CLAIM = Claim(
    key="day-2023-orthogonal-weights",
    statement=(
        "Preactivations of tanh networks with orthogonal weights fluctuate by the same amount at every depth and the "
        "correlators of their NTK saturate, while with Gaussian weights both grow with depth."
    ),
    source="day-2023-orthogonal-weights; the recursions are derived here",
    headline=HEADLINE,
    steps=(Step("preactivations", preactivations, 3.0), Step("tangents", tangents, 10.0)),
    full=Sizes(layers=(1, 2, 4, 8, 16, 24, 32, 40), depths=(2, 4, 8, 16, 24, 32, 48), networks=(60_000, 20_000)),
    reduced=Sizes(layers=(1, 2, 8, 40), depths=(2, 8, 24), networks=(4000, 2000)),
)
