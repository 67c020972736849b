"""Under standard scaling, cross-entropy lets SGD take learning rates at which logits diverge and features stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.perceptrons import bisected, cross_entropy, descend, drawn, layers, rms, square

HEADLINE = "exponent in the width of the largest stable learning rate, cross-entropy"
BATCH, PROBE = 32, 256
LOW, HIGH, ROUNDS = -10.0, 2.0, 6
GROWTH = 4.0
RATE = 4.0
EARLY = 3
WORDS = "cross-entropy, learning rate 4 n^-1/2"
LOSSES: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "squared error": (square, -1.0),
    "cross-entropy": (cross_entropy, -0.5),
}


@dataclass(frozen=True)
class Sizes:
    """Widths of two hidden layers, networks a width, and steps of SGD."""

    widths: tuple[int, ...]
    networks: int
    steps: int


@dataclass(frozen=True)
class Run:
    """Root mean squares on the probe at some steps, {step: (networks,)}, and which networks are stable.

    Stable: the last hidden layer is below four times its start, and the loss below its own.
    """

    features: dict[int, np.ndarray]
    logits: dict[int, np.ndarray]
    stable: np.ndarray


@one_thread()
def trained(
    width: int, loss: Callable[[Any, Any], Any], log2_rates: np.ndarray, steps: int, seen: tuple[int, ...] = ()
) -> Run:
    """Train perceptrons with two hidden layers on digits by SGD, each with its own learning rate.

    All layers share it: standard parametrization. Networks differ in their initial weights and see the same batches.
    """
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    x = 8 * x  # |x|^2 = d
    weights = drawn([x.shape[1], width, width, 10], len(log2_rates), seed=width)
    rates = torch.tensor(2.0**log2_rates, dtype=x.dtype)
    generator = torch.Generator().manual_seed(1)
    features, logits, losses = {}, {}, {}
    for step in range(steps + 1):
        if step in (0, *seen, steps):
            with torch.no_grad():
                *_, last, outputs = layers(weights, x[:PROBE])
                losses[step] = loss(outputs, y[:PROBE]).numpy()
            features[step], logits[step] = rms(last).numpy(), rms(outputs).numpy()
        if step < steps:
            rows = torch.randint(len(y), (BATCH,), generator=generator)
            descend(weights, rates, loss, x[rows], y[rows])
    stable = (features[steps] < GROWTH * features[0]) & (losses[steps] < losses[0])
    return Run(features, logits, stable)


def exponents(widths: Sequence[int], values: np.ndarray) -> np.ndarray:
    """Return each network's exponent by least squares of log2 values, (widths, networks), on log2 widths."""
    return np.polyfit(np.log2(widths), values, 1)[0]


def edges(sizes: Sizes) -> Measured:
    """Bisect the largest learning rate that keeps features bounded and lets the loss fall, width by width."""
    fitted, curves = {}, []
    for name, (loss, predicted) in LOSSES.items():
        found = np.array(
            [
                bisected(
                    lambda rates, width=width, loss=loss: trained(width, loss, rates, sizes.steps).stable,
                    LOW, HIGH, sizes.networks, ROUNDS,
                )
                for width in sizes.widths
            ]
        )  # fmt: skip
        fitted[name] = exponents(sizes.widths, found)
        means = [agreement.average(row) for row in found]
        level = means[-1].value - predicted * np.log2(sizes.widths[-1])
        line = [float(2 ** (level + predicted * np.log2(width))) for width in sizes.widths]
        values = [2**m.value for m in means]
        bars = [value * np.log(2) * m.error for value, m in zip(values, means, strict=True)]
        curves.append(Curve(f"{name}; line: n^{predicted:g}", [float(w) for w in sizes.widths], values, bars, line))
    options = {"networks": sizes.networks}
    parts = [
        agreement.between(
            f"exponent in the width of the largest stable learning rate, {name}", predicted,
            agreement.average(fitted[name]), predicted - 0.3, predicted + 0.3, **options,
        )
        for name, (_, predicted) in LOSSES.items()
    ]  # fmt: skip
    gap = agreement.average(fitted["cross-entropy"] - fitted["squared error"])
    name = "exponent of cross-entropy above that of squared error, at least 0.3"
    parts.append(agreement.above(name, 0.3, gap, predicted=0.5, **options))
    panel = Panel("Largest stable learning rate of SGD", "width n", "learning rate", curves, y_scale="log")
    return Measured(parts, [panel])


def divergence(sizes: Sizes) -> Measured:
    """Measure logits and features under cross-entropy at a learning rate of 4 n^-1/2, inside the stable region."""
    runs = [
        trained(width, cross_entropy, np.full(sizes.networks, np.log2(RATE * width**-0.5)), sizes.steps, (1, EARLY))
        for width in sizes.widths
    ]
    logits = {step: np.array([run.logits[step] for run in runs]) for step in (1, EARLY, sizes.steps)}
    features = {step: np.array([run.features[step] for run in runs]) for step in (1, EARLY, sizes.steps)}
    grown = {step: agreement.average(exponents(sizes.widths, np.log2(values))) for step, values in logits.items()}
    kept = {step: agreement.average(exponents(sizes.widths, np.log2(values))) for step, values in features.items()}
    options = {"networks": sizes.networks}
    parts = [
        agreement.between(
            f"exponent in the width of the logits after a step, {WORDS}", 0.5, grown[1], 0.2, 0.8, paper=False,
            note="width^1/2 is derived for one step", **options,
        ),
        agreement.above(
            f"exponent in the width of the logits after {EARLY} steps, {WORDS}: they grow with width", 0.2,
            grown[EARLY], predicted=0.5, **options,
        ),
        *(
            agreement.between(
                f"exponent in the width of the last hidden layer after {step} steps, {WORDS}", 0.0, found, -0.2, 0.2,
                **options,
            )
            for step, found in kept.items() if step > 1
        ),
        agreement.equal(
            "share of these networks that are stable", 1.0, float(np.mean([run.stable for run in runs])), 0.0,
            "all of them", paper=False, note="features within four times their start, and the loss falls",
        ),
        agreement.between(
            f"exponent in the width of the logits after {sizes.steps} steps, {WORDS}", 0.0, grown[sizes.steps], -0.2,
            0.2, paper=False, counts=False, note="cross-entropy brings them back while it fits the digits", **options,
        ),
    ]  # fmt: skip
    x, curves = [float(width) for width in sizes.widths], []
    for name, found, power in (("logits", logits, 0.5), ("last hidden layer", features, 0.0)):
        means = [agreement.average(row) for row in found[EARLY]]
        line = [means[-1].value * (width / x[-1]) ** power for width in x]
        curves.append(Curve(f"{name}; line: n^{power:g}", x, [m.value for m in means], [m.error for m in means], line))
    title = f"After {EARLY} steps at 4/√n, cross-entropy"
    return Measured(parts, [Panel(title, "width n", "root mean square", curves, y_scale="log")])


CLAIM = Claim(
    key="haas-2025-large-lr-sp",
    statement=(
        "Under standard scaling the largest stable learning rate of SGD falls as 1/width for squared error and only as "
        "width^-1/2 for cross-entropy, where logits diverge and features stay bounded."
    ),
    source="haas-2025-large-lr-sp",
    headline=HEADLINE,
    steps=(Step("edges", edges, 50.0), Step("divergence", divergence, 2.0)),
    full=Sizes((64, 128, 256, 512, 1024), 12, 20),
    reduced=Sizes((32, 64, 128, 256), 4, 20),
)
