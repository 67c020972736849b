"""Deep linear networks: the course of every mode, and what depth costs in training time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "largest distance of a mode under gradient descent from its closed form, two matrices, rate 1e-3"
START, SHARE = 0.1, 0.95
RATE = 1e-3
TARGETS = {2: 3.0, 3: 2.0, 4: 2.0}
ORDER = "the error of a step is of order rate N s^(3 - 2/N)"


@dataclass(frozen=True)
class Sizes:
    """Time of training beside the modes, depths of matrices and of single modes, and rate times N of the delay."""

    time: float
    matrices: tuple[int, ...]
    modes: tuple[int, ...]
    rate: float


def course(layers: int, targets: np.ndarray, start: float, rate: float, steps: int) -> np.ndarray:
    """Return strengths of modes of a product of real matrices under gradient descent, (steps + 1, modes).

    Inputs are white, layers balanced and aligned; hidden directions are drawn at random.
    """
    from deeplimits.limits.training.linear.balanced import balanced

    random = generator(layers, "claims", "deep linear")
    left, right = (np.linalg.qr(random.standard_normal((n, n)))[0][:, : len(targets)] for n in (4, 5))
    goal = (left * targets) @ right.T
    weights = balanced(start * left @ right.T, layers, width=6, seed=layers)
    found = []
    for _ in range(steps + 1):
        down = [np.eye(5)]
        for W in weights:
            down.append(W @ down[-1])
        found.append(np.diag(left.T @ down[-1] @ right))
        up = down[-1] - goal
        for j in reversed(range(layers)):
            move, up = up @ down[j].T, weights[j].T @ up
            weights[j] = weights[j] - rate * move
    return np.array(found)


def single(layers: int, rate: float) -> float:
    """Return steps times rate times N until one mode of N equal weights is learned, s = 1, the rate over N.

    All matrices of a balanced, aligned mode carry the same weight a: a <- a - (rate/N) (a^N - 1) a^(N - 1).
    """
    a, before, step = START ** (1 / layers), START, 0
    while True:
        u = a**layers
        if u >= SHARE:
            return rate * (step - (u - SHARE) / (u - before))
        before, step = u, step + 1
        a = a - rate / layers * (u - 1) * a ** (layers - 1)


def modes(sizes: Sizes) -> Measured:
    """Measure modes of real matrices beside their equation, at two rates."""
    from deeplimits.limits.training.linear.modes import mode_strength

    parts: list[Part] = []
    curves = []
    for layers, largest in TARGETS.items():
        targets, gaps = np.linspace(largest, 1.0, 3), []
        for rate in (RATE, RATE / 2):
            steps = round(sizes.time / rate)
            found = course(layers, targets, 0.05, rate, steps)
            line = mode_strength(rate * np.arange(steps + 1), targets, 0.05, layers)
            gaps.append(float(np.abs(found - line).max()))
        name = HEADLINE if layers == 2 else HEADLINE.replace("two", str(layers)).replace("closed form", "equation")
        parts.append(agreement.equal(name, 0.0, gaps[0], 6e-3, ORDER))
        halved = f"that distance over the one at half the rate, {layers} matrices"
        parts.append(agreement.equal(halved, 2.0, gaps[0] / gaps[1], 0.05, "terms of second order in the rate"))
        if layers == 2:
            seen = np.linspace(0, steps, 25).round().astype(int)
            for i, s in enumerate(targets):
                x = (RATE / 2 * seen).tolist()
                curves.append(Curve(f"s = {s:g}", x, found[seen, i].tolist(), [0.0] * len(x), line[seen, i].tolist()))
    panel = Panel("Two matrices: modes and their closed form", "rate × steps", "strength", curves, "linear")
    return Measured(parts, [panel])


def delay(sizes: Sizes) -> Measured:
    """Measure the steps until one mode is learned when the rate is divided by the number of matrices."""
    from deeplimits.limits.training.linear.modes import mode_delay

    depths = sorted({*sizes.matrices, *sizes.modes})
    parts, taken = [], {}
    for layers in sizes.modes:
        taken[layers] = single(layers, sizes.rate)
        parts.append(_time(f"one mode of {layers} weights", layers, taken[layers], sizes.rate))
    for layers in sizes.matrices:
        steps = round(16 / sizes.rate)
        found = course(layers, np.ones(1), START, sizes.rate / layers, steps)[:, 0]
        late = int(np.argmax(found >= SHARE))
        time = sizes.rate * (late - (found[late] - SHARE) / (found[late] - found[late - 1]))
        taken[layers] = float(time)
        parts.append(_time(f"{layers} real matrices", layers, float(time), sizes.rate))
    limit = float(mode_delay(inf))
    last = max(sizes.modes)
    parts.append(
        agreement.between(
            f"time to 95 % with {last} matrices over its limit at infinite depth", 1.0,
            Estimate(taken[last] / limit, 0.0), 0.98, 1.02,
        )
    )  # fmt: skip
    small = [float(mode_delay(n, initial=1e-3, share=0.99)) for n in (2, 1024, inf)]
    parts.append(
        agreement.equal(
            "time to 99 % from a product of 1e-3 at infinite depth over that with two matrices",
            1.0, small[2] / small[0], 0.5, "no delay to speak of", paper=False, counts=False,
            note="finite as well, but the delay grows as one over the product at the start",
        )
    )  # fmt: skip
    y = [taken[n] for n in depths]
    line = [float(mode_delay(n)) for n in depths]
    curves = [
        Curve("from 0.1; line: integral", [float(n) for n in depths], y, [0.0] * len(y), line),
        Curve("infinite depth", [float(n) for n in depths], None, None, [limit] * len(y)),
    ]
    return Measured(parts, [Panel("Learning time, rate over N", "matrices N", "rate × steps to 95 %", curves)])


def _time(of: str, layers: int, found: float, rate: float) -> Part:
    from deeplimits.limits.training.linear.modes import mode_delay

    name = f"time to learn 95 % from 0.1, rate over N, {of}"
    return agreement.equal(name, float(mode_delay(layers)), found, 10 * rate, "ten steps of gradient descent")


CLAIM = Claim(
    key="saxe-2013-deep-linear",
    statement=(
        "Deep linear networks that start balanced learn each singular mode of white data alone, by an equation with a "
        "closed form for two matrices; with rates of 1/depth the time to learn stays finite as the depth grows."
    ),
    source="saxe-2013-deep-linear",
    headline=HEADLINE,
    steps=(Step("modes", modes, 8.0), Step("delay", delay, 8.0)),
    full=Sizes(time=3.0, matrices=(2, 8, 32), modes=(4, 16, 64, 128, 256, 512, 1024), rate=0.01),
    reduced=Sizes(time=1.5, matrices=(2, 8), modes=(32, 1024), rate=0.02),
)
