"""Neurons that merge while their output weights run to plus and minus infinity: together a gated linear unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.diagnostics.channel_record import Channel
from deeplimits.plane.record import Estimate

HEADLINE = "cosine of the two neurons that become a gated linear unit"
COSINE, ERROR = 0.999, 1e-3
ROWS, TEACHERS = 200, 12
LEARNING, FIRST, SECOND = 1e-2, 0.9, 0.999
UNIT = (1.3, np.array([1.0, 0.3, 0.2]), np.array([0.5, -0.6, 0.0]))
"""c, (w, b) and v of the unit that two neurons are taught."""


@dataclass(frozen=True)
class Sizes:
    """Steps of Adam, then of BFGS up to each look; starts of the two tasks; neurons of the second."""

    adam: int
    looks: tuple[int, ...]
    starts: int
    networks: int
    neurons: int


def _rows() -> np.ndarray:
    """Return inputs in the plane and a column of ones, (N, 3)."""
    from deeplimits.numerics.seeds import generator

    return np.hstack([generator(0, "claims", "channels").standard_normal((ROWS, 2)), np.ones((ROWS, 1))])


def gated(x: np.ndarray) -> np.ndarray:
    """Return c tanh(w x) + (v x) tanh'(w x)."""
    c, w, v = UNIT
    return c * np.tanh(x @ w) + (x @ v) * (1 - np.tanh(x @ w) ** 2)


def taught(x: np.ndarray) -> np.ndarray:
    """Return what a wider network gives, with Gaussian weights."""
    from deeplimits.numerics.seeds import generator

    stream = generator(1, "claims", "channels")
    w, a = stream.standard_normal((TEACHERS, 3)), stream.standard_normal(TEACHERS)
    return np.tanh(x @ w.T) @ a


@dataclass(frozen=True)
class Look:
    """A network at one moment: weights (n, 3) and (n,), and its mean squared error."""

    w: np.ndarray
    a: np.ndarray
    loss: float


def trained(x: np.ndarray, y: np.ndarray, neurons: int, sizes: Sizes, seed: int) -> list[Look]:
    """Fit a tanh (w x) by Adam, then by BFGS, and look at it from time to time."""
    from scipy.optimize import minimize

    from deeplimits.numerics.seeds import generator

    stream, cut = generator(seed, "claims", "channels", "start"), 3 * neurons
    start = stream.standard_normal((neurons, 3)), stream.standard_normal(neurons) / neurons**0.5

    def loss(p: np.ndarray) -> tuple[float, np.ndarray]:
        w, a = p[:cut].reshape(neurons, 3), p[cut:]
        h = np.tanh(x @ w.T)
        error = (h @ a - y) / len(y)
        slopes = ((1 - h**2) * a * error[:, None]).T @ x
        return float(error @ error) * len(y) / 2, np.concatenate([slopes.ravel(), h.T @ error])

    p, mean, square = np.concatenate([one.ravel() for one in start]), 0.0, 0.0
    for step in range(1, sizes.adam + 1):
        slope = loss(p)[1]
        mean, square = FIRST * mean + (1 - FIRST) * slope, SECOND * square + (1 - SECOND) * slope**2
        p = p - LEARNING * (mean / (1 - FIRST**step)) / (np.sqrt(square / (1 - SECOND**step)) + 1e-8)
    looks = []
    for steps in np.diff([0, *sizes.looks]):
        p = minimize(loss, p, jac=True, method="BFGS", options={"maxiter": int(steps), "gtol": 1e-12}).x
        looks.append(Look(p[:cut].reshape(neurons, 3), p[cut:], 2 * loss(p)[0]))
    return looks


def _nearest(look: Look, x: np.ndarray, cosine: float = 0.9) -> Channel | None:
    import torch

    from deeplimits.diagnostics.channel import channels

    found = channels((look.w, look.a), x, activation=torch.tanh, cosine=cosine)
    return found[0] if len(found) else None


@one_thread()
def unit(sizes: Sizes) -> Measured:
    """Teach two neurons a gated linear unit: no finite weights fit it."""
    x = _rows()
    runs = [trained(x, gated(x), 2, sizes, seed) for seed in range(sizes.starts)]
    looks = min(runs, key=lambda run: run[-1].loss)
    pairs = [_nearest(look, x) for look in looks]
    channel, (c, w, v) = pairs[-1], UNIT
    if channel is None:
        raise RuntimeError("no start reached the channel")
    side = np.sign(channel.direction @ w)  # tanh is odd: (w, c, v) up to its sign
    growth = [pair.difference for pair in pairs if pair is not None]
    options: dict[str, Any] = {"paper": False}
    parts = [
        agreement.equal(HEADLINE, 1.0, channel.cosine, 1 - COSINE, f"above {COSINE:g}", **options),
        agreement.above(
            "growth of a_i - a_j from one look to the next, least", 1.1,
            Estimate(float(np.min(np.divide(growth[1:], growth[:-1]))), 0.0),
            note="looks at doubled steps; BFGS stops at about 1600, where the loss is lost in rounding, "
            "and growth with it",
            **options,
        ),
        agreement.equal("a_i + a_j", c, float(side * channel.scale[0]), 0.01 * c, "1 %", **options),
        agreement.equal(
            "distance of (a_i - a_j) (w_i - w_j)/2 from v, relative", 0.0,
            float(np.linalg.norm(channel.slope[0] - v) / np.linalg.norm(v)), 0.01, "1 %", **options,
        ),
        agreement.equal(
            "root mean square change when the unit replaces the pair", 0.0, channel.error or 0.0, ERROR, "1e-3",
            **options,
        ),
    ]  # fmt: skip
    steps = [float(k) for k, pair in zip(sizes.looks, pairs, strict=True) if pair is not None]
    kept = [pair for pair in pairs if pair is not None]
    curves = [
        Curve("output weights: |a_i − a_j|", steps, growth),
        Curve("1 − cosine of the input weights", steps, [1 - pair.cosine for pair in kept]),
        Curve("change when replaced", steps, [pair.error or 0.0 for pair in kept]),
    ]
    return Measured(
        parts,
        [Panel("Two neurons become one gated linear unit", "steps of BFGS", "weights, gaps", curves, "log", "log")],
    )


@one_thread()
def regression(sizes: Sizes) -> Measured:
    """Fit a wider network by a narrow one from many starts, and count those that end in a channel."""
    x = _rows()
    y = taught(x)
    runs = [trained(x, y, sizes.neurons, sizes, 1000 + seed) for seed in range(sizes.networks)]
    ends = []
    for run in runs:
        early, late = _nearest(run[0], x), _nearest(run[-1], x)
        if late is not None and late.cosine > COSINE and (early is None or late.difference > early.difference):
            ends.append((run, late))
    errors = [late.relative or 0.0 for _, late in ends]
    grown = [late.difference / late.total for _, late in ends]
    parts = [
        agreement.proportion(
            f"of {len(runs)} starts, those that end in a channel", len(ends), len(runs), 0.1, paper=False,
            note=f"{sizes.neurons} neurons taught by {TEACHERS}; the source: with high probability",
        ),
        agreement.equal(
            "change when the unit replaces the pair, over the output, median of those", 0.0,
            float(np.median(errors)) if errors else 1.0, ERROR, "1e-3", paper=False,
        ),
        agreement.above(
            "|a_i - a_j| over |a_i + a_j| at the end, median of those", 10.0,
            Estimate(float(np.median(grown)) if grown else 0.0, 0.0), paper=False,
        ),
    ]  # fmt: skip
    order = sorted(range(len(ends)), key=lambda k: ends[k][1].difference)
    sizes_of = [ends[k][1].difference for k in order]
    curves = [
        Curve("1 − cosine", sizes_of, [max(1 - ends[k][1].cosine, 1e-16) for k in order]),
        Curve("change when replaced, relative", sizes_of, [max(errors[k], 1e-16) for k in order]),
    ]
    losses = sorted(run[-1].loss for run in runs)
    inside = sorted(run[-1].loss for run, _ in ends)
    ranks = [Curve("all starts", [float(k + 1) for k in range(len(losses))], losses)]
    if inside:
        places = [float(np.searchsorted(losses, one) + 1) for one in inside]
        ranks.append(Curve("those in a channel", places, inside))
    return Measured(parts, [
        Panel(f"{len(ends)} of {len(runs)} starts end in a channel", "|a_i − a_j|", "gaps", curves, "log", "log"),
        Panel("Channels look like flat minima", "rank of the start", "mean squared error", ranks, "linear", "log"),
    ])  # fmt: skip


CLAIM = Claim(
    key="martinelli-2025-channels-to-infinity",
    statement=(
        "In channels of the loss two neurons merge while their output weights run to plus and minus infinity, and "
        "together they become a gated linear unit."
    ),
    source="martinelli-2025-channels-to-infinity",
    headline=HEADLINE,
    steps=(Step("unit", unit, 3.0), Step("regression", regression, 20.0)),
    full=Sizes(1000, (50, 100, 200, 400, 800, 1600), 3, 80, 5),
    reduced=Sizes(500, (50, 200, 800), 2, 4, 4),
)
