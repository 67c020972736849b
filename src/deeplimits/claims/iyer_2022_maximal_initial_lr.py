"""The largest learning rate at which a deep ReLU network starts to train is a power of depth times width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.perceptrons import descend, drawn, edge, layers, square
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "R^2 of the maximal initial learning rate as a power of depth x width"
BATCH, PROBE, THRESHOLD = 32, 512, 0.2
INPUT_RATE = 0.1
FIRST = 10**6  # seed
RELATIVE_WIDTH = 16
ITERATIONS = 8
REDRAWS = 1000


@dataclass(frozen=True)
class Sizes:
    """(width, networks), depths: hidden layers, and steps of SGD. Widths below 16 depths are left out."""

    widths: tuple[tuple[int, int], ...]
    depths: tuple[int, ...]
    steps: int


@dataclass(frozen=True)
class Shapes:
    """What was found at each shape, (shapes,): means of logarithms to base 2, and the error of the first."""

    widths: np.ndarray
    depths: np.ndarray
    rates: np.ndarray
    errors: np.ndarray
    sharpness: np.ndarray
    degrees: int


@one_thread()
def starts(width: int, depth: int, steps: int, log2_rates: np.ndarray) -> np.ndarray:
    """Say which networks classify a fifth of the digits after a few steps of SGD on squared error, (networks,).

    The input layer takes a tenth of the learning rate.
    """
    import torch

    x, y = _digits()
    weights = drawn([x.shape[1], *[width] * depth, 10], len(log2_rates), seed=FIRST + 1000 * width + depth)
    rates = torch.tensor(2.0**log2_rates, dtype=x.dtype)
    order = torch.Generator().manual_seed(2)
    for _ in range(steps):
        rows = torch.randint(len(y), (BATCH,), generator=order)
        descend(weights, rates, square, x[rows], y[rows], [INPUT_RATE, *[1.0] * depth])
    with torch.no_grad():
        outputs = layers(weights, x[:PROBE])[-1]
    right = (outputs.argmax(2) == y[:PROBE]).double().mean(1).numpy()
    return (right > THRESHOLD) & outputs.isfinite().all(2).all(1).numpy()


@one_thread()
def sharpness(width: int, depth: int, networks: int) -> np.ndarray:
    """Return the largest eigenvalue of the loss's Hessian at the start, on one batch, by power iteration."""
    import torch

    x, y = _digits()
    weights = drawn([x.shape[1], *[width] * depth, 10], networks, seed=FIRST + 1000 * width + depth)
    loss = square(layers(weights, x[:BATCH])[-1], y[:BATCH]).sum()
    first = torch.autograd.grad(loss, weights, create_graph=True)
    direction = [gradient.detach() for gradient in first]
    value = torch.zeros(())
    for _ in range(ITERATIONS):
        norm = sum(d.square().sum((1, 2)) for d in direction).sqrt()  # type: ignore[union-attr]
        direction = [d / norm[:, None, None] for d in direction]
        along = sum((g * d).sum() for g, d in zip(first, direction, strict=True))
        image = torch.autograd.grad(along, weights, retain_graph=True)  # type: ignore[arg-type]
        value = sum((i * d).sum((1, 2)) for i, d in zip(image, direction, strict=True))
        direction = list(image)
    return value.detach().numpy()  # type: ignore[union-attr]


def _digits() -> tuple[Any, Any]:
    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    return 8 * x, y  # |x|^2 = d


def measured(sizes: Sizes) -> Shapes:
    """Find the edge and the sharpness at every shape; each search begins where the shape before ended."""
    found, squares, degrees = [], 0.0, 0
    for width, networks in sizes.widths:
        near = 0.0
        for depth in (d for d in sizes.depths if width >= RELATIVE_WIDTH * d):
            rates = edge(lambda at, w=width, d=depth: starts(w, d, sizes.steps, at), near, networks)
            sharp = np.log2(sharpness(width, depth, networks)).mean()
            near = float(np.round(rates.mean()))
            found.append((width, depth, rates.mean(), networks**-0.5, sharp))
            squares, degrees = squares + float(rates.var() * networks), degrees + networks - 1
    widths, depths, rates, relative, sharp = np.array(found).T
    return Shapes(widths, depths, rates, relative * sqrt(squares / degrees), sharp, degrees)


def explained(x: np.ndarray, y: np.ndarray) -> float:
    """Return R^2, the share of the variance of y that a line in x explains.

    Example:
        >>> round(explained(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0])), 6)
        1.0
    """
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def redrawn(function: Callable[[np.ndarray], Any], at: Shapes) -> Any:
    """Return the standard deviation of function(rates) when rates are drawn again with their errors."""
    stream = generator(1, "claims", "redrawn")
    draws = at.rates + at.errors * stream.standard_normal((REDRAWS, len(at.rates)))
    return np.std([function(draw) for draw in draws], axis=0)


def edges(sizes: Sizes) -> Measured:
    """Measure the maximal initial learning rate over shapes, fit its exponents, and set the sharpness beside it."""
    at = measured(sizes)
    product = np.log2(at.depths * at.widths)
    design = np.stack([np.log2(at.widths), np.log2(at.depths), np.ones(len(product))], axis=1)
    options: dict[str, Any] = {"networks": at.degrees + 1}

    def exponents(rates: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(design, rates, rcond=None)[0][:2]

    width, depth = (float(power) for power in exponents(at.rates))
    residuals = at.rates - design @ np.linalg.lstsq(design, at.rates, rcond=None)[0]
    covariance = np.linalg.inv(design.T @ design) * float(residuals @ residuals) / (len(residuals) - 3)
    gap = sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    fits = {
        "depth x width": slope(2.0**product, 2.0**at.rates, None, CONFIDENCE),
        "sharpness": slope(2.0**at.sharpness, 2.0**at.rates, None, CONFIDENCE),
        "sharpness of depth x width": slope(2.0**product, 2.0**at.sharpness, None, CONFIDENCE),
    }
    share = Estimate(explained(product, at.rates), float(redrawn(lambda rates: explained(product, rates), at)))
    other = Estimate(
        explained(at.sharpness, at.rates), float(redrawn(lambda rates: explained(at.sharpness, rates), at))
    )
    beside: dict[str, Any] = {"paper": False, "counts": False}
    parts = [
        agreement.above(
            HEADLINE, 0.9, Estimate(share.value, 0.0), predicted=1.0, paper=False,
            note=f"of the means of these networks; with others it would scatter by {share.error:.3f}",
        ),
        agreement.above(f"{HEADLINE}, whatever networks are drawn", 0.75, share, predicted=1.0, paper=False, **options),
        agreement.inside("exponent in depth x width: it falls", -1.0, fits["depth x width"], -9.0, 0.0, paper=False),
        agreement.near(
            "exponent in the depth less that in the width: a power of their product", 0.0,
            Estimate(depth - width, gap), 1.0, networks=len(product) - 2, note=f"depth^{depth:.2f}, width^{width:.2f}",
            **beside,
        ),
        agreement.inside(
            "exponent of the sharpness at the start in depth x width", 1.0, fits["sharpness of depth x width"], 0.5,
            1.5, paper=False,
        ),
        agreement.inside(
            "exponent of the rate in the sharpness; -1 would be inverse", -1.0, fits["sharpness"], -2.0, 0.0, **beside
        ),
        agreement.above("R^2 of the rate as a power of the sharpness", 0.5, other, predicted=1.0, **beside, **options),
    ]  # fmt: skip
    return Measured(parts, [_panel(at, fits["depth x width"]), _against(at, fits["sharpness"])])


def _curves(x: np.ndarray, at: Shapes, fitted: Any) -> list[Curve]:
    curves = []
    for width in np.unique(at.widths):
        own = at.widths == width
        values = 2 ** at.rates[own]
        line = np.exp(fitted.intercept) * x[own] ** fitted.value
        bars = np.log(2) * at.errors[own] * values
        curves.append(Curve(f"width {width:.0f}", *(v.tolist() for v in (x[own], values, bars, line))))
    return curves


def _panel(at: Shapes, fitted: Any) -> Panel:
    title = f"Largest rate that starts training: exponent −{-fitted.value:.2f}"
    curves = _curves(at.depths * at.widths, at, fitted)
    return Panel(title, "depth × width", "learning rate", curves, x_scale="log", y_scale="log")


def _against(at: Shapes, fitted: Any) -> Panel:
    title = f"Beside the sharpness: exponent −{-fitted.value:.2f}"
    return Panel(
        title, "sharpness λ₁ at the start", "learning rate", _curves(2**at.sharpness, at, fitted), "log", "log"
    )


CLAIM = Claim(
    key="iyer-2022-maximal-initial-lr",
    statement=(
        "The largest learning rate at which a deep ReLU network starts to train is a power of depth x width, where the "
        "network is wide compared with its depth and its input layer learns slowly."
    ),
    source="iyer-2022-maximal-initial-lr",
    headline=HEADLINE,
    steps=(Step("edges", edges, 60.0),),
    full=Sizes(((64, 16), (128, 12), (256, 6), (512, 3)), (2, 4, 6, 8, 10), 40),
    reduced=Sizes(((32, 4), (64, 4), (128, 2)), (2, 4), 30),
)
