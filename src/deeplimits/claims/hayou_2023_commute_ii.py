"""Residual networks with any sequence of branch scales, and the perceptron whose limits do not commute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log, pi, sinh, sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.inputs import pair
from deeplimits.numerics.fit import slope

C0 = 0.2
HEADLINE = "var(log q) of the MLP, width = depth"
PRODUCT = sinh(pi / sqrt(2)) / (pi / sqrt(2))


@dataclass(frozen=True)
class Sizes:
    """Places (width, depth, networks), depths and widths."""

    place: tuple[int, int, int]
    depths: tuple[int, ...]
    tail: int
    unstable: tuple[tuple[int, int, int], ...]
    diagonal: tuple[tuple[int, int], ...]


def uniform(index: int, depth: int) -> float:
    """alpha^2 = 1/L."""
    return depth**-0.5


def linear(index: int, depth: int) -> float:
    """alpha^2 growing linearly in l."""
    return sqrt(2 * index / (depth * (depth + 1)))


def first_half(index: int, depth: int) -> float:
    """alpha^2 = 2/L in the first half, 0 in the second."""
    return sqrt(2 / depth) if 2 * index <= depth else 0.0


def decreasing(index: int, depth: int) -> float:
    """alpha^2 falling as (l + L)^-2, normalised."""
    return sqrt(2 * depth) / (index + depth)


SEQUENCES: tuple[Callable[[int, int], float], ...] = (uniform, linear, first_half, decreasing)
WORDS = {
    "uniform": "uniform scales",
    "linear": "scales growing along the depth",
    "first_half": "scales of the first half only",
    "decreasing": "scales falling along the depth",
}


def _net(scale: Any) -> Any:
    from deeplimits.architecture.zoo import ResNet

    return ResNet("relu", scale=scale)


def _edge(scale: Any, depth: float) -> np.ndarray:
    from deeplimits.limits.kernel.ask import kernel

    return np.asarray(kernel(_net(scale), pair(C0), depth=depth, get="nngp"))


def _gram(net: Any, place: tuple[int, int, int], seed: int, inputs: int = 2) -> np.ndarray:
    from deeplimits.finite.sample import sample

    return sample(net.body, pair(C0)[:inputs], *place, seed=seed).gram


def _squares(scale: Callable[[int, int], float], depth: int) -> np.ndarray:
    return np.array([scale(index, depth) ** 2 for index in range(1, depth + 1)])


def _correlation(gram: np.ndarray) -> np.ndarray:
    return gram[..., 0, 1] / np.sqrt(gram[..., 0, 0] * gram[..., 1, 1])


def sequences(sizes: Sizes) -> Measured:
    """Measure sampled networks with four normalised sequences beside the one flow."""
    width, depth, networks = sizes.place
    parts: list[Part] = []
    for seed, scale in enumerate(SEQUENCES, start=1):
        corner, gram = _edge(scale, inf), _gram(_net(scale), sizes.place, seed)
        size, lag = float(corner[0, 0]), float(np.sum(_squares(scale, depth) ** 2))
        off = abs(1 - float(_squares(scale, depth).sum()))
        parts += [
            agreement.near(
                f"correlation, {WORDS[scale.__name__]}", float(_correlation(corner)),
                agreement.average(_correlation(gram)), 0.03, bias=0.3 / width + 0.04 * lag + off,
                because="0.3/n of the width, 0.04 sum alpha^4 and 1 - sum alpha^2 of the depth", networks=networks,
            ),
            agreement.near(
                f"mean square, {WORDS[scale.__name__]}", exp(0.5),
                agreement.average(np.diagonal(gram, axis1=1, axis2=2)), 0.1 * size,
                bias=size * (lag / 8 + off / 2 + 0.13 / width),
                because="q sum alpha^4/8 and q (1 - sum alpha^2)/2 of the depth, 0.13 q/n of the width",
                networks=networks,
            ),
        ]  # fmt: skip
    return Measured(parts, [])


def depth_rate(sizes: Sizes) -> Measured:
    """Compute how far a finite depth is from the flow, in units of sum alpha^4."""
    parts, curves = [], []
    q, predicted = exp(0.5), -exp(0.5) / 8
    for scale in SEQUENCES[:3]:
        ratios = []
        for depth in sizes.depths:
            squares = _squares(scale, depth)
            ratios.append((float(_edge(scale, depth)[0, 0]) - q) / float(np.sum(squares**2)))
        squares = _squares(scale, sizes.depths[-1])
        allowance = 2 * q * (float(squares.max()) / 24 + float(np.sum(squares**2)) / 128)
        parts.append(
            agreement.equal(
                f"(q_L - q) / sum alpha^4, {WORDS[scale.__name__]}, depth {sizes.depths[-1]}", predicted, ratios[-1],
                allowance, "twice the next orders, q max alpha^2/24 + q sum alpha^4/128", paper=False,
            )
        )  # fmt: skip
        curves.append(Curve(WORDS[scale.__name__], [float(d) for d in sizes.depths], ratios))
    curves.append(Curve("−√e/8", [float(d) for d in sizes.depths], predicted=[predicted] * len(sizes.depths)))
    panel = Panel("One rate in depth for all sequences", "depth L", "(q at depth L − q) / Σα⁴", curves)
    return Measured(parts, [panel])


def discrete(sizes: Sizes) -> Measured:
    """Measure scales 1/l, whose limit is an infinite product and no flow."""
    from deeplimits.architecture.scale import Decreasing

    width, depth, networks = sizes.place
    corner, gram = _edge(Decreasing(), inf), _gram(_net(Decreasing()), sizes.place, seed=5)
    deep = float(_edge(Decreasing(), sizes.tail)[0, 0])
    lag = PRODUCT * (1 - exp(-1 / (2 * depth)))
    q = agreement.average(np.diagonal(gram, axis1=1, axis2=2))
    parts = [
        agreement.equal(
            "q at infinite depth, scales 1/l", PRODUCT, float(corner[0, 0]), 1e-6, "the accuracy of the recursion",
        ),
        agreement.equal(
            f"L (q_inf - q_L), scales 1/l, depth {sizes.tail}", PRODUCT / 2, sizes.tail * (PRODUCT - deep),
            PRODUCT / (2 * sizes.tail), "the next order, below q/2L", paper=False,
        ),
        agreement.near(
            "mean square, scales 1/l", PRODUCT, q, 0.1 * PRODUCT, bias=lag + 0.13 * PRODUCT / width,
            because="q/2L of the depth, 0.13 q/n of the width", networks=networks,
        ),
        agreement.near(
            "correlation, scales 1/l", float(_correlation(corner)), agreement.average(_correlation(gram)), 0.03,
            bias=0.3 / width + 0.1 / depth, because="0.3/n of the width, 0.1/L of the depth", networks=networks,
        ),
    ]  # fmt: skip
    return Measured(parts, [])


def unstable(sizes: Sizes) -> Measured:
    """Measure scales L^(-1/4), whose sum of squares grows as sqrt(L)."""
    from deeplimits.architecture.layer import DEPTH
    from deeplimits.errors import NoLimit

    scale, depths = DEPTH**-0.25, [place[1] for place in sizes.unstable]
    logs = [np.log(np.diagonal(_gram(_net(scale), place, seed=6), axis1=1, axis2=2)) for place in sizes.unstable]
    means = [agreement.average(values) for values in logs]
    width, depth, networks = sizes.unstable[-1]
    exact = [length * log(1 + length**-0.5 / 2) for length in depths]
    try:
        _edge(scale, inf)
        refused = 0.0
    except NoLimit:
        refused = 1.0
    parts = [
        agreement.near(
            f"mean log q, scales L^(-1/4), width {width}, depth {depth}", exact[-1], means[-1], 1.0,
            bias=(2 * sqrt(depth) + 3) / width, because="2t/n of the width, t = sum alpha^2, and the read-in's 3/n",
            networks=networks, paper=False,
        ),
        agreement.above(
            f"mean log q, scales L^(-1/4), beyond every stable network's, depth {depth}", log(100), means[-1],
            predicted=exact[-1], networks=networks,
        ),
        agreement.equal("no limit is given where sum alpha^2 diverges", 1.0, refused, 0.0, "1: refused in words"),
    ]  # fmt: skip
    curve = Curve(
        "sampled, scales L^(-1/4); line: infinite width", [float(d) for d in depths], [m.value for m in means],
        [m.error for m in means], exact,
    )  # fmt: skip
    return Measured(parts, [Panel("A diverging sum explodes", "depth L", "mean of log q", [curve])])


def perceptron(sizes: Sizes) -> Measured:
    """Measure the law of log q of the He-initialised perceptron and of the residual network, along width = depth."""
    from deeplimits.architecture.zoo import Mlp, ResNet
    from deeplimits.limits.corrections.residual_norm import norm_fluctuation
    from deeplimits.limits.proportional.chi_square import log_norm_law

    families = {"MLP": Mlp("relu"), "ResNet": ResNet("relu")}
    widths = [width for width, _ in sizes.diagonal]
    logs = {
        name: [np.log(_gram(net, (width, width, count), seed, 1)[:, 0, 0]) for width, count in sizes.diagonal]
        for seed, (name, net) in enumerate(families.items(), start=7)
    }
    variances = {name: [_variance(values) for values in found] for name, found in logs.items()}
    laws = [log_norm_law(families["MLP"], width, width) for width in widths]
    constant, (width, count), law = norm_fluctuation(1.0), sizes.diagonal[-1], laws[-1]
    fitted = {n: slope(widths, [v.value for v in f], [v.error for v in f], CONFIDENCE) for n, f in variances.items()}
    exact = slope(widths, [one.variance for one in laws]).value
    parts = [
        agreement.near(HEADLINE, law.variance, variances["MLP"][-1], 0.2 * law.variance),
        agreement.near(
            "mean log q of the MLP, width = depth (0 if the width goes first)", law.mean,
            agreement.average(logs["MLP"][-1]), 0.25, networks=count,
        ),
        agreement.near(
            "var(log q) of the ResNet, width = depth", constant / width, variances["ResNet"][-1],
            0.3 * constant / width, bias=constant / width * (4 / width + 1 / width),
            because="4/n and 1/L of itself, second orders", paper=False,
        ),
        agreement.inside("exponent of var(log q) in the width, MLP", exact, fitted["MLP"], -0.3, 0.3),
        agreement.inside("exponent of var(log q) in the width, ResNet", -1.0, fitted["ResNet"], -1.3, -0.7),
    ]  # fmt: skip
    lines = {"MLP": [one.variance for one in laws], "ResNet": [constant / width for width in widths]}
    curves = [
        Curve(name, [float(w) for w in widths], [v.value for v in found], [v.error for v in found], lines[name])
        for name, found in variances.items()
    ]
    title = "MLP does not commute, ResNet does"
    return Measured(parts, [Panel(title, "width n = depth L", "var(log q) over networks", curves, y_scale="log")])


def _variance(values: np.ndarray) -> Any:
    from deeplimits.plane.measure import variance

    return variance(values[:, None])


CLAIM = Claim(
    key="hayou-2023-commute-ii",
    statement=(
        "Width and depth commute for every sequence of branch scales whose squares have a bounded sum; "
        "where the sum diverges the covariance explodes, and without skips the order matters."
    ),
    source="hayou-2023-commute-ii; hanin-nica-2019 (the perceptron's law)",
    headline=HEADLINE,
    steps=(
        Step("perceptron", perceptron, 12.0),
        Step("sequences", sequences, 16.0),
        Step("depth rate", depth_rate, 5.0),
        Step("discrete", discrete, 3.0),
        Step("unstable", unstable, 3.0),
    ),
    full=Sizes(
        place=(256, 256, 500),
        depths=(16, 64, 256, 1024),
        tail=4096,
        unstable=((256, 16, 300), (256, 64, 300), (256, 256, 300)),
        diagonal=((32, 6000), (64, 6000), (128, 6000)),
    ),
    reduced=Sizes(
        place=(32, 32, 100),
        depths=(16, 64),
        tail=512,
        unstable=((32, 16, 50), (32, 64, 50), (32, 256, 50)),
        diagonal=((16, 300), (32, 300)),
    ),
)
