"""ReLU residual networks with branches scaled by 1/sqrt(depth): one covariance limit, in whatever order."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.inputs import pair
from deeplimits.numerics.fit import slope

C0 = 0.2
HEADLINE = "correlation at width 256 = depth 256"
DEPTH_BIAS = "the finite depth's q/8L, the width's 0.13/n"
CORRELATION_BIAS = "0.3/n of the width, 0.04/L of the depth"


@dataclass(frozen=True)
class Sizes:
    """Places (width, depth, networks)."""

    diagonal: tuple[tuple[int, int, int], ...]
    orders: tuple[tuple[int, int, int], ...]
    shallow: tuple[int, int, int]
    trivial: tuple[int, int, int]
    depths: tuple[int, ...]


def _grams(place: tuple[int, int, int], scale: Any = None) -> np.ndarray:
    from deeplimits.architecture.layer import DEPTH
    from deeplimits.architecture.zoo import ResNet
    from deeplimits.finite.sample import sample

    width, depth, networks = place
    net = ResNet("relu", scale=DEPTH**-0.5 if scale is None else scale).body
    return sample(net, pair(C0), width, depth, networks, seed=0).gram


def _edge(depth: float) -> np.ndarray:
    from deeplimits.architecture.zoo import ResNet
    from deeplimits.limits.kernel.ask import kernel

    return np.asarray(kernel(ResNet("relu"), pair(C0), depth=depth, get="nngp"))


def _correlation(gram: np.ndarray) -> np.ndarray:
    return gram[..., 0, 1] / np.sqrt(gram[..., 0, 0] * gram[..., 1, 1])


def _place_parts(place: tuple[int, int, int], gram: np.ndarray, corner: np.ndarray) -> list[Part]:
    width, depth, networks = place
    at = f"at width {width} = depth {depth}" if width == depth else f"at width {width}, depth {depth}"
    q = np.diagonal(gram, axis1=1, axis2=2)
    size = float(corner[0, 0])
    return [
        agreement.near(
            f"correlation {at}", float(_correlation(corner)), agreement.average(_correlation(gram)), 0.03,
            bias=0.3 / width + 0.04 / depth, because=CORRELATION_BIAS, networks=networks,
        ),
        agreement.near(
            f"mean square {at}", size, agreement.average(q), 0.1 * size,
            bias=size / (8 * depth) + 0.13 * size / width, because=DEPTH_BIAS, networks=networks,
        ),
    ]  # fmt: skip


def orders(sizes: Sizes) -> Measured:
    """Measure the covariance far along the width, and far along the depth."""
    corner = _edge(inf)
    parts = [part for place in sizes.orders for part in _place_parts(place, _grams(place), corner)]
    return Measured(parts, [])


def together(sizes: Sizes) -> Measured:
    """Measure along width = depth: the covariance, its fluctuation over networks, and how fast it settles."""
    corner = _edge(inf)
    grams = {place: _grams(place) for place in sizes.diagonal}
    widths = [place[0] for place in sizes.diagonal]
    errors = [_rms((gram[:, 0, 1] - corner[0, 1]) / corner[0, 1]) for gram in grams.values()]
    fitted = slope(widths, [e.value for e in errors], [e.error for e in errors], CONFIDENCE)
    largest = sizes.diagonal[-1]
    spreads = [_fluctuation(place, gram) for place, gram in grams.items()]
    parts = [
        *_place_parts(largest, grams[largest], corner),
        spreads[-1],
        agreement.inside("exponent of the covariance's rms error along width = depth", -0.5, fitted, -0.62, -0.42),
    ]
    return Measured(parts, [_settling(widths, errors), _constant(widths, spreads)])


def _rms(values: np.ndarray) -> Any:
    from deeplimits.plane.measure import root

    return root(agreement.average(values**2))


def _fluctuation(place: tuple[int, int, int], gram: np.ndarray) -> Part:
    from deeplimits.limits.corrections.residual_norm import norm_fluctuation, relative_spread

    width, depth, _ = place
    predicted = relative_spread(1.0)
    measured = agreement.spread(np.diagonal(gram, axis1=1, axis2=2), sqrt(width))
    return agreement.near(
        "sqrt(n) std of the mean square", predicted, measured, 0.15 * predicted,
        bias=predicted * (norm_fluctuation(1.0) / (4 * width) + 1 / depth),
        because="V/4n, a log-normal law's second order, and 1/L of the Euler sum", paper=False,
    )  # fmt: skip


def _settling(widths: list[int], errors: list[Any]) -> Panel:
    values, bars = [e.value for e in errors], [e.error for e in errors]
    line = [values[-1] * (width / widths[-1]) ** -0.5 for width in widths]
    curve = Curve("rms over networks; line: 1/√width", [float(w) for w in widths], values, bars, line)
    title = "One network settles as width = depth grows"
    return Panel(title, "width n = depth L", "relative error of q(x, x')", [curve], y_scale="log")


def _constant(widths: list[int], spreads: list[Part]) -> Panel:
    curve = Curve(
        "one input's q; line: 3.565",
        [float(width) for width in widths],
        [part.measured for part in spreads],
        [part.standard_error or 0.0 for part in spreads],
        [part.predicted for part in spreads],
    )
    return Panel("The fluctuation's constant", "width n = depth L", "√n · std of q over networks", [curve])


def depth_bias(sizes: Sizes) -> Measured:
    """Measure the distance that a finite depth leaves at infinite width, and in sampled shallow networks."""
    q = float(_edge(inf)[0, 0])
    scaled = [depth * (float(_edge(depth)[0, 0]) - q) for depth in sizes.depths]
    deepest, (width, depth, networks) = sizes.depths[-1], sizes.shallow
    gram = _grams(sizes.shallow)
    sampled = agreement.average(np.diagonal(gram, axis1=1, axis2=2) - q, float(depth))
    exact = depth * ((1 + 1 / (2 * depth)) ** depth - exp(0.5))
    parts = [
        agreement.equal(
            f"L (q_L - q) at infinite width, depth {deepest}", -exp(0.5) / 8, scaled[-1], 0.16 / deepest,
            "twice the next order of (1 + 1/2L)^L, 0.08/L", paper=False,
        ),
        agreement.near(
            f"L (q_L - q) at width {width}, depth {depth}", exact, sampled, abs(exact) / 2,
            bias=0.13 * q * depth / width, because="0.13/n of the width", networks=networks, paper=False,
        ),
    ]  # fmt: skip
    x = [float(depth) for depth in sizes.depths]
    curves = [
        Curve("infinite width; line: −√e/8", x, scaled, None, [-exp(0.5) / 8] * len(x)),
        Curve(f"sampled, width {width}", [float(depth)], [sampled.value], [sampled.error]),
    ]
    return Measured(parts, [Panel("The depth's error is of order 1/depth", "depth L", "L (q at depth L − q)", curves)])


def trivial(sizes: Sizes) -> Measured:
    """Measure branches scaled by 1/depth: nothing happens to the norm."""
    from deeplimits.architecture.layer import DEPTH

    width, depth, networks = sizes.trivial
    gram = _grams(sizes.trivial, DEPTH**-1.0)
    measured = agreement.average(np.diagonal(gram, axis1=1, axis2=2))
    part = agreement.near(
        f"mean square with branches scaled by 1/depth, at width {width}, depth {depth}", 1.0, measured, 0.1,
        bias=0.5 / depth + 0.13 / width, because="(1 + 1/2L^2)^L and 0.13/n of the width", networks=networks,
    )  # fmt: skip
    return Measured([part], [])


CLAIM = Claim(
    key="hayou-yang-2023-commute",
    statement=(
        "A ReLU residual network whose branches are scaled by 1/sqrt(depth) has one limiting covariance, "
        "whichever of width and depth goes to infinity first or if both do together."
    ),
    source="hayou-yang-2023-commute",
    headline=HEADLINE,
    steps=(
        Step("together", together, 30.0),
        Step("orders", orders, 10.0),
        Step("depth bias", depth_bias, 3.0),
        Step("trivial scale", trivial, 1.0),
    ),
    full=Sizes(
        diagonal=((32, 32, 6000), (64, 64, 5000), (128, 128, 4000), (256, 256, 3000)),
        orders=((1024, 32, 1000), (64, 1024, 1000)),
        shallow=(512, 4, 8000),
        trivial=(256, 256, 200),
        depths=(8, 16, 32, 64, 128, 256, 512),
    ),
    reduced=Sizes(
        diagonal=((16, 16, 500), (32, 32, 500), (256, 256, 20)),
        orders=((64, 8, 200), (16, 64, 200)),
        shallow=(64, 4, 2000),
        trivial=(32, 32, 100),
        depths=(8, 64, 512),
    ),
)
