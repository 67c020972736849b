"""Gradient descent of one hidden layer: one code for a basis, particles and networks of finite width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.one_hidden import network
from deeplimits.limits.training.one_hidden.course import Course, Diverged
from deeplimits.limits.training.one_hidden.start import Neurons
from deeplimits.limits.training.one_hidden.task import EXPLODED, Task
from deeplimits.numerics.gaussian import Family, Linear

Array = NDArray[np.float64]


def descend(task: Task, start: Neurons, phi: Family, report: Callable[[int], None]) -> Course:
    """Return training from a start: v <- momentum v - rate gradient, theta <- theta + v, theta = (U, V).

    Raises:
        Diverged: a loss is not finite, or a million times that of zero outputs or of the start.
    """
    U, V, factor = start.U.copy(), start.V.copy(), start.weight / task.gamma
    course = _empty(task, len(U), start)
    speed_u, speed_v = np.zeros_like(U), np.zeros_like(V)
    most = task.loss.value(np.zeros_like(task.y), task.y)
    with np.errstate(over="ignore", invalid="ignore"):
        for time in range(task.steps + 1):
            h = task.X @ U.swapaxes(-1, -2)
            hidden = phi.function(h)
            course.outputs[:, time] = network.outputs(hidden, V, factor)
            test = phi.function(task.X_test @ U.swapaxes(-1, -2))
            course.test_outputs[:, time] = network.outputs(test, V, factor)
            course.losses[:, time] = task.loss.value(course.outputs[:, time], task.y)
            most = np.maximum(most, course.losses[:, 0])
            if not np.all(course.losses[:, time] <= EXPLODED * most):
                raise Diverged(time, course.cut(time))
            _keep(task, course, time, h, hidden, V, phi)
            report(time)
            if time == task.steps:
                break
            rows = slice(None) if task.batches is None else task.batches[time]
            chi = task.loss.slope(course.outputs[:, time, rows], task.y[rows])
            slopes = None if isinstance(phi, Linear) else phi.derivative(h[:, rows])
            change = network.gradient(hidden[:, rows], slopes, V, task.X[rows], chi)
            speed_u = task.momentum * speed_u - task.rate * task.gamma * change[0]
            speed_v = task.momentum * speed_v - task.rate * task.gamma * change[1]
            U, V = U + speed_u, V + speed_v
    return replace(course, neurons=Neurons(U, V, start.weight))


def _empty(task: Task, runs: int, start: Neurons) -> Course:
    rows, count = task.y.shape
    times, kept = task.steps + 1, len(task.kept)
    return Course(
        np.empty((runs, times, rows, count)), np.empty((runs, times, len(task.X_test), count)),
        np.empty((runs, times)), task.kept, np.empty((runs, kept, rows, rows)),
        np.empty((runs, kept, rows * count, rows * count)), start,
    )  # fmt: skip


def _keep(task: Task, course: Course, time: int, h: Array, hidden: Array, V: Array, phi: Family) -> None:
    """Keep Phi = <phi(h) phi(h)> and G = <g g>, g = phi'(h) V, where the time is one of those kept."""
    place = int(np.searchsorted(task.kept, time))
    if place == len(task.kept) or task.kept[place] != time:
        return
    weight = course.neurons.weight
    g = np.einsum("rpn,rnc->rpcn", phi.derivative(h), V).reshape(len(h), -1, V.shape[1])
    course.features[:, place] = weight * hidden @ hidden.swapaxes(-1, -2)
    course.gradients[:, place] = weight * g @ g.swapaxes(-1, -2)
