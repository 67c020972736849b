"""The front of the mean-field question: a network, data and a learning rate in, a record of training out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf, nan
from os import PathLike
from typing import Any, Protocol

import numpy as np

from deeplimits.architecture.compose import depends_on_depth
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.zoo import ResNet
from deeplimits.errors import AccuracyWarning, InputError, NoLimit
from deeplimits.limits.kernel.ask import kernel
from deeplimits.limits.training.mean_field.record import Array, Course, MeanField, averaged
from deeplimits.limits.training.mean_field.store import Store
from deeplimits.limits.training.mean_field.task import WHERE, Diverged, Report, Task, prepare
from deeplimits.numerics.arrays import check_memory
from deeplimits.progress import Bar

CLOSE = 0.02
"""Share of the largest target that half the depths may move the outputs by without a warning."""
SOLVERS = ("stein", "jacobian", "exact")
SMALLER = "use fewer inputs or steps (memory grows with their product), fewer samples, or fewer layers"


class Family(Protocol):
    """What the module of a family of networks answers; perceptron.py and residual.py are two."""

    def solvers(self, task: Task) -> tuple[str, ...]:
        """Return the solvers that can answer, the default first; refuse by name what none can."""
        ...

    def needed(self, task: Task) -> int:
        """Return the bytes that one march needs, its course included."""
        ...

    def march(self, task: Task, number: int, report: Report) -> Course:
        """Return one march, its noise named by (task.seed, number); call report(t) after every time.

        Raises:
            Diverged: `exploded(outputs, y)` at some time; carries the course before it.
        """
        ...


def mean_field(
    net: Layer,
    X: Any,
    y: Any,
    rule: str = "mup",
    *,
    depth: float | None = None,
    gamma: float = 1.0,
    steps: int,
    rate: float,
    samples: int | None = None,
    seed: int = 0,
    solver: str | None = None,
    X_test: Any = None,
    store: str | PathLike[str] | None = None,
) -> MeanField:
    """Return training by gradient descent at infinite width with features that move, exact in discrete time.

    The output of a network of width n in the NTK parametrization is divided by gamma sqrt(n), and every parameter
    moves by rate gamma^2 n times the gradient of L = sum (f - y)^2 / 2 (mean-field scaling, or muP). As n grows f, the
    kernels of features and of gradients at any two times, and their responses become deterministic, and every neuron
    moves alone in their field.

    Args:
        net: the description.
        X: training inputs, shape (P, d); numpy or torch.
        y: targets, shape (P,), or (P, C) for C outputs.
        rule: "mup".
        depth: what DEPTH stands for.
        gamma: strength of feature learning; as gamma goes to 0 training is lazy, dl.gradient_flow's.
        steps: of gradient descent on all inputs; a longer run begins as a shorter one does.
        rate: learning rate, in the units of dl.gradient_flow: at most 2 / (largest eigenvalue of the NTK), and stable
            for good while that holds of `record.sharpness`, which grows with the features.
        samples: particles a layer, by default 8000, in 8 independent marches, from which the standard errors come. A
            march is biased by order 1/(its particles); at the default that is below the standard error.
        seed: of all particles.
        solver: "stein" (responses by Gaussian integration by parts), "jacobian" (by derivatives along each path: slow,
            an oracle), or "exact" (no sampling; linear networks). None takes the exact one where there is one.
        X_test: inputs to predict at, which are not trained on, shape (M, d).
        store: a folder in which finished marches are kept; the same question, asked again, goes on from there.

    Memory: for perceptrons with one output about 8 layers P steps (samples / 3 + 50 P steps) bytes; where it does not
    fit, the question is refused before any work.

    Valid when: Gaussian weights, all of them trained, full batches; width to infinity first, at any fixed steps.

    Raises:
        InputError: data or options that cannot be used; a rate that is unstable at the start, with the largest stable
            one; gamma 0.
        NoLimit: training diverges; the error's `record` holds the steps before.
        NoRule: a network without a march.
        MemoryNeeded: P * steps is too large.

    Source: bordelon-pehlevan-2022; bordelon-2023-depthwise-transfer (residual networks). The march in discrete time,
        its responses by Gaussian integration by parts, biases, several outputs and test inputs are derived here.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> found = mean_field(Mlp("identity"), np.eye(2), [1.0, -1.0], depth=2, gamma=1.0, steps=40, rate=0.2)
        >>> found.solver, found.outputs[-1].round(4)
        ('exact', array([ 1., -1.]))
    """
    task, several = prepare(net, X, y, rule, depth, gamma, steps, rate, samples, seed, X_test)
    family = _family(net)
    task = replace(task, solver=_solver(family, task, solver, samples))
    needed = family.needed(task)
    check_memory(WHERE, needed, f"a march of {len(task.X)} inputs over {task.steps} steps", SMALLER)
    _stable(task)
    try:
        marches = _marches(family, task, Store(store, task), f"mean field, {needed / 2**20:,.0f} MiB")
        record = _record(task, marches, several, needed)
    except Diverged as error:
        raise _diverged(task, error, several, needed) from None
    if record.depth_error > CLOSE * max(float(np.abs(task.y).max()), np.finfo(np.float64).tiny):
        warnings.warn(f"{WHERE}: {record.text}, more than {CLOSE:g} of the targets", AccuracyWarning, stacklevel=2)
    return record


def _marches(family: Family, task: Task, store: Store, name: str) -> Iterator[Course]:
    """Yield all marches, those of the store as they stand there."""
    times = task.steps + 1
    with Bar(task.marches * times, description=name) as bar:
        for number in range(task.marches):
            course = store.get(number)
            if course is None:
                course = family.march(task, number, lambda t, before=number * times: bar.reach(before + t + 1))
                store.put(number, course)
            bar.reach((number + 1) * times)
            yield course


def _family(net: Layer) -> Family:
    if isinstance(net, ResNet):
        from deeplimits.limits.training.mean_field import residual

        return residual
    from deeplimits.limits.training.mean_field import perceptron

    return perceptron


def _solver(family: Family, task: Task, solver: Any, samples: Any) -> str:
    known = family.solvers(task)
    chosen = known[0] if solver is None else solver
    if chosen not in SOLVERS:
        raise InputError(WHERE, f"solver={solver!r} is not a solver", f"use one of {', '.join(SOLVERS)}")
    if chosen not in known:
        raise InputError(WHERE, f"solver={solver!r} cannot answer for this network", f"use {' or '.join(known)}")
    if chosen == "exact" and samples is not None:
        raise InputError(WHERE, f"samples={samples} has no effect: nothing is sampled", "leave samples out")
    return chosen


def _stable(task: Task) -> None:
    """Refuse a rate whose first steps would grow: those of the lazy limit with the NTK at initialisation."""
    ntk = np.asarray(kernel(task.net, task.X, depth=task.depth, get="ntk"))
    most = 2 / max(float(np.linalg.eigvalsh(ntk)[-1]), np.finfo(np.float64).tiny)
    if task.rate > most:
        why = f"rate={task.rate:g} is past stability: at the start, errors along one direction grow at every step"
        raise InputError(WHERE, why, f"give a rate below {most:.4g} = 2 / (largest eigenvalue of the NTK)")


def _diverged(task: Task, error: Diverged, several: bool, needed: int) -> NoLimit:
    why = f"training diverges at step {error.time}: the loss is more than a million times that of zero outputs"
    fix = f"use a rate below {task.rate:g}, or a smaller gamma; this error's `record` holds the steps before"
    refusal = NoLimit(WHERE, why, fix)
    refusal.record = None if error.time == 0 else _record(task, [error.course.cut(error.time)], several, needed)  # type: ignore[attr-defined]
    return refusal


def _loss(task: Task, outputs: Array) -> tuple[Array, Array]:
    """Return the loss of the mean outputs at every time, and its standard error over marches."""
    apart, count = outputs.mean(0) - task.y, len(outputs)
    slopes = ((outputs - outputs.mean(0)) * apart).sum((2, 3))
    scale = 1 / (count * (count - 1)) if count > 1 else 0.0 if task.solver == "exact" else nan
    error: Array = np.sqrt((slopes**2).sum(0) * scale)
    return (apart**2).sum((1, 2)) / 2, error


def _record(task: Task, courses: Iterable[Course], several: bool, needed: int) -> MeanField:
    exact = task.solver == "exact"
    mean, error, outputs = averaged(courses, sampled=not exact)
    how = "closed matrices, nothing sampled" if exact else f"{task.samples} particles a layer in {len(outputs)} marches"
    depth = task.depth if depends_on_depth(task.net) else len(mean.features)
    text = (
        f"training at infinite width, depth {depth:g}, gamma {task.gamma:g}, rate {task.rate:g}: "
        f"{len(mean.outputs) - 1} steps on {len(task.X)} inputs; solver {task.solver}, {how}; {needed:,} bytes"
    )
    if task.depth == inf:
        moved = float(np.abs(mean.outputs - mean.coarser_outputs).max())
        text += f"; extrapolated in 1/depth: half the depths move the outputs by {moved:.1e}"
    loss, loss_error = _loss(task, outputs)
    record = MeanField(
        mean, error, loss, loss_error, task.y, depth, task.gamma, task.rate, task.solver,
        0 if exact else task.samples, len(outputs), task.seed, text, several,
    )  # fmt: skip
    return replace(record, text=text + _edge(record))


def _edge(record: MeanField) -> str:
    """Say from which step on the steps overshoot, where they do."""
    past = np.flatnonzero(record.rate * record.sharpness > 2)
    if not len(past):
        return ""
    most = float((record.rate * record.sharpness).max())
    return (
        f"; from step {past[0]} on, rate times the kernel's largest eigenvalue passes 2 (at most {most:.3g}): unstable"
    )


__all__ = ["Family", "mean_field"]
