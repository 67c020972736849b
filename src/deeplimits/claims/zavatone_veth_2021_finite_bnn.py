"""Data move the mean feature kernels of a Bayesian network of width n by a universal term of order 1/n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

INPUTS, FEATURES, OUTPUTS, NOISE = 3, 4, 2, 0.3
HEADLINE = "n (mean kernel - limit) / formula, two-layer linear network, n = 400"
WITHIN = 0.1  # of the formula
NUMBERS = 4_000_000  # drawn at once


@dataclass(frozen=True)
class Sizes:
    """Widths of the two-layer networks, of the deeper linear one, of nonlinear ones; networks drawn of each."""

    widths: tuple[int, ...]
    deep: tuple[int, int]
    nonlinear: int
    networks: int


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (P, d) and targets (P, C)."""
    drawn = generator(1, "claims", "finite bnn")
    return drawn.standard_normal((INPUTS, FEATURES)), drawn.standard_normal((INPUTS, OUTPUTS))


def _function(name: str) -> Callable[[np.ndarray], np.ndarray]:
    return {"identity": lambda h: h, "tanh": np.tanh, "relu": lambda h: np.maximum(h, 0)}[name]


def networks(
    name: str, weight_std: float, widths: tuple[int, ...], count: int, seed: int
) -> Iterator[list[np.ndarray]]:
    """Yield feature kernels of random networks, (networks, P, P) a hidden layer, in pieces that fit in memory.

    Units of a layer are independent given the layer below, N(0, weight_std^2 K): drawn by that law, which is exact.
    """
    X, _ = data()
    drawn, piece = generator(seed, "claims", "finite bnn", name), max(1, NUMBERS // (max(widths) * INPUTS))
    for start in range(0, count, piece):
        size, below, kernels = min(piece, count - start), np.broadcast_to(X @ X.T / FEATURES, (1, INPUTS, INPUTS)), []
        for width in widths:
            root, z = weight_std * np.linalg.cholesky(below), drawn.standard_normal((INPUTS, size, width))
            features = [
                _function(name)(np.add.reduce([root[:, p, q, None] * z[q] for q in range(p + 1)]))
                for p in range(INPUTS)
            ]
            below = np.empty((size, INPUTS, INPUTS))
            for p, one in enumerate(features):
                for q, two in enumerate(features):
                    below[:, p, q] = np.einsum("sw,sw->s", one, two) / width
            kernels.append(below)
        yield kernels


def moved(name: str, widths: tuple[int, ...], count: int, seed: int, along: list[np.ndarray]) -> list[Estimate]:
    """Return what the data change in <along, mean kernel> of every hidden layer: networks weighted by their evidence.

    The readout's weights are integrated out. Both means are over the same networks, so that most of the chance cancels:
    the influence of one network is w (k - <k>_w) - (k - <k>), w its weight over the mean weight.
    """
    _, y = data()
    logs, seen = [], []
    for kernels in networks(name, _net(name).weight_std, widths, count, seed):
        matrix = kernels[-1] + NOISE * np.eye(INPUTS)
        answer = np.linalg.solve(matrix, np.broadcast_to(y, (len(matrix), *y.shape)))
        logs.append(-0.5 * np.einsum("ic,sic->s", y, answer) - 0.5 * OUTPUTS * np.linalg.slogdet(matrix)[1])
        seen.append(np.stack([np.einsum("ij,sij->s", way, k) for way, k in zip(along, kernels, strict=True)]))
    log, k = np.concatenate(logs), np.concatenate(seen, axis=1)
    w = np.exp(log - log.max())
    w /= w.mean()
    before, after = k.mean(1), (w * k).mean(1)
    influence = w * (k - after[:, None]) - (k - before[:, None])
    errors = influence.std(1, ddof=1) / np.sqrt(k.shape[1])
    return [Estimate(float(v), float(e)) for v, e in zip(after - before, errors, strict=True)]


def _net(name: str) -> Any:
    from deeplimits.architecture.zoo import Mlp

    return Mlp(name)


def ratios(name: str, widths: tuple[int, ...], count: int, seed: int) -> list[Estimate]:
    """Return the measured change of every layer's mean kernel over the predicted one, along the predicted one."""
    from deeplimits.limits.corrections.posterior import posterior_kernel

    X, y = data()
    found = posterior_kernel(_net(name), X, y, len(widths), widths, NOISE)
    predicted = found.kernels - found.limit
    along = [one / np.vdot(one, one) for one in predicted]
    return moved(name, widths, count, seed, along)


def linear(sizes: Sizes) -> Measured:
    """Measure two-layer linear networks width by width: n times the change is constant, and what the formula says."""
    found = [ratios("identity", (width,), sizes.networks, seed)[0] for seed, width in enumerate(sizes.widths)]
    parts = [
        agreement.between(
            HEADLINE if width == 400 else f"n (mean kernel - limit) / formula, two-layer linear network, n = {width}",
            1.0, ratio, 1 - WITHIN, 1 + WITHIN, networks=sizes.networks,
        )
        for width, ratio in zip(sizes.widths, found, strict=True)
    ]  # fmt: skip
    values, errors = zip(*((r.value / w, r.error / w) for r, w in zip(found, sizes.widths, strict=True)), strict=True)
    fitted = slope(sizes.widths, values, errors, CONFIDENCE)
    parts.append(agreement.inside("exponent of the change in the width", -1.0, fitted, -1.1, -0.9))
    x = [float(width) for width in sizes.widths]
    curve = Curve(
        "two-layer linear; line: the formula", x, [r.value for r in found], [r.error for r in found], [1.0] * len(x)
    )
    panel = Panel(
        "Data move features by a universal 1/n", "width n", "n × (change of the mean kernel) / formula", [curve]
    )
    return Measured(parts, [panel])


def others(sizes: Sizes) -> Measured:
    """Measure a linear network of two hidden layers of unequal widths, and nonlinear networks of one."""
    parts = []
    for layer, ratio in enumerate(ratios("identity", sizes.deep, sizes.networks, 11), start=1):
        name = f"change / formula, linear network of widths {sizes.deep}, hidden layer {layer}"
        parts.append(agreement.between(name, 1.0, ratio, 1 - WITHIN, 1 + WITHIN, networks=sizes.networks))
    for seed, name in enumerate(("tanh", "relu"), start=12):
        (ratio,) = ratios(name, (sizes.nonlinear,), sizes.networks, seed)
        part = f"change / formula, {name} network of one hidden layer, n = {sizes.nonlinear}"
        parts.append(agreement.between(part, 1.0, ratio, 1 - WITHIN, 1 + WITHIN, networks=sizes.networks))
    return Measured(parts, [])


CLAIM = Claim(
    key="zavatone-veth-2021-finite-bnn",
    statement=(
        "Given data, the mean feature kernels of a wide Bayesian network with a linear readout differ from those of "
        "infinite width by one universal term of order 1/width: the prior covariance of the kernels, contracted with "
        "what the data say of the last one."
    ),
    source="zavatone-veth-2021-finite-bnn",
    headline=HEADLINE,
    steps=(Step("two-layer linear networks", linear, 16.0), Step("deeper and nonlinear networks", others, 16.0)),
    full=Sizes(widths=(100, 200, 400), deep=(150, 300), nonlinear=200, networks=120_000),
    reduced=Sizes(widths=(100, 400), deep=(100, 200), nonlinear=200, networks=1_000),
)
