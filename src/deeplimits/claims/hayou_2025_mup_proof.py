"""Learning rates of linear perceptrons: under muP the best one tends to a constant above zero, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.limits.training.linear.best_rate import best_rate, best_rate_law, best_rates
from deeplimits.limits.training.linear.best_rate_record import BestRates
from deeplimits.numerics.fit import Slope, slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "best learning rate after one step, muP, widest networks"
FEATURES, ROWS, HIDDEN = 8, 12, 3
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sizes:
    """(width, networks) after one step, under muP and otherwise, and after several, and the several steps."""

    one: Pairs
    other: Pairs
    several: Pairs
    steps: int


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (rows, features) and targets (rows,), standard normal."""
    rng = generator(0, "claims", "linear")
    return rng.standard_normal((ROWS, FEATURES)), rng.standard_normal(ROWS)


def sampled(rule: str, pairs: Pairs, steps: int) -> BestRates:
    """Return the best rates of sampled networks."""
    widths, networks = zip(*pairs, strict=True)
    return best_rates(*problem(), widths=widths, hidden=HIDDEN, rule=rule, steps=steps, networks=networks, seed=1)


def estimates(found: tuple[np.ndarray, np.ndarray], over: np.ndarray | float = 1.0) -> list[Estimate]:
    """Return medians and their errors, over some numbers, as estimates."""
    return [Estimate(float(value), float(error)) for value, error in zip(*(f / over for f in found), strict=True)]


def fitted(widths: tuple[int, ...], found: list[Estimate]) -> Slope:
    """Return the exponent in the width, with an interval of the level of all claims."""
    return slope(widths, [f.value for f in found], [f.error for f in found], CONFIDENCE)


@one_thread()
def one_step(sizes: Sizes) -> Measured:
    """Measure the best rate of one step under muP: its limit in closed form, and the approach to it."""
    predicted, found = best_rate(*problem(), HIDDEN), sampled("mup", sizes.one, 1)
    means, gaps = estimates(found.median), estimates(found.distance)
    widths, (_, count) = found.widths, sizes.one[-1]
    ratio = Estimate(means[-1].value / means[-2].value, hypot(*(m.error / m.value for m in means[-2:])))
    parts = [
        agreement.near(
            HEADLINE, predicted, means[-1], 0.1 * predicted, bias=gaps[-1].value**2 / predicted,
            because="of the order of the relative variance, 1/n", networks=count, paper=False,
            note="the paper proves a limit above zero; its value is (m/L) y'Ky / y'K^2y",
        ),
        agreement.between(
            f"the same, width {widths[-1]} over {widths[-2]}", 1.0, ratio, 0.9, 1.1, networks=count,
        ),
        agreement.inside(
            "exponent in the width of one network's distance to the limit, muP", -0.5, fitted(widths, gaps), -0.6, -0.4,
            paper=False, note="derived, as the limit",
        ),
    ]  # fmt: skip
    line = [gaps[0].value * (width / widths[0]) ** -0.5 for width in widths]
    best = _curve("μP; line: the limit", widths, means, [predicted] * len(widths))
    apart = _curve("μP, from the limit; line: 1/√width", widths, gaps, line)
    return Measured(
        parts,
        [
            Panel("The best learning rate of one step", "width n", "learning rate", [best]),
            Panel("How far one network is", "width n", "median distance", [apart], y_scale="log"),
        ],
    )


@one_thread()
def otherwise(sizes: Sizes) -> Measured:
    """Measure the best rate of one step in the standard and the NTK parametrization: it falls, or it is random."""
    found = sampled("ntp", sizes.other, 1)
    widths = found.widths
    standard, spreads = estimates(found.median, np.array(widths)), estimates(found.distance)
    law = best_rate_law(*problem(), HIDDEN, samples=100_000)
    spread = float(np.median(abs(law - np.median(law))))
    parts = [
        agreement.inside(
            "exponent in the width of the best learning rate, standard parametrization", -1.0,
            fitted(widths, standard), -1.2, -0.8,
        ),
        agreement.inside(
            "exponent in the width of one network's distance from the others' median, NTK", 0.0,
            fitted(widths, spreads), -0.2, 0.2, paper=False, counts=False,
            note="its limit depends on the initial function and is no constant: derived, not the paper's statement",
        ),
    ]  # fmt: skip
    fall = [standard[-1].value * widths[-1] / width for width in widths]
    best = _curve("standard; line: 1/width", widths, standard, fall)
    apart = _curve("NTK, from each other; line: its limit", widths, spreads, [spread] * len(widths))
    return Measured(
        parts,
        [
            Panel("Standard: the best rate of one step", "width n", "learning rate", [best], y_scale="log"),
            Panel("NTK: how far one network is", "width n", "median distance", [apart], y_scale="log"),
        ],
    )


@one_thread()
def several_steps(sizes: Sizes) -> Measured:
    """Measure the best rate after several steps: its exponent in the width."""
    names = {"mup": "muP", "sp": "standard parametrization"}
    shown = {"mup": "μP; line: constant", "sp": "standard; line: 1/width"}
    parts: list[Part] = []
    curves = []
    for (rule, name), exponent, half in zip(names.items(), (0.0, -1.0), (0.15, 0.3), strict=True):
        found = sampled(rule, sizes.several, sizes.steps)
        best, widths = estimates(found.median), found.widths
        title = f"exponent in the width of the best learning rate after {sizes.steps} steps, {name}"
        ends = exponent - half, exponent + half
        parts.append(agreement.inside(title, exponent, fitted(widths, best), *ends))
        line = [best[-1].value * (width / widths[-1]) ** exponent for width in widths]
        curves.append(_curve(shown[rule], widths, best, line))
    title = f"The best learning rate of {sizes.steps} steps"
    return Measured(parts, [Panel(title, "width n", "learning rate", curves, y_scale="log")])


def _curve(name: str, widths: tuple[int, ...], found: list[Estimate], line: list[float]) -> Curve:
    return Curve(name, [float(width) for width in widths], [f.value for f in found], [f.error for f in found], line)


CLAIM = Claim(
    key="hayou-2025-mup-proof",
    statement=(
        "In linear perceptrons under muP the best learning rate after any number of steps tends to a constant above "
        "zero as the width grows, and under the standard parametrization to zero."
    ),
    source="hayou-2025-mup-proof",
    headline=HEADLINE,
    steps=(
        Step("one step", one_step, 20.0), Step("otherwise", otherwise, 6.0), Step("several steps", several_steps, 25.0),
    ),
    full=Sizes(
        one=((128, 6000), (256, 5000), (512, 4000), (1024, 3000), (2048, 1500)),
        other=((128, 2000), (256, 2000), (512, 1500), (1024, 800), (2048, 400)),
        several=((128, 100), (256, 60), (512, 30), (1024, 8)),
        steps=5,
    ),
    reduced=Sizes(
        one=((32, 200), (64, 200)), other=((32, 100), (64, 100)), several=((32, 10), (64, 10)), steps=3,
    ),
)  # fmt: skip
