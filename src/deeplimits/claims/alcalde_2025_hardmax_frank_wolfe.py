"""Attention at temperature zero as steps of Frank and Wolfe, and how long finite temperatures follow it."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, log, sin

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

ALPHA = 0.5
FORM = np.array([[1.0, 0.3], [0.3, 0.8]])
ANGLES = np.array([0.1, 1.5, 2.9, 4.0, 5.2])
HEADLINE = "slope of log distance to the vertex, per step, A positive semidefinite"
NEAR, EXIT = 0.08, 0.9  # NEAR is between the distances after four and five hardmax steps, 0.099 and 0.066
FIRST = (
    "the first version's abstract says that the cluster is at the origin, the later one says at some point within the "
    "hull; steps of fixed length stop short of the origin"
)
OTHER = "corners that score below another corner move, and tokens that follow them bend: the theorem leaves them out"


@dataclass(frozen=True)
class Sizes:
    """Tokens, steps and seeds of hardmax, temperatures of the waiting times, and (beta, chains) of the Markov chain."""

    tokens: int
    steps: int
    seeds: int
    waiting: tuple[float, ...]
    chains: tuple[tuple[float, int], ...]
    sphere: tuple[float, ...]


def corners() -> np.ndarray:
    """Return five corners with <A v, v> = 1: each scores itself highest, and its cell is a Voronoi cell, (5, 2)."""
    return np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) @ np.linalg.inv(np.linalg.cholesky(FORM))


def inside(count: int, seed: int) -> np.ndarray:
    """Return random tokens in the hull of the corners, (count, 2)."""
    return generator(seed, "claims", "hardmax").dirichlet(np.ones(len(ANGLES)), count) @ corners()


def positive(sizes: Sizes) -> Measured:
    """Measure tokens in the hull of five corners that all lead, and of a Gaussian cloud."""
    from deeplimits.limits.tokens import tokens

    rest, v = inside(sizes.tokens, 31), corners()
    found = tokens("hardmax", np.concatenate([v, rest]), sizes.steps, query_key=FORM, step=ALPHA).trajectory
    cell = np.argmin(np.sum(((rest[:, None] - v) @ np.linalg.cholesky(FORM)) ** 2, axis=2), axis=1)
    gap = found[:, 5:] - v[cell]
    size = np.linalg.norm(gap, axis=2)
    seen = np.arange(21)
    slopes = np.polyfit(seen, np.log(size[:21]), 1)[0]
    later = np.argmin(np.sum(((found[20, 5:, None] - v) @ np.linalg.cholesky(FORM)) ** 2, axis=2), axis=1)
    turned = np.abs(gap[:21, :, 0] * gap[0, :, 1] - gap[:21, :, 1] * gap[0, :, 0]) / (size[:21] * size[0])
    worst = float(slopes[np.argmax(np.abs(slopes + log(1 + ALPHA)))])
    parts = [
        agreement.equal(
            "largest move of a corner, all corners leading", 0.0, float(np.abs(found[:, :5] - v).max()), 1e-9,
            "rounding",
        ),
        agreement.equal("share of tokens in their first Voronoi cell", 1.0, float(np.mean(later == cell)), 0.0, "all"),
        agreement.equal("largest sine of a path to its straight line", 0.0, float(turned.max()), 1e-6, "rounding"),
        agreement.equal(HEADLINE, -log(1 + ALPHA), worst, 1e-6, "the worst token"),
        *_cloud(sizes),
    ]  # fmt: skip
    curve = Curve(
        "farthest token; line: (1 + alpha)^−t", seen.astype(float).tolist(), size[:21].max(axis=1).tolist(), None,
        (size[0].max() / (1 + ALPHA) ** seen).tolist(),
    )  # fmt: skip
    return Measured(parts, [Panel("Tokens go to their corner", "step", "distance", [curve], "linear", "log")])


def _cloud(sizes: Sizes) -> list[Part]:
    """Judge Gaussian clouds, where some corners of the hull score below others."""
    from scipy.spatial import ConvexHull

    from deeplimits.limits.tokens import tokens

    stray, restless, later, moved, bent = 0, 0, 0, 0.0, []
    for seed in range(sizes.seeds):
        x = generator(seed, "claims", "cloud").standard_normal((sizes.tokens, 2))
        found = tokens("hardmax", x, 4 * sizes.steps, query_key=FORM, step=ALPHA)
        end = found.trajectory[-1]
        stray += len(set(found.leaders.tolist()) - set(ConvexHull(x).vertices.tolist()))
        points = np.stack([end[np.argmax(found.clusters[-1] == one)] for one in range(found.cluster_count[-1])])
        restless += int(np.sum(np.argmax(points @ FORM @ points.T, axis=1) != np.arange(len(points))))
        later += len(points) - len(found.leaders)
        moved = max(moved, float(np.abs(end[found.leaders] - x[found.leaders]).max()))
        first, way = found.trajectory[1] - x, end - x
        turn = np.abs(first[:, 0] * way[:, 1] - first[:, 1] * way[:, 0])
        bent.append(float(np.mean(turn > 1e-6 * np.linalg.norm(first, axis=1) * np.linalg.norm(way, axis=1) + 1e-12)))
    of = f"{sizes.seeds} Gaussian clouds"
    return [
        agreement.equal(f"leaders that are no corners of the hull, {of}", 0.0, float(stray), 0.0, "none"),
        agreement.equal(f"limit points that do not lead themselves, {of}", 0.0, float(restless), 0.0, "none"),
        agreement.equal(f"largest move of a leader, {of}", 0.0, moved, 1e-9, "rounding"),
        agreement.equal(
            f"share of tokens whose path bends, {of}", 0.0, float(np.mean(bent)), 0.0, "none", paper=False,
            counts=False, note=OTHER,
        ),
        agreement.equal(
            f"limit points that do not lead at the start, {of}", 0.0, float(later), 0.0, "none", paper=False,
            counts=False, note="a token can come to lead once it has moved",
        ),
    ]  # fmt: skip


def negative(sizes: Sizes) -> Measured:
    """Measure how tokens contract for A negative semidefinite."""
    from deeplimits.limits.tokens import tokens

    x = generator(32, "claims", "hardmax").standard_normal((sizes.tokens, 2))
    found = tokens("hardmax", x, 60, query_key=-FORM, step=ALPHA)
    widths = np.ptp(found.trajectory, axis=1).max(axis=1)
    seen = np.arange(10, 41)
    rate = float(np.polyfit(seen, np.log(widths[seen]), 1)[0])
    end, size = np.linalg.norm(found.trajectory[-1].mean(axis=0)), np.linalg.norm(x, axis=1).max()
    parts = [
        agreement.equal(
            "width of the cloud after 60 steps over its first, A negative semidefinite", 0.0,
            float(widths[-1] / widths[0]), 1e-8, "one cluster",
        ),
        agreement.equal("slope of log width per step", -log(1 + ALPHA), rate, 1e-6, "the step's own factor"),
        agreement.equal(
            "distance of the cluster from the origin over the cloud's radius", 0.0, float(end / size), 1e-6,
            "at the origin", paper=False, counts=False, note=FIRST,
        ),
    ]  # fmt: skip
    steps = np.arange(41.0)
    line = widths[10] / (1 + ALPHA) ** (steps - 10)
    curve = Curve("width; line: (1 + alpha)^−t", steps.tolist(), widths[:41].tolist(), None, line.tolist())
    return Measured(parts, [Panel("A negative: one cluster", "step", "width of the cloud", [curve], "linear", "log")])


def waiting(sizes: Sizes) -> Measured:
    """Measure three softmax clusters at 120 degrees: steps to get near, then the wait, then the collapse."""
    near = [_approach(beta) for beta in (20.0, 40.0, 80.0)]
    exits = [_exit(beta) for beta in sizes.waiting]
    lines = [_predicted_exit(beta) for beta in sizes.waiting]
    rise = (log(exits[-1]) - log(exits[-2])) / (sizes.waiting[-1] - sizes.waiting[-2])
    line = (log(lines[-1]) - log(lines[-2])) / (sizes.waiting[-1] - sizes.waiting[-2])
    expected = np.ceil(log(0.5 / NEAR) / log(1 + ALPHA))
    parts = [
        agreement.equal(
            f"steps of tokens half-way to within {NEAR} of their corner, beta 20, 40 and 80, largest", float(expected),
            float(max(steps for steps, _ in near)), 0.0, "the hardmax steps, whatever beta",
        ),
        agreement.equal(
            "their largest distance from it after 1000 steps, beta 20", 0.0, near[0][1], NEAR, "still near", paper=True,
        ),
        agreement.equal(
            "rise of log waiting time over beta: barrier 1.5, less 1/beta of the prefactor", line, rise, 0.02,
            "the scheme's step, of order alpha/(1 + alpha) of a wait of many steps", paper=False,
        ),
        agreement.equal(
            f"log of the waiting time over the predicted one, beta {sizes.waiting[-1]:g}", 0.0,
            log(exits[-1] / lines[-1]), 0.02, "likewise", paper=False,
        ),
        agreement.equal(
            "radius after twenty more waiting times, beta 4", 0.0, _radius(4.0, 20 * int(_exit(4.0))), 1e-3, "collapse",
        ),
    ]  # fmt: skip
    curve = Curve("steps until corners are left; line: integral", list(sizes.waiting), exits, [0.0] * len(exits), lines)
    return Measured(parts, [Panel("Waiting times", "inverse temperature β", "steps", [curve], "linear", "log")])


def _triangle() -> np.ndarray:
    turn = 2 * np.pi * np.arange(3) / 3
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _soft_step(x: np.ndarray, beta: float) -> np.ndarray:
    scores = beta * x @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return x + ALPHA / (1 + ALPHA) * (weights @ x / weights.sum(axis=1, keepdims=True) - x)


def _approach(beta: float) -> tuple[int, float]:
    """Return after how many steps tokens half-way to the corners are near them, and how far they are after 1000."""
    v = _triangle()
    x, reached = np.concatenate([v, v / 2]), 0
    for step in range(1, 1001):
        x = _soft_step(x, beta)
        if not reached and np.linalg.norm(x[3:] - v, axis=1).max() <= NEAR:
            reached = step
    return reached, float(np.linalg.norm(x - np.concatenate([v, v]), axis=1).max())


def _exit(beta: float) -> float:
    """Return after how many steps, in part by interpolation, the corners' radius is EXIT."""
    x, step, before = _triangle(), 0, 1.0
    while True:
        x, step = _soft_step(x, beta), step + 1
        after = float(np.linalg.norm(x, axis=1).max())
        if after <= EXIT:
            return step - (EXIT - after) / (before - after)
        before = after


def _radius(beta: float, steps: int) -> float:
    x = _triangle()
    for _ in range(steps):
        x = _soft_step(x, beta)
    return float(np.linalg.norm(x, axis=1).max())


def _predicted_exit(beta: float) -> float:
    """Return the integral of dr / speed from EXIT to 1, speed alpha/(1 + alpha) 3 r q/(1 + 2 q), q = e^(-3 b r^2/2)."""
    from scipy.integrate import quad

    slowness = lambda r: (exp(1.5 * beta * r**2) + 2) / (3 * r)
    return (1 + ALPHA) / ALPHA * quad(slowness, EXIT, 1.0, epsrel=1e-10)[0]


def chains(sizes: Sizes) -> Measured:
    """Measure the Markov chain in which each corner token draws one token and moves towards it: its first exit."""
    parts, means, lines = [], [], []
    for beta, count in sizes.chains:
        leave = 2 * exp(-1.5 * beta) / (1 + 2 * exp(-1.5 * beta))
        line = 1 / (1 - (1 - leave) ** 3)
        times = agreement.average(_first_exits(beta, count))
        means.append(times)
        lines.append(line)
        parts.append(
            agreement.near(
                f"steps of the Markov chain before a token leaves its corner, beta {beta:g}", line, times, 0.5 * line,
                networks=count, paper=False,
            )
        )  # fmt: skip
    betas = [beta for beta, _ in sizes.chains]
    curve = Curve("first exit; line: exact", betas, [m.value for m in means], [m.error for m in means], lines)
    return Measured(parts, [Panel("Markov chain", "inverse temperature β", "steps", [curve], "linear", "log")])


def _first_exits(beta: float, count: int) -> np.ndarray:
    """Return the steps at which a token of each of `count` chains first draws another corner, by drawing tokens."""
    random, v = generator(33, "claims", "chain", int(10 * beta)), _triangle()
    scores = np.exp(beta * v @ v.T)
    bounds = np.cumsum(scores / scores.sum(axis=1, keepdims=True), axis=1)
    times, alive, step = np.zeros(count), np.arange(count), 0
    while len(alive):
        step += 1
        drawn = (random.random((len(alive), 3, 1)) > bounds).sum(axis=2)
        out = (drawn != np.arange(3)).any(axis=1)
        times[alive[out]] = step
        alive = alive[~out]
    return times


def sphere(sizes: Sizes) -> Measured:
    """Measure when two clusters on the circle merge, beside the quadrature of their angle."""
    from deeplimits.limits.tokens import tokens
    from deeplimits.limits.tokens.equiangular import merge_time

    pair, parts, times, lines = np.array([[1.0, 0.0], [cos(1.5), sin(1.5)]]), [], [], []
    for beta in sizes.sphere:
        line = merge_time(beta, start=1.5)
        found = tokens("softmax", pair, (0.0, 2 * line), beta=beta, accuracy=1e-7).cluster_time()
        name = f"time for two clusters on the circle to merge, beta {beta:g}"
        parts.append(agreement.equal(name, line, found, 1e-5 * line, "1e-5 of itself", paper=False))
        times.append(found)
        lines.append(line)
    growth = Estimate(log(times[-1] / times[-2]) / (sizes.sphere[-1] - sizes.sphere[-2]), 0.0)
    barrier = "rise of the log of that time over beta, beyond 0.7 of its barrier 1 - cos"
    parts.append(agreement.above(barrier, 0.7 * (1 - cos(1.5)), growth, predicted=1 - cos(1.5), paper=False))
    curve = Curve("particles; line: quadrature", list(sizes.sphere), times, [0.0] * len(times), lines)
    return Measured(parts, [Panel("Clusters on the circle", "inverse temperature β", "time", [curve], "linear", "log")])


CLAIM = Claim(
    key="alcalde-2025-hardmax-frank-wolfe",
    statement=(
        "At temperature zero self-attention takes steps of Frank and Wolfe: corners stay and tokens go straight to the "
        "one of their Voronoi cell if A is positive semidefinite, all contract to one cluster if it is negative; "
        "finite temperatures follow for times exponential in beta."
    ),
    source="alcalde-2025-hardmax-frank-wolfe, abstract; geshkovski-2023-perspective (clusters on the circle)",
    headline=HEADLINE,
    steps=(
        Step("positive", positive, 1.0),
        Step("negative", negative, 0.2),
        Step("waiting", waiting, 3.0),
        Step("chains", chains, 2.0),
        Step("sphere", sphere, 1.0),
    ),
    full=Sizes(
        tokens=60, steps=60, seeds=20, waiting=(3.0, 4.0, 5.0, 6.0, 7.0, 8.0), sphere=(2.0, 6.0, 10.0, 14.0),
        chains=((2.0, 2000), (3.0, 2000), (4.0, 2000), (5.0, 2000)),
    ),
    reduced=Sizes(
        tokens=30, steps=60, seeds=3, waiting=(3.0, 4.0, 5.0), sphere=(6.0, 10.0), chains=((2.0, 300), (3.0, 300)),
    ),
)  # fmt: skip
