"""Samples of the state, block of samples by block of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from deeplimits.errors import InputError
from deeplimits.limits.diffusion.setting import BLOCK, Noise, Setting
from deeplimits.limits.diffusion.setting import diffusion as question
from deeplimits.limits.diffusion.task import WHERE, Task

Array = NDArray[np.float64]


@dataclass
class Run:
    """What a simulation gave: Gram matrices at the end and along the way, and the states where they were asked for.

    Shapes: gram (samples, k, k), path (T, samples, k, k), state (samples, k, features), states (T, samples, k, n).
    """

    gram: Array
    path: Array
    state: Array | None = None
    states: Array | None = None


def simulate(task: Task, steps: int, coarse: bool = False) -> Run:
    """Return all samples, with `steps` steps in a block repeated to infinite depth.

    Args:
        task: what is asked.
        steps: at infinite depth; at a finite one the blocks are the steps.
        coarse: take half the steps, on the same Brownian paths.

    Raises:
        InputError: the state overflows.
    """
    k = len(task.X)
    run = Run(np.empty((task.samples, k, k)), np.full((len(task.times), task.samples, k, k), np.nan))
    taken = steps // 2 if coarse else steps
    marks = np.round(task.times * taken)
    for block, start in enumerate(range(0, task.samples, BLOCK)):
        rows = slice(start, min(start + BLOCK, task.samples))
        noise = Noise(task.seed, block, rows.stop - rows.start)

        def watch(fraction: float, x: Tensor, rows: slice = rows) -> None:
            now = marks == round(fraction * taken)
            if now.any():
                run.path[now, rows] = _gram(x)
                if task.states:
                    run.states = _room(run.states, (len(marks), task.samples), x)
                    run.states[now, rows] = x.numpy()

        at = Setting(task.width, task.depth, noise, noise.normals("layer"), steps, coarse, watch)
        x = question(task.body, task.X.expand(rows.stop - rows.start, -1, -1), at)
        run.gram[rows] = _gram(x)
        if not np.isfinite(run.gram[rows]).all():
            why = f"the state overflows at depth {task.depth:g}"
            raise InputError(WHERE, why, "use smaller weight_std or branch scales, or smaller inputs")
        if task.states:
            run.state = _room(run.state, (task.samples,), x)
            run.state[rows] = x.numpy()
    return run


def _gram(x: Tensor) -> Array:
    return (x @ x.mT / x.shape[-1]).numpy()


def _room(held: Array | None, shape: tuple[int, ...], x: Tensor) -> Array:
    """Return the array that holds states like x, made where there is none yet."""
    return np.full((*shape, *x.shape[1:]), np.nan) if held is None else held
