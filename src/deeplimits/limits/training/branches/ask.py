"""The front of the mean ODE: a network, data and a learning rate in, a record of training out."""

from __future__ import annotations

import warnings
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from deeplimits.architecture.branches import MeanResNet
from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.training.branches.depth import Blocks, RungeKutta, Scheme
from deeplimits.limits.training.branches.record import MeanODE
from deeplimits.limits.training.branches.solve import WHERE, Run, Task, averaged, solve, steepest
from deeplimits.limits.training.mean_field.jacobian import kinked
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.embedded import embedded
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

RUNS, UNITS, CELLS = 4, 4096, 8
CLOSE = 0.02
"""Share of the largest target that half the steps along the depth may move the outputs by without a warning."""


def mean_ode(
    net: MeanResNet,
    X: Any,
    y: Any,
    *,
    depth: float = inf,
    steps: int,
    rate: float,
    X_test: Any = None,
    embedding: Any = None,
    unembedding: Any = None,
    units: int = UNITS,
    seed: int = 0,
) -> MeanODE:
    """Return training by gradient descent at infinite depth, the same for every inner width M: the mean ODE.

    With units theta = (u, v) at every layer time s in [0, 1], which start independent and Gaussian, and p = df/dh,

    dh/ds = scale E[v phi(u . h / sqrt(D))],   dp/ds = -scale E[(v . p) phi'(u . h / sqrt(D)) u] / sqrt(D),
    theta(s) <- theta(s) + rate/scale sum over inputs (y - f) grad_theta (p(s) . v phi(u . h(s) / sqrt(D))),

    which networks of depth L and inner width M approach at 1/L + 1/sqrt(L M), M = 1 included: the depth averages where
    the width does not. At a finite depth the width is infinite, and the equations are the scheme of Euler with L steps;
    the two limits commute. At scale=inf units hardly move and add what is linear in their displacement, while states
    still move: the lazy limit.

    Args:
        net: the description.
        X: training inputs, (P, d).
        y: targets, (P,) or (P, C).
        depth: infinity, or a whole number (at infinite inner width).
        steps: of gradient descent on all inputs.
        rate: learning rate, in units of the Gram matrix: stable at first below 2 / its largest eigenvalue.
        X_test: inputs that are not trained on, (M, d).
        embedding: (d, D); None for states that start as the inputs.
        unembedding: (D, C), of a fixed readout; None draws entries N(0, 1/D), always the same ones.
        units: at each node, in 4 runs with independent units; standard errors come from these.
        seed: of all units.

    Valid when: D fixed, Gaussian units, full batches. Kinked activations have no scale=inf here.

    Raises:
        InputError: data or options that cannot be used; a rate that is unstable at the start, with the largest stable
            one.
        NoLimit: training diverges.
        MemoryNeeded: too many units.

    Source: chizat-2025-hidden-width.

    Example:
        >>> found = mean_ode(MeanResNet("tanh"), np.eye(2), [1.0, -1.0], steps=20, rate=0.5, units=256)
        >>> bool(found.loss[-1] < found.loss[0]), found.depth
        (True, inf)
    """
    task = _task(net, X, y, X_test, embedding, unembedding, steps, rate, units, seed)
    depth = whole(WHERE, "depth", depth, infinite=True)
    scheme: Scheme = RungeKutta(CELLS) if depth == inf else Blocks(int(depth))
    P, r = len(task.problem.states) + len(task.problem.tests), task.basis().shape[1]
    needed = 8 * (
        2 * scheme.nodes * task.units * (r + 2 * P) + RUNS * (task.steps + 1) * (P * task.problem.targets.shape[1]) ** 2
    )
    check_memory(WHERE, needed, f"{task.units} units at {scheme.nodes} nodes", "use fewer units, inputs or steps")
    _stable(task)
    plan = [scheme] * RUNS + ([RungeKutta(CELLS // 2)] if depth == inf else [])
    runs: list[Run] = []
    with Bar(len(plan) * (task.steps + 1), description="mean ODE") as bar:
        for number, walk in enumerate(plan):

            def report(time: int, before: int = number * (task.steps + 1)) -> None:
                bar.reach(before + time + 1)

            runs.append(solve(task, walk, number % RUNS, report))
    return _record(task, depth, scheme, runs)


def _task(
    net: Any,
    X: Any,
    y: Any,
    X_test: Any,
    embedding: Any,
    unembedding: Any,
    steps: Any,
    rate: Any,
    units: Any,
    seed: Any,
) -> Task:
    if not isinstance(net, MeanResNet):
        fix = "give dl.training.MeanResNet('tanh'); of dl.ResNet at infinite width, dl.mean_field answers"
        raise DescriptionError(WHERE, f"{type(net).__name__} is not a MeanResNet", fix)
    if net.lazy and kinked(family(net.activation)):
        why = f"{type(net.activation).__name__} has a kink, and scale=inf needs second derivatives"
        raise DescriptionError(WHERE, why, "use a large finite scale, or a smooth activation")
    if net.readout == "trained" and unembedding is not None:
        raise InputError(WHERE, "unembedding has no effect: the readout is trained", "leave it out")
    problem = embedded(WHERE, X, y, X_test, embedding, unembedding)
    if not isinstance(rate, Real) or isinstance(rate, bool) or not 0 < float(rate) < inf:
        raise InputError(WHERE, f"rate={rate!r} is not a positive number", "give e.g. rate=0.1")
    generator(seed, "checked")
    count = whole(WHERE, "units", units)
    if count % (2 * RUNS):
        why = f"units={count} do not split into {RUNS} runs of pairs"
        raise InputError(WHERE, why, f"give a multiple of {2 * RUNS}, e.g. units={UNITS}")
    return Task(net, problem, whole(WHERE, "steps", steps), float(rate), count // RUNS, int(seed))


def _stable(task: Task) -> None:
    """Refuse a rate whose first steps would grow."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = steepest(task)
    if not largest < inf:
        raise InputError(WHERE, "the Gram matrix at the start is beyond float64", "scale X down")
    most = 2 / max(largest, np.finfo(np.float64).tiny)
    if task.rate > most:
        why = f"rate={task.rate:g} is past stability: at the start, errors along one direction grow at every step"
        raise InputError(WHERE, why, f"give a rate below {most:.4g} = 2 / (largest eigenvalue of the Gram matrix)")


def _record(task: Task, depth: float, scheme: Scheme, runs: list[Run]) -> MeanODE:
    mean, error = averaged(runs[:RUNS])
    moved = float(np.abs(runs[-1].outputs - runs[0].outputs).max()) if depth == inf else 0.0
    place = f"infinite depth, {CELLS} steps of order 4, half as many move the outputs by {moved:.1e}"
    if depth != inf:
        place = f"depth {depth} at infinite inner width"
    scale = "infinite scale (lazy)" if task.net.lazy else f"scale {task.net.scale:g}"
    text = (
        f"mean ODE, {place}; {scale}, rate {task.rate:g}, {task.steps} steps; {RUNS * task.units} units in {RUNS} runs"
    )
    if moved > CLOSE * max(float(np.abs(task.problem.targets).max()), np.finfo(np.float64).tiny):
        warnings.warn(f"{text}: more than {CLOSE:g} of the targets", AccuracyWarning, stacklevel=3)
    ends = np.linspace(0, 1, scheme.nodes) if depth == inf else np.arange(scheme.nodes) / scheme.nodes
    return MeanODE(
        task.net, depth, task.rate, mean, error, task.problem.targets, np.append(ends, 1.0), moved, RUNS * task.units,
        task.seed, text, task.problem.several,
    )  # fmt: skip
