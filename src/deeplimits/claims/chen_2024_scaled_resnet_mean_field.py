"""Residual networks in the mean-field regime: a Gram matrix that stays definite, an error that falls linearly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.numerics.seeds import generator

HEADLINE = "least of the smallest Gram eigenvalue over its start, while training"
INPUTS, FEATURES, TEACHER = 6, 4, 5
SETTING = "a teacher of one hidden layer and a student of our own; the paper's sizes are not known here"


@dataclass(frozen=True)
class Sizes:
    """Units of the mean ODE, seeds of them, steps at a rate, and networks (depth, inner width, how many, steps).

    The rate is a tenth of the largest stable one and less, so that steps follow the gradient flow that the claim is of.
    """

    units: int
    seeds: int
    steps: int
    rate: float
    networks: tuple[int, int, int, int]


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and a teacher's outputs, one hidden layer of 5 tanh units."""
    stream = generator(0, "teacher")
    X, W, a = (stream.standard_normal(shape) for shape in ((INPUTS, FEATURES), (TEACHER, FEATURES), (TEACHER,)))
    return X, np.tanh(X @ W.T / FEATURES**0.5) @ a / TEACHER**0.5


@lru_cache(maxsize=2)
def _student(sizes: Sizes) -> list[Any]:
    from deeplimits.architecture.branches import MeanResNet
    from deeplimits.limits.training.branches.ask import mean_ode

    net, options = MeanResNet("tanh", readout="trained"), {"steps": sizes.steps, "rate": sizes.rate}
    return [mean_ode(net, *problem(), units=sizes.units, seed=seed, **options) for seed in range(sizes.seeds)]


def _linear(values: np.ndarray) -> float:
    """Return R^2 of a line through values at equal distances."""
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2)


def gram(sizes: Sizes) -> Measured:
    """Compute the smallest eigenvalue and the loss of the limit, over seeds of its units."""
    found = _student(sizes)
    ratios = [record.smallest_eigenvalue / record.smallest_eigenvalue[0] for record in found]
    early = len(found[0].times) // 4
    fits = [_linear(np.log(record.loss)) for record in found]
    starts = [_linear(np.log(record.loss[:early])) for record in found]
    room = [np.log(record.loss_bound[1:] / record.loss[1:]).min() for record in found]
    options = {"networks": sizes.seeds, "paper": False, "note": SETTING}
    least = agreement.average([ratio[1:].min() for ratio in ratios])
    parts = [
        agreement.above(HEADLINE, 0.5, least, predicted=1.0, **options),
        agreement.above(
            f"R^2 of log loss over {sizes.steps} steps", 0.98, agreement.average(fits), predicted=1.0, **options
        ),
        agreement.above(
            "R^2 of log loss over the first quarter of the steps", 0.98, agreement.average(starts), predicted=1.0,
            counts=False, paper=False,
            note="steep directions go first, and R^2 grows with the length of training: 0.984 at 300 steps",
        ),
        agreement.above(
            "log of the Gram bound over the loss, its least after a step", 0.0, agreement.average(room), **options
        ),
    ]  # fmt: skip
    times, record = [float(t) for t in found[0].times], found[0]
    curves = [
        Curve("mean ODE", times, predicted=record.loss.tolist()),
        Curve("Gram bound", times, predicted=record.loss_bound.tolist()),
    ]
    rise = Curve("mean ODE", times, predicted=np.mean(ratios, 0).tolist())
    return Measured(
        parts,
        [
            Panel("The loss falls below the Gram bound", "steps", "½ Σ (f − y)²", curves, "linear", "log"),
            Panel("The Gram matrix stays definite", "steps", "smallest eigenvalue over its start", [rise], "linear"),
        ],
    )


def networks(sizes: Sizes) -> Measured:
    """Measure trained networks of a finite depth and inner width beside the limit."""
    from deeplimits.architecture.branches import MeanResNet
    from deeplimits.finite.branches import train_branches

    depth, inner, count, steps = sizes.networks
    X, y = problem()
    trained = train_branches(
        MeanResNet("tanh", readout="trained"), X, y, depth=depth, inner=inner, networks=count, steps=steps,
        rate=sizes.rate, readout_units=depth * inner,
    )  # fmt: skip
    limit = np.mean([record.outputs[: steps + 1] for record in _student(sizes)], 0)
    place = int(np.argmax(np.abs(y)))
    parts = [
        agreement.near(
            f"output at the input of the largest target, {step} steps, depth {depth}, inner width {inner}",
            float(limit[step, place]), agreement.average(trained.outputs[:, step, place]), 0.15 * abs(y[place]),
            bias=abs(y[place]) / depth / 2, because="1/2L of the target", networks=count, paper=False, note=SETTING,
        )
        for step in (steps // 4, steps)
    ]  # fmt: skip
    times = [float(t) for t in range(steps + 1)]
    curves = [
        Curve(
            f"input {row}", times[:: max(steps // 10, 1)], trained.mean[:: max(steps // 10, 1), row].tolist(),
            trained.standard_error[:: max(steps // 10, 1), row].tolist(), limit[:: max(steps // 10, 1), row].tolist(),
        )
        for row in range(3)
    ]  # fmt: skip
    title = f"Networks of depth {depth}, inner width {inner}; line: the mean ODE"
    return Measured(parts, [Panel(title, "steps", "output", curves, "linear")])


CLAIM = Claim(
    key="chen-2024-scaled-resnet-mean-field",
    statement=(
        "While a residual network of infinite depth and width trains with features that move, the smallest eigenvalue "
        "of its Gram matrix stays above half its start, and the training error falls linearly."
    ),
    source="chen-2024-scaled-resnet-mean-field",
    headline=HEADLINE,
    steps=(Step("gram", gram, 34.0), Step("networks", networks, 12.0)),
    full=Sizes(units=1024, seeds=8, steps=400, rate=0.1, networks=(20, 200, 30, 60)),
    reduced=Sizes(units=64, seeds=2, steps=60, rate=0.1, networks=(8, 16, 8, 8)),
)
