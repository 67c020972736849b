"""Wide networks start from a deterministic tangent kernel and keep it while they train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement, lazy_limit
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.inputs import sphere
from deeplimits.claims.lazy_limit import LazySizes
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator

HEADLINE = "exponent in the width of the NTK's relative change in training"
DEPTH, FEATURES, WEIGHT_STD, BIAS_STD = 2, 4, 1.3, 0.1


@dataclass(frozen=True)
class Sizes:
    """(width, networks) at the start and in training; inputs, and steps of gradient descent; one hidden layer."""

    start: tuple[tuple[int, int], ...]
    training: tuple[tuple[int, int], ...]
    inputs: int
    steps: int
    lazy: LazySizes


def _net(activation: str) -> Any:
    from deeplimits.architecture.zoo import Mlp

    if activation == "relu":
        return Mlp("relu", bias_std=BIAS_STD)
    return Mlp("erf", weight_std=WEIGHT_STD, bias_std=BIAS_STD)


def _edge(activation: str, X: np.ndarray) -> np.ndarray:
    from deeplimits.limits.kernel.ask import kernel

    return np.asarray(kernel(_net(activation), X, depth=DEPTH, get="ntk"))


def start(sizes: Sizes) -> Measured:
    """Measure the tangent kernel at initialisation: its mean beside the limit, and how fast its spread falls."""
    from deeplimits.finite.sample import sample

    X = sphere(4, FEATURES, seed=4)
    widths = [width for width, _ in sizes.start]
    parts, curves = [], []
    for seed, activation in enumerate(("relu", "erf"), start=5):
        edge, net = _edge(activation, X), _net(activation)
        drawn = [sample(net, X, width, DEPTH, count, seed, get="ntk").ntk for width, count in sizes.start]
        distances = [_relative(ntk, edge) for ntk in drawn]
        fitted = slope(widths, [d.value for d in distances], [d.error for d in distances], CONFIDENCE)
        for name, entry in (("one input", (0, 0)), ("two inputs", (0, 1))):
            predicted, values = float(edge[entry]), np.asarray(drawn[-1])[:, *entry]
            bias = float(values.var(ddof=1)) / abs(predicted)
            parts.append(
                agreement.near(
                    f"NTK of {name}, {activation}, width {widths[-1]}", predicted, agreement.average(values),
                    0.1 * abs(float(edge[0, 0])), bias=bias, because="of the order of the relative variance, 1/n",
                    networks=sizes.start[-1][1],
                )
            )  # fmt: skip
        name = f"exponent in the width of one network's distance to the limit, {activation}"
        parts.append(agreement.inside(name, -0.5, fitted, -0.65, -0.35))
        line = [distances[-1].value * (width / widths[-1]) ** -0.5 for width in widths]
        x = [float(width) for width in widths]
        curves.append(Curve(activation, x, [d.value for d in distances], [d.error for d in distances], line))
    title = "The NTK at the start; lines: 1/√width"
    return Measured(parts, [Panel(title, "width n", "|Θ of one network − limit| / |limit|", curves, y_scale="log")])


def _relative(samples: Any, edge: np.ndarray) -> Any:
    from deeplimits.plane.measure import relative_rms

    found = relative_rms(np.asarray(samples), edge)
    assert found is not None
    return found


@one_thread()
def trained_change(width: int, index: int, inputs: int, steps: int) -> tuple[float, float]:
    """Return |NTK after - NTK before| / |NTK before|, and the loss left, of one network trained by gradient descent.

    Full batch, loss (1/2) sum (f - y)^2, rate 1/largest eigenvalue of the NTK at infinite width.
    """
    import torch

    from deeplimits.finite.build import build
    from deeplimits.finite.empirical_ntk import empirical_ntk

    X = sphere(inputs, FEATURES, seed=7)
    rate = 1 / float(np.linalg.eigvalsh(_edge("erf", X))[-1])
    target = torch.from_numpy(np.sign(X[:, 0] * X[:, 1]))[:, None]
    seed = int(generator(8, "claims", "training", width, index).integers(2**63))
    module = build(_net("erf"), width, DEPTH, seed, features_in=FEATURES, dtype=torch.float64)
    rows = torch.from_numpy(X)
    before = empirical_ntk(module, rows)
    parameters = list(module.parameters())
    loss = torch.zeros(())
    for _ in range(steps):
        loss = 0.5 * (module(rows) - target).square().sum()
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    after = empirical_ntk(module, rows)
    return float((after - before).norm() / before.norm()), float(loss.detach() / (0.5 * target.square().sum()))


def training(sizes: Sizes) -> Measured:
    """Measure how much the tangent kernel changes in training, width by width."""
    changes, losses = [], []
    for width, count in sizes.training:
        found = np.array([trained_change(width, index, sizes.inputs, sizes.steps) for index in range(count)])
        changes.append(agreement.average(found[:, 0]))
        losses.append(agreement.average(found[:, 1]))
    widths = [width for width, _ in sizes.training]
    fitted = slope(widths, [c.value for c in changes], [c.error for c in changes], CONFIDENCE)
    count = sizes.training[-1][1]
    parts = [
        agreement.inside(HEADLINE, -1.0, fitted, -1.3, -0.7, paper=False,
                         note="the paper proves a constant kernel; 1/n is the sharper rate of smooth activations"),
        agreement.inside("the same exponent is below -1/4: the kernel becomes constant", -1.0, fitted, -9.0, -0.25),
        agreement.between(
            f"loss left of its start's order after {sizes.steps} steps, width {widths[-1]}", 0.0, losses[-1], -0.5, 0.5,
            networks=count, note="the networks did train",
        ),
    ]  # fmt: skip
    line = [changes[-1].value * widths[-1] / width for width in widths]
    curve = Curve(
        "erf, two hidden layers; line: 1/width", [float(width) for width in widths], [c.value for c in changes],
        [c.error for c in changes], line,
    )  # fmt: skip
    title = "The NTK hardly moves in training"
    return Measured(parts, [Panel(title, "width n", "relative change of the NTK", [curve], y_scale="log")])


def linear(sizes: Sizes) -> Measured:
    """Measure single networks of one hidden layer beside the linear equation of the limit."""
    return lazy_limit.linear(sizes.lazy)


def law(sizes: Sizes) -> Measured:
    """Measure the law of trained networks beside that of the limit."""
    return lazy_limit.law(sizes.lazy)


def edge(sizes: Sizes) -> Measured:
    """Measure the largest stable learning rate beside that of the limit."""
    return lazy_limit.edge(sizes.lazy)


CLAIM = Claim(
    key="jacot-2018-ntk",
    statement=(
        "As its width grows, a network's neural tangent kernel becomes deterministic at the start and constant during "
        "training."
    ),
    source="jacot-2018-ntk",
    headline=HEADLINE,
    steps=(
        Step("start", start, 10.0),
        Step("training", training, 18.0),
        Step("linear", linear, 8.0),
        Step("law", law, 5.0),
        Step("edge", edge, 2.0),
    ),
    full=Sizes(
        start=((64, 1000), (128, 1000), (256, 800), (512, 600), (1024, 400)),
        training=((32, 60), (64, 60), (128, 40), (256, 24), (512, 12)),
        inputs=12,
        steps=60,
        lazy=LazySizes(
            linear=((64, 128), (256, 256), (1024, 192), (4096, 96)),
            law=(2048, 150),
            times=(5, 30, 200),
            draws=400,
            edge=(32768, 12),
        ),
    ),
    reduced=Sizes(
        start=((32, 100), (64, 100)),
        training=((16, 8), (64, 8)),
        inputs=6,
        steps=30,
        lazy=LazySizes(
            linear=((32, 8), (64, 8), (128, 8)),
            law=(256, 40),
            times=(5, 30),
            draws=200,
            edge=(4096, 4),
        ),
    ),
)
