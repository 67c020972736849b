"""Residual networks with branches times depth^-1/2 beside their mean-field limit of infinite width and depth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Curve, Measured, Panel, Part
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

RATE, STEPS, GAMMA = 0.05, 10, 1.0
NOT_IMAGES = "two random inputs with targets 1 and -1; the paper trains on images and on its own small problems"


@dataclass(frozen=True)
class Sizes:
    """Depths of the limit; the place (width, depth, networks) and the activations looked at there.

    Single networks: widths at that depth, places (width, depth) along the diagonal, and how many at each.
    """

    depths: tuple[int, ...]
    place: tuple[int, int, int]
    activations: tuple[str, ...]
    widths: tuple[int, ...]
    diagonal: tuple[tuple[int, int], ...]
    networks: int


def _problem() -> tuple[np.ndarray, np.ndarray]:
    return generator(0, "depth limit").standard_normal((2, 5)), np.array([1.0, -1.0])


@cache
def _limit(activation: str, depth: float) -> Any:
    from deeplimits.architecture.zoo import ResNet
    from deeplimits.limits.training.mean_field.ask import mean_field

    return mean_field(ResNet(activation), *_problem(), depth=depth, gamma=GAMMA, steps=STEPS, rate=RATE)


def _trained(activation: str, width: int, depth: int, networks: int) -> np.ndarray:
    """Return outputs of trained networks at every step, (networks, T, 2)."""
    from deeplimits.architecture.zoo import ResNet
    from deeplimits.finite.train import Descent, train

    (X, y), descent = _problem(), Descent(RATE, STEPS, gamma=GAMMA)
    times = tuple(range(STEPS + 1))
    return train(ResNet(activation), X, y[:, None], None, width, depth, networks, 0, descent, times).outputs[..., 0]


def _distance(outputs: np.ndarray, limit: np.ndarray) -> Estimate:
    """Return the root mean square over networks, steps and inputs, with its standard error over networks."""
    squares = agreement.average(((outputs - limit) ** 2).mean((1, 2)))
    return Estimate(squares.value**0.5, squares.error / (2 * squares.value**0.5))


def limit(sizes: Sizes) -> Measured:
    """Measure how networks approach infinite depth, infinite width, and both."""
    deepest, depth = _limit("identity", inf), sizes.place[1]
    far = [float(np.sqrt(np.mean((_limit("identity", d).outputs - deepest.outputs) ** 2))) for d in sizes.depths]
    wide = _limit("identity", depth).outputs
    apart = [_distance(_trained("identity", n, depth, sizes.networks), wide) for n in sizes.widths]
    line = [_distance(_trained("identity", n, d, sizes.networks), deepest.outputs) for n, d in sizes.diagonal]
    first, last = sizes.widths[0], sizes.widths[-1]
    fall, size = _ratio(line), sizes.diagonal[-1][0] / sizes.diagonal[0][0]
    options: dict[str, Any] = {"paper": False, "note": NOT_IMAGES}
    parts = [
        agreement.equal(
            f"distance to infinite depth, depth {sizes.depths[-2]} over depth {sizes.depths[-1]}", 2.0,
            far[-2] / far[-1], 8 / sizes.depths[-1], "8/L, the next order", **options,
        ),
        agreement.near(
            f"distance to infinite width, width {first} over width {last}, depth {depth}", (last / first) ** 0.5,
            _ratio(apart), 0.35 * (last / first) ** 0.5, bias=2 / first * (last / first) ** 0.5,
            because="2/n of itself, the next order", **options,
        ),
        agreement.above(
            f"distance to both limits, {sizes.diagonal[0]} over {sizes.diagonal[-1]}", 1.0, fall, predicted=size**0.5,
            **options,
        ),
        *(_beside(name, sizes, options) for name in sizes.activations),
    ]  # fmt: skip
    return Measured(parts, _panels(sizes, far, apart, line))


def _ratio(distances: list[Estimate]) -> Estimate:
    first, last = distances[0], distances[-1]
    ratio = first.value / last.value
    return Estimate(ratio, ratio * float(np.hypot(first.error / first.value, last.error / last.value)))


def _beside(activation: str, sizes: Sizes, options: dict[str, Any]) -> Part:
    """Judge the mean output of networks at one place beside the limit of infinite width and depth."""
    width, depth, count = sizes.place
    joint, near = _limit(activation, inf), _limit(activation, depth)
    half = STEPS // 2
    measured = agreement.average(_trained(activation, width, depth, count)[:, half, 0])
    error = float(np.hypot(measured.error, joint.outputs_error[half, 0]))
    moved = abs(float(near.outputs[half, 0] - joint.outputs[half, 0])) + joint.depth_error
    return agreement.near(
        f"output after {half} steps, {activation}, width {width}, depth {depth}", float(joint.outputs[half, 0]),
        Estimate(measured.value, error), 0.3, bias=moved + 2 / width,
        because="the depth's error as the limit has it, 2/n of the width", networks=count, **options,
    )  # fmt: skip


def _panels(sizes: Sizes, far: list[float], apart: list[Estimate], line: list[Estimate]) -> list[Panel]:
    depths, widths = [float(d) for d in sizes.depths], [float(n) for n in sizes.widths]
    over = [
        Curve(
            f"depth {sizes.place[1]}, to infinite width; line: width^-1/2", widths, [e.value for e in apart],
            [e.error for e in apart], [apart[0].value * (n / widths[0]) ** -0.5 for n in widths],
        ),
        Curve(
            "width and depth both, to both limits", [float(n) for n, _ in sizes.diagonal], [e.value for e in line],
            [e.error for e in line],
        ),
    ]  # fmt: skip
    deep = Curve("infinite width; line: 1/depth", depths, far, None, [far[-1] * depths[-1] / d for d in depths])
    return [
        Panel("Single networks approach the limit", "width n", "rms distance of outputs", over, y_scale="log"),
        Panel("The limit's own depth", "depth L", "rms distance to infinite depth", [deep], y_scale="log"),
    ]
