"""Residual networks of fixed width whose depth goes to infinity: a diffusion without drift."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, pi, sqrt
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.plane.record import Estimate

ALPHA, BETA, START = 1.0, 0.3, 0.5
SMALL = 0.1
HEADLINE = "mean of log(R_1/R_0) at width 4, positive"
RELU = "log(X_1/X_0), ReLU"
BECAUSE = "1/L of the depth, whose constant is 3/4 at width 1"


@dataclass(frozen=True)
class Sizes:
    """Networks at each step, their depth, and the widths of the change of regime."""

    one: tuple[int, int]
    signs: tuple[int, int]
    widths: tuple[int, ...]
    built: tuple[int, int]


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def _ornstein_uhlenbeck(x: np.ndarray) -> np.ndarray:
    import torch

    from deeplimits.architecture.activation import OrnsteinUhlenbeck
    from deeplimits.finite.build.activation import Pointwise

    return Pointwise(OrnsteinUhlenbeck(ALPHA, BETA))(torch.from_numpy(x)).numpy()


def _networks(
    start: np.ndarray, depth: int, seed: int, activation: Any = _relu, time: float = 1.0
) -> np.ndarray:  # fmt: skip
    """Return Y_L of networks Y_l = Y_{l-1} + sqrt(time/L) W_l phi(Y_{l-1}), W_l iid N(0, 1/n), from Y_0 (S, n).

    Each layer's product W phi(Y) is drawn as |phi(Y)|/sqrt(n) times n normals: its law given Y.
    """
    from deeplimits.numerics.seeds import generator

    normals = generator(seed, "claims", "infinite depth", start.shape[1], depth)
    state = start.copy()
    for _ in range(depth):
        length = np.sqrt(np.sum(activation(state) ** 2, axis=1, keepdims=True) * (time / depth / state.shape[1]))
        state = state + length * normals.standard_normal(state.shape)
    return state


def _read_in(networks: int, width: int, seed: int) -> np.ndarray:
    """Return Y_0 = W_in x for |x|^2 = d: standard normal."""
    from deeplimits.numerics.seeds import generator

    return generator(seed, "claims", "read-in", width).standard_normal((networks, width))


def _rise(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return log(R_L/R_0), R = |relu(Y)|, of the networks not dead at either end."""
    r = [np.sum(_relu(y) ** 2, axis=1) for y in (start, end)]
    alive = (r[0] > 0) & (r[1] > 0)
    return 0.5 * np.log(r[1][alive] / r[0][alive])


def width_one(sizes: Sizes) -> Measured:
    """Measure two laws of width 1: geometric Brownian motion for ReLU, Ornstein-Uhlenbeck for its activation."""
    from deeplimits.numerics.erfi import inverse_erfi

    networks, depth = sizes.one
    start = np.abs(_read_in(networks, 1, seed=0))
    rise = _rise(start, _networks(start, depth, seed=1))
    end = _networks(np.full((networks, 1), START), depth, 2, _ornstein_uhlenbeck)[:, 0]
    rate = pi * ALPHA**2 / 4
    middle, variance = float(inverse_erfi(ALPHA * START + BETA)) * exp(-rate), (1 - exp(-2 * rate)) / 2
    u = inverse_erfi(ALPHA * end + BETA)
    lag = 1 / depth
    parts = _normal(RELU, rise, -0.5, 1.0, lag) + _normal("u(X_1), Ornstein-Uhlenbeck", u, middle, variance, lag)
    levels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    curves = [
        Curve(name, levels, np.quantile(values, levels).tolist(), None, stats.norm.ppf(levels, mean, sd).tolist())
        for name, values, mean, sd in (
            ("log(X₁/X₀), ReLU; line: N(−1/2, 1)", rise, -0.5, 1.0),
            ("u(X₁), Ornstein-Uhlenbeck; line: its normal law", u, middle, sqrt(variance)),
        )
    ]
    return Measured(parts, [Panel("Two laws of width 1", "level", "quantile over networks", curves, x_scale="linear")])


def _normal(name: str, values: np.ndarray, mean: float, variance: float, lag: float) -> list[Part]:
    """Judge a normal law by its distance, the chance of a larger one, its mean and its standard deviation."""
    law, ours = stats.norm(mean, sqrt(variance)), name == RELU
    chance = Estimate(float(stats.kstest(values, law.cdf).pvalue), 0.0)
    note = "one seed, fixed beforehand; a right program falls below with chance 1/20, so that the distance decides"
    found = agreement.average(values)
    return [
        agreement.gaussian(f"distance of {name}", values - mean, variance),
        agreement.above(f"Kolmogorov-Smirnov p of {name}", 0.05, chance, paper=ours, counts=ours, note=note),
        agreement.near(f"mean of {name}", mean, found, 0.15, bias=lag, because=BECAUSE, networks=len(values)),
        agreement.near(f"spread of {name}", sqrt(variance), agreement.spread(values), 0.15, bias=lag, because=BECAUSE),
    ]


def signs(sizes: Sizes) -> Measured:
    """Measure the growth of log R from layer time 0 to 1 over the widths, and its start over a tenth of that time."""
    from deeplimits.limits.diffusion.regime import small_time_drift

    networks, depth = sizes.signs
    found, early, parts = [], [], []
    for width in sizes.widths:
        start = _read_in(networks, width, seed=3)
        found.append(agreement.average(_rise(start, _networks(start, depth, seed=4))))
        early.append(agreement.average(_rise(start, _networks(start, depth, 5, time=SMALL)), 1 / SMALL))
        if width in (2, 3, 4, 8):
            parts.append(
                agreement.near(
                    f"drift of log R at the start, width {width}", small_time_drift(width), early[-1], 0.15,
                    bias=SMALL * (1 / depth + 1 / (8 * width)),
                    because="t/8n of the time, over which N falls, and t/L of the depth", paper=False,
                )
            )  # fmt: skip
    at = dict(zip(sizes.widths, found, strict=True))
    three, four = at[3], at[4]
    parts += [
        agreement.above(
            "minus the mean of log(R_1/R_0) at width 3, positive", 0.0, Estimate(-three.value, three.error),
            predicted=-small_time_drift(3), networks=networks, note=_sigmas(three),
        ),
        agreement.above(HEADLINE, 0.0, four, predicted=small_time_drift(4), networks=networks, note=_sigmas(four)),
    ]  # fmt: skip
    widths = [float(width) for width in sizes.widths]
    drift = [small_time_drift(width) for width in sizes.widths]
    curve = Curve("networks; line: drift at t = 0", widths, [m.value for m in found], [m.error for m in found], drift)
    nothing = Curve("no growth", widths, predicted=[0.0] * len(widths))
    return Measured(
        parts, [Panel("The sign changes between widths 3 and 4", "width n", "mean of log(R₁/R₀)", [curve, nothing])]
    )


def _sigmas(found: Estimate) -> str:
    return f"{abs(found.value) / found.error:.1f} standard errors from zero"


def width_two(sizes: Sizes) -> Measured:
    """Measure networks of width 2 beside the partial differential equation of their angle."""
    from deeplimits.architecture.zoo import ResNet
    from deeplimits.finite.sample import sample
    from deeplimits.limits.diffusion.angle import width_two as solve

    networks, depth = sizes.signs
    start = _read_in(networks, 2, seed=6)
    alive = (start > 0).any(axis=1)
    times = (0.25, 0.5, 1.0)
    ends = [_networks(start, max(1, round(depth * t)), 7, time=t) for t in times]
    positive = [agreement.average((end[alive] > 0).sum(axis=1).astype(float)) for end in ends]
    exact = solve([0.0, *times])
    net, (count, deep) = ResNet("relu", final_activation="relu"), sizes.built
    q = [
        sample(n, np.ones((1, 2)), 2, at, count, 8).gram[:, 0, 0]
        for n, at in ((net, deep), (net.replace({"scale": 0.0}), 1))
    ]
    kept = (q[0] > 0) & (q[1] > 0)
    options: dict[str, Any] = {"because": BECAUSE, "paper": False}
    parts = [
        agreement.near(
            "mean number of positive coordinates at t = 1, width 2", float(exact.positive[-1]), positive[-1], 0.1,
            bias=1 / depth, networks=networks, **options,
        ),
        agreement.near(
            "mean of log(R_1/R_0), width 2", float(exact.log_norm[-1]), agreement.average(_rise(start, ends[-1])), 0.1,
            bias=1 / depth, networks=networks, **options,
        ),
        agreement.near(
            "mean of log(R_1/R_0), width 2, networks of dl.sample", float(exact.log_norm[-1]),
            agreement.average(0.5 * np.log(q[0][kept] / q[1][kept])), 0.2, bias=1 / deep, networks=count, **options,
        ),
    ]  # fmt: skip
    curve = Curve(
        "networks; line: equation of the angle", [0.0, *times], [4 / 3, *(m.value for m in positive)],
        [0.0, *(m.error for m in positive)], exact.positive.tolist(),
    )  # fmt: skip
    panel = Panel(
        "Width 2: positive coordinates die out", "layer time t", "mean number of them", [curve], x_scale="linear"
    )
    return Measured(parts, [panel])


CLAIM = Claim(
    key="hayou-2022-infinite-depth",
    statement=(
        "A residual network of fixed width becomes, as its depth grows, a diffusion without drift: at width 1 a "
        "geometric Brownian motion for ReLU, an Ornstein-Uhlenbeck process for one activation; the log-norm after ReLU "
        "falls on average up to width 3 and grows from width 4."
    ),
    source="hayou-2022-infinite-depth (the process, laws of width 1, two regimes); derived (width 2, small times)",
    headline=HEADLINE,
    steps=(
        Step("width one", width_one, 8.0),
        Step("signs", signs, 25.0),
        Step("width two", width_two, 10.0),
    ),
    full=Sizes(one=(4000, 1024), signs=(40000, 256), widths=(1, 2, 3, 4, 5, 8, 32), built=(4000, 64)),
    reduced=Sizes(one=(500, 128), signs=(4000, 64), widths=(2, 3, 4, 8), built=(200, 32)),
)
