"""Doubly stochastic attention: a Wasserstein gradient flow, and with many tokens a diffusion of heat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

STD = 1.3
HEADLINE = "slope of the Sinkhorn drift of Gaussian tokens, epsilon 0.1"
HILLS, HILL = 1.5, 0.5
SAMPLED = 0.2


@dataclass(frozen=True)
class Sizes:
    """Tokens and iterations of the grid, sampled (tokens, repetitions), and tokens, epsilon, time and steps of heat."""

    grid: int
    iterations: int
    samples: tuple[tuple[int, int], ...]
    heat: tuple[int, float, float, int]


def plan(logits: np.ndarray, iterations: int, residual: float = 0.0) -> np.ndarray:
    """Return the matrix whose columns and rows were divided by their sums in turn, rows last."""
    matrix = np.exp(logits - logits.max(axis=1, keepdims=True))
    matrix /= matrix.sum(axis=1, keepdims=True)
    for _ in range(iterations):
        sums = matrix.sum(axis=0)
        if np.abs(sums - 1).max() <= residual:
            break
        matrix /= sums
        matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def distances(x: np.ndarray, epsilon: float) -> np.ndarray:
    """Return -|x - y|^2 / 2 epsilon of tokens on a line, (m, m)."""
    return -((x[:, None] - x) ** 2) / (2 * epsilon)


def drift(x: np.ndarray, logits: np.ndarray, epsilon: float, iterations: int) -> np.ndarray:
    """Return (K x - x) / epsilon, (m,), for K = D e^logits D, logits symmetric; without iterations, of softmax."""
    kernel = np.exp(logits)
    d = np.ones(len(x))
    for index in range(iterations):
        sums = d * (kernel @ d) if index else kernel.sum(axis=1)
        d = d / np.sqrt(sums)
        if index and np.abs(sums - 1).max() <= 1e-10:
            break
    return (kernel @ (d * x) / (kernel @ d) - x) / epsilon


def fitted(x: np.ndarray, y: np.ndarray) -> float:
    """Return the slope of y within one standard deviation: a grid or a sample has no tails."""
    near = np.abs(x) < STD
    return float(np.polyfit(x[near], y[near], 1)[0])


def gaussian(sizes: Sizes) -> Measured:
    """Measure the drift of tokens at the quantiles of a Gaussian beside its exact slope and its limit."""
    from deeplimits.limits.tokens.gaussian import gaussian_slope

    x, widths = STD * stats.norm.ppf((np.arange(sizes.grid) + 0.5) / sizes.grid), (0.4, 0.2, 0.1)
    found = [fitted(x, drift(x, distances(x, one), one, sizes.iterations)) for one in widths]
    exact = [gaussian_slope(STD, one) for one in widths]
    dot = [fitted(x, drift(x, np.outer(x, x) / one, one, 0)) for one in widths[:2]]
    agree = drift(x, np.outer(x, x) / 0.4, 0.4, sizes.iterations)
    limit, ratio = gaussian_slope(STD, 0.0), widths[1] / (2 * STD**2)
    parts = [
        agreement.equal(
            f"slope of the Sinkhorn drift of Gaussian tokens, epsilon {one:g}", line, value, 1e-4 * abs(line),
            "1e-4 of itself", paper=False,
        )
        for one, line, value in zip(widths, exact, found, strict=True)
    ] + [
        agreement.equal(
            "its limit as epsilon falls, from 0.2 and 0.1: half of grad log rho", limit, 2 * found[2] - found[1],
            abs(limit) * (ratio**3 + 3e-4), "the third power of epsilon/2s^2, and three times 1e-4 of the grid",
        ),
        agreement.equal(
            "the same drift with logits <x, y>, largest difference, epsilon 0.4", 0.0,
            float(np.abs(agree - drift(x, distances(x, 0.4), 0.4, sizes.iterations)).max()), 1e-6, "1e-10 / epsilon",
        ),
        agreement.above(
            "softmax of <x, y>: growth of its slope from epsilon 0.4 to 0.2", 1.5, Estimate(dot[1] / dot[0], 0.0),
            predicted=gaussian_slope(STD, 0.2, "dot") / gaussian_slope(STD, 0.4, "dot"),
        ),
    ]  # fmt: skip
    xs = list(widths)
    curves = [
        Curve("Sinkhorn", xs, found, [0.0] * 3, exact),
        Curve("limit, −1/2s²", xs, predicted=[limit] * 3),
    ]
    return Measured(parts, [Panel("Drift of Gaussian tokens", "epsilon", "slope of the drift", curves, "log2")])


def sums(sizes: Sizes) -> Measured:
    """Measure the sums of rows and columns of random attention, by iterations."""
    from deeplimits.limits.tokens.sinkhorn import balance

    logits = 3 * generator(21, "claims", "sinkhorn").standard_normal((64, 64))
    counts = [1, 3, 5, 21, 101]
    errors = [float(np.abs(plan(logits, count - 1).sum(axis=0) - 1).max()) for count in counts]
    same = np.abs(plan(logits, 1000) - balance(logits).matrix).max()
    rows = float(np.abs(plan(logits, 100).sum(axis=1) - 1).max())
    parts = [
        agreement.equal(
            "|column sum - 1| after 100 iterations, 64 tokens, logits of deviation 3", 0.0, errors[-1], 1e-6, "1e-6",
        ),
        agreement.equal("|row sum - 1|, likewise", 0.0, rows, 1e-6, "1e-6"),
        agreement.equal(
            "distance to the matrix found in the log domain", 0.0, float(same), 1e-9, "rounding", paper=False,
        ),
    ]  # fmt: skip
    curves = [Curve("largest |column sum − 1|", [float(c) for c in counts], errors, [0.0] * len(counts))]
    panel = Panel("Softmax becomes doubly stochastic", "iterations", "distance from 1", curves, "log", "log")
    return Measured(parts, [panel])


def gradient(sizes: Sizes) -> Measured:
    """Measure whether the velocities are a gradient: the asymmetry of their Jacobian, and the energy they descend."""
    from deeplimits.limits.tokens.sinkhorn import SinkhornFlow

    x = generator(22, "claims", "sinkhorn").standard_normal((8, 2))
    flow = SinkhornFlow(0.5, None, None, 20000)
    sinkhorn = lambda y: plan(y @ y.T / 0.5, 20000, 1e-13) @ y
    softmax = lambda y: plan(y @ y.T / 0.5, 0) @ y
    step, velocity = 1e-5, (sinkhorn(x) - x) / 0.5
    fall = (flow.energy(x + step * velocity) - flow.energy(x - step * velocity)) / (2 * step)
    speed = float(np.mean(np.sum(velocity**2, axis=1)))
    odd, even = Estimate(_asymmetry(softmax, x), 0.0), _asymmetry(sinkhorn, x)
    parts = [
        agreement.equal("asymmetry of the Jacobian of Sinkhorn attention", 0.0, even, 1e-6, "differences of 1e-5"),
        agreement.above("asymmetry of the Jacobian of softmax attention", 1e-2, odd),
        agreement.equal(
            "fall of the cost of transport along the flow, over mean |velocity|^2", 1.0, -fall / speed, 1e-5,
            "differences of 1e-5",
        ),
    ]  # fmt: skip
    return Measured(parts, [])


def _asymmetry(field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 1e-5) -> float:
    """Return |J - J^T| / |J| of a field on tokens, by central differences."""
    columns = []
    for place in np.ndindex(*x.shape):
        move = np.zeros_like(x)
        move[place] = step
        columns.append((field(x + move) - field(x - move)).ravel() / (2 * step))
    jacobian = np.array(columns)
    return float(np.linalg.norm(jacobian - jacobian.T) / np.linalg.norm(jacobian))


def samples(sizes: Sizes) -> Measured:
    """Measure how the drift of sampled Gaussian tokens approaches the exact one with their number."""
    from deeplimits.limits.tokens.gaussian import gaussian_slope

    exact, errors, slopes = gaussian_slope(STD, SAMPLED), [], []
    for count, repetitions in sizes.samples:
        gaps, lines = [], []
        for index in range(repetitions):
            x = STD * generator(23, "claims", "sinkhorn", count, index).standard_normal(count)
            found = drift(x, distances(x, SAMPLED), SAMPLED, 400)
            near = np.abs(x) < STD
            gaps.append(sqrt(np.mean((found - exact * x)[near] ** 2)))
            lines.append(float(found @ x / (x @ x)))
        errors.append(agreement.average(np.array(gaps)))
        slopes.append(agreement.average(np.array(lines)))
    counts = [float(count) for count, _ in sizes.samples]
    power = slope(counts, [e.value for e in errors], [e.error for e in errors], CONFIDENCE)
    count, repetitions = sizes.samples[-1]
    parts = [
        agreement.inside("exponent of the drift's error in the number of tokens", -0.5, power, -0.75, -0.25),
        agreement.near(
            f"slope of the drift of {count} sampled tokens", exact, slopes[-1], 0.1 * abs(exact),
            bias=10 * abs(exact) / count, because="10/m of itself, beyond the fluctuations", networks=repetitions,
            paper=False,
        ),
    ]  # fmt: skip
    line = [errors[0].value * sqrt(counts[0] / count) for count in counts]
    curve = Curve("sampled; line: m^−1/2", counts, [e.value for e in errors], [e.error for e in errors], line)
    panel = Panel("Sampled tokens approach the limit", "tokens m", "rms error of the drift", [curve], "log2", "log")
    return Measured(parts, [panel])


def heat(sizes: Sizes) -> Measured:
    """Measure tokens that start as two hills beside the solution of the heat equation."""
    count, epsilon, end, steps = sizes.heat
    x = _hills((np.arange(count) + 0.5) / count, HILL)
    marks, places, length = [x.copy()], (np.arange(count) + 0.5) / count, end / steps
    velocity = lambda y: -drift(y, distances(y, epsilon), epsilon, 400)
    for index in range(steps):
        middle = x + length / 2 * velocity(x)
        x = x + length * velocity(middle)
        if index + 1 in (steps // 2, steps):
            marks.append(x.copy())
    times = (0.0, end / 2, end)
    deviations = [sqrt(HILL**2 + time) for time in times]
    gap = [float(np.abs(_cumulative(y, s) - places).max()) for y, s in zip(marks, deviations, strict=True)]
    share = epsilon / (4 * HILL**2)
    parts = [
        agreement.equal(
            f"distance of {count} tokens from the heat equation, in probability, time {end:g}", 0.0, gap[-1],
            0.25 * share / 2 + 1 / count,
            "epsilon/4s^2 of the growth of the hills' variance is lost, a quarter of half of that in probability; 1/m",
        ),
        agreement.equal(
            "growth of the variance over time", 1.0, float((marks[-1].var() - marks[0].var()) / end), share + 4 / count,
            "epsilon/4s^2, and 4/m of the grid",
        ),
        agreement.above(
            "distance from the start, in probability", 0.05,
            Estimate(float(np.abs(_cumulative(marks[-1], HILL) - places).max()), 0.0),
            predicted=float(np.abs(_cumulative(_hills(places, deviations[-1]), HILL) - places).max()),
        ),
    ]  # fmt: skip
    curves = []
    for time, y, s in zip(times, marks, deviations, strict=True):
        middle, density = _density(y, 10)
        line = (stats.norm.pdf(middle, -HILLS, s) + stats.norm.pdf(middle, HILLS, s)) / 2
        name = f"time {time:g}; line: heat equation"
        curves.append(Curve(name, middle.tolist(), density.tolist(), None, line.tolist()))
    panel = Panel("Tokens spread like heat", "x", "density", curves, "linear")
    return Measured(parts, [panel])


def _cumulative(x: np.ndarray, deviation: float) -> np.ndarray:
    return (stats.norm.cdf(x, -HILLS, deviation) + stats.norm.cdf(x, HILLS, deviation)) / 2


def _hills(share: np.ndarray, deviation: float) -> np.ndarray:
    """Return the quantiles of both hills together, by interpolation on a fine grid."""
    grid = np.linspace(-HILLS - 6 * deviation, HILLS + 6 * deviation, 20001)
    return np.interp(share, _cumulative(grid, deviation), grid)


def _density(x: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places and densities of sorted tokens, from the room that `group` of them take."""
    x = np.sort(x)
    low, high = x[:-group:group], x[group::group]
    return (low + high) / 2, group / len(x) / (high - low)


CLAIM = Claim(
    key="sander-2021-sinkformers",
    statement=(
        "Sinkhorn's algorithm makes attention doubly stochastic and its layers a gradient flow for the Wasserstein "
        "metric; with many tokens and rescaled depth they are a diffusion of heat."
    ),
    source="sander-2021-sinkformers, abstract; the constants are derived for the kernel exp(-|x - y|^2 / 2 epsilon)",
    headline=HEADLINE,
    steps=(
        Step("gaussian", gaussian, 2.0),
        Step("sums", sums, 0.1),
        Step("gradient", gradient, 0.5),
        Step("samples", samples, 30.0),
        Step("heat", heat, 8.0),
    ),
    full=Sizes(
        grid=600, iterations=150, samples=((250, 600), (500, 400), (1000, 150), (2000, 50), (4000, 16)),
        heat=(400, 0.05, 0.5, 50),
    ),
    reduced=Sizes(grid=600, iterations=150, samples=((125, 10), (250, 10), (500, 10)), heat=(128, 0.1, 0.5, 20)),
)  # fmt: skip
