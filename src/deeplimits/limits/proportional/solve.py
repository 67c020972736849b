"""Sampled paths of covariances: Euler-Maruyama steps, halved on the same Brownian paths until laws stand still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deeplimits.limits.proportional.collapse import Collapse
from deeplimits.limits.proportional.motion import Motion
from deeplimits.limits.proportional.record import correlations, log_norms
from deeplimits.numerics.quantiles import quantiles
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

Array = NDArray[np.float64]

FIRST_STEPS, MOST_STEPS = 64, 8192
SHARE = 1.0
EXPLODED = 1e12
CHECKED = (0.1, 0.25, 0.5, 0.75, 0.9)
ROUNDING, PARALLEL = 1e-9, 1e-12
LONG = 10**7
"""Entries of V over all paths and steps from which on a bar is shown: some seconds of work."""


@dataclass
class Paths:
    """Covariances at the times asked for, (T, S, m, m), the angles likewise or None, and what went wrong on the way."""

    path: Array
    angles: Array | None
    alive: NDArray[np.bool_]
    repaired: int
    steps: int


@dataclass(frozen=True)
class Course:
    """What is simulated: V(0), (m, m); times t = layer/n, (T,), rising; how many samples, with which seed."""

    start: Array
    times: Array
    samples: int
    seed: int

    def normals(self, steps: int, index: int, *shape: int) -> Array:
        """Return the normals of one step, (S, *shape): the first samples are the same whatever their number."""
        return generator(self.seed, "proportional", steps, index).standard_normal((self.samples, *shape))

    def bar(self, steps: int) -> Bar:
        """Return the progress bar of a run, shown where it takes long."""
        entries = steps * self.samples * self.start.size
        return Bar(steps, shown=entries > LONG, description=f"{self.samples} paths, {steps} steps")


def shaped(motion: Motion, course: Course, steps: int, halved: bool) -> list[Paths]:
    """Return the paths of an even number of steps and, where asked for, of half as many on the same Brownian paths."""
    walks = [_Walk(motion, course, steps // (1 + i)) for i in range(1 + halved)]
    shape = motion.shapes(len(course.start))
    before = None
    with course.bar(steps) as bar:
        for index in range(steps):
            normals = torch.from_numpy(course.normals(steps, index, *shape))
            walks[0].advance(normals)
            if halved:
                if before is not None:
                    walks[1].advance((before + normals) / sqrt(2))
                before = normals if before is None else None
            bar.reach(index + 1)
    return [walk.paths() for walk in walks]


class _Walk:
    """All samples at once, with the places where they are looked at."""

    def __init__(self, motion: Motion, course: Course, steps: int):
        self.motion, self.steps, self.done, self.repaired = motion, steps, 0, 0
        self.length = float(course.times[-1]) / steps
        self.V = torch.from_numpy(course.start.copy()).expand(course.samples, -1, -1)
        self.alive = torch.ones(course.samples, dtype=torch.bool)
        self.bound = EXPLODED * float(np.abs(course.start).max())
        self.marks = np.round(course.times / course.times[-1] * steps) if course.times[-1] else 0 * course.times
        self.path: Array = np.empty((len(course.times), *self.V.shape))
        self.look()

    def look(self) -> None:
        self.path[self.marks == self.done] = self.V.numpy()

    def advance(self, normals: Tensor) -> None:
        moved, repaired = self.motion.step(self.V, self.length, normals)
        if self.motion.attention:
            fine = (moved.diagonal(dim1=1, dim2=2) < self.bound).all(-1)  # false for NaN
            self.alive &= fine
            moved = torch.where(self.alive[:, None, None], moved, 0.0)
        self.V, self.done = moved, self.done + 1
        self.repaired += int((repaired & self.alive).sum())
        self.look()

    def paths(self) -> Paths:
        return Paths(self.path, None, self.alive.numpy(), self.repaired, self.steps)


def collapsed(collapse: Collapse, course: Course, steps: int, halved: bool) -> list[Paths]:
    """Return what `shaped` does for a perceptron whose angles close."""
    grid, places = collapse.grid(course.times, steps)
    walks = [_Closing(collapse, course, grid) for _ in range(1 + halved)]
    before: Array | None = None
    shape = collapse.normals(len(course.start))
    with course.bar(len(grid) - 1) as bar:
        for index in range(len(grid) - 1):
            moves = course.normals(steps, index, shape) * sqrt(grid[index + 1] - grid[index])
            walks[0].advance(index, index + 1, moves, places)
            if halved and before is not None:
                walks[1].advance(index - 1, index + 1, before + moves, places)
            before = moves if before is None else None
            bar.reach(index + 1)
    return [walk.paths((len(grid) - 1) // (1 + i)) for i, walk in enumerate(walks)]


class _Closing:
    """log V/V(0) and the angles of all samples, from their law shortly after time zero."""

    def __init__(self, collapse: Collapse, course: Course, grid: Array):
        self.collapse, self.grid, self.repaired = collapse, grid, 0
        norm = np.sqrt(np.diagonal(course.start))
        self.size = np.outer(norm, norm)
        mean, variance = collapse.log_moments(grid[0])
        self.logs = mean + sqrt(variance) * course.normals(0, 0)
        apart = correlations(course.start) < 1 - PARALLEL
        self.q = np.broadcast_to(np.where(apart, collapse.start, 0.0), (course.samples, *course.start.shape))
        self.path: Array = np.empty((len(course.times), *self.q.shape))
        self.angles = np.empty_like(self.path)
        self.look(course.times <= grid[0])
        self.path[course.times == 0] = self.size

    def look(self, now: NDArray[np.bool_]) -> None:
        if now.any():
            self.path[now] = self.size * np.exp(self.logs)[:, None, None]
            self.angles[now] = self.q

    def advance(self, first: int, last: int, moves: Array, places: NDArray[np.int64]) -> None:
        span = (float(self.grid[first]), float(self.grid[last]))
        self.logs, self.q, repaired = self.collapse.step(self.logs, self.q, span, moves)
        self.repaired += int(repaired.sum())
        self.look(places == last)

    def paths(self, steps: int) -> Paths:
        return Paths(self.path, self.angles, np.ones(self.path.shape[1], dtype=bool), self.repaired, steps)


Run = Callable[[int, bool], list[Paths]]


def converged(run: Run, steps: int | None) -> tuple[Paths, float]:
    """Return paths whose quantiles of rho and log V (or of the angles) no longer move, and how far they moved.

    The steps are halved until no quantile moves by more than its standard error.

    Args:
        run: (steps, halved) -> the paths and, where asked for, those of half as many steps.
        steps: their number, taken as it is; None looks for it.

    Returns:
        The paths, and the largest move in standard errors (NaN where `steps` was given).
    """
    if steps is not None:
        return run(steps, False)[0], float("nan")
    taken = FIRST_STEPS
    while True:
        fine, coarse = run(taken, True)
        moved = _moved(fine, coarse)
        if moved <= SHARE or 2 * taken > MOST_STEPS:
            return fine, moved
        further = 2 ** ceil(2 * log2(min(moved / SHARE, 4.0)))  # paths move as steps^(-1/2), quantiles at least as fast
        taken = min(taken * further, MOST_STEPS)


def _moved(fine: Paths, coarse: Paths) -> float:
    both = fine.alive & coarse.alive
    if both.sum() < 2:
        return 0.0
    (one, error), (other, _) = (quantiles(_statistics(paths, both), CHECKED) for paths in (fine, coarse))
    moved = np.abs(one - other)
    moved = np.where(moved > ROUNDING * (1 + np.abs(one)), moved, 0.0)
    return float(np.max(np.divide(moved, error, out=np.where(moved > 0, np.inf, 0.0), where=error > 0), initial=0.0))


def _statistics(paths: Paths, rows: NDArray[np.bool_]) -> Array:
    """Return what the steps are judged by, (S, numbers): log V_aa, rho_ab, or the logarithms of the angles."""
    V = paths.path[-1][rows]
    logs = log_norms(V)
    upper = np.triu_indices(V.shape[-1], 1)
    pairs = correlations(V) if paths.angles is None else np.log(np.maximum(paths.angles[-1][rows], 1e-300))
    return np.nan_to_num(np.concatenate([logs, pairs[:, *upper]], axis=1), neginf=0.0)
