"""Model-agnostic meta-learning at infinite width: the front and its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, NoLimit
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of
from deeplimits.limits.training.one_hidden import start as starts
from deeplimits.limits.training.one_hidden.adaptation import Adaptation, Tasks, answers
from deeplimits.limits.training.one_hidden.loss import loss_named
from deeplimits.limits.training.one_hidden.record import standard_error
from deeplimits.limits.training.one_hidden.start import Neurons
from deeplimits.limits.training.one_hidden.task import EXPLODED, positive, size_of, small_enough, span_of
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

Array = NDArray[np.float64]
WHERE = "maml"
SMALLER = "use fewer tasks, steps, inner steps or networks"
NAMES = ("X_support", "y_support", "X_query", "y_query")


@dataclass(frozen=True, eq=False)
class Maml:
    """Meta-learning, step by step; T = steps + 1 times, K tasks, Q queries each, R networks (one at infinite width).

    Attributes:
        runs: outputs at the queries after adaptation to the support, shape (R, T, K, Q, C).
        losses: mean over tasks of the query loss after adaptation, what is minimised, shape (R, T).
        unadapted: the same before adaptation, shape (R, T).
        test_runs, test_losses, test_unadapted: likewise of tasks that are not trained on; no tasks: empty, and NaN.
        neurons: the meta-learned start; its U reads inputs as `basis`^T x / sqrt(d).
        basis: orthonormal directions that all inputs span, shape (d, r).
        width: infinity, or neurons.
        first_order: whether second derivatives were dropped.
        text: what was solved, how, and in how much memory.
    """

    runs: Array
    losses: Array
    unadapted: Array
    test_runs: Array
    test_losses: Array
    test_unadapted: Array
    neurons: Neurons
    basis: Array
    width: float
    first_order: bool
    text: str

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of outer steps taken, 0 .. steps."""
        return np.arange(self.losses.shape[1])

    @property
    def outputs(self) -> Array:
        """Mean outputs at the queries after adaptation, (T, K, Q, C)."""
        return self.runs.mean(axis=0)

    @property
    def loss(self) -> Array:
        """Mean query loss after adaptation, (T,)."""
        return self.losses.mean(axis=0)

    @property
    def loss_error(self) -> Array:
        """Standard error of `loss` over networks: zeros at infinite width, NaN of a single network."""
        return standard_error(self.losses, self.width == inf)

    def describe(self) -> str:
        """Say what was solved, how, and in how much memory."""
        return self.text

    def __repr__(self) -> str:
        width = "infinite" if self.width == inf else f"{self.width:.0f}"
        return f"Maml(width {width}, {len(self.times) - 1} steps, {self.runs.shape[2]} tasks)"


def maml(
    tasks: Sequence[Any],
    inner_rate: float,
    rate: float,
    steps: int,
    *,
    inner_steps: int = 1,
    first_order: bool = False,
    loss: str = "square",
    width: float = inf,
    networks: int | None = None,
    seed: int = 0,
    test_tasks: Sequence[Any] | None = None,
) -> Maml:
    """Return meta-learning of a linear network of one hidden layer under muP, exact at infinite width.

    f(x) = sum over neurons of v (u . x / sqrt(d)) / n, standard normal at first. Each task is learned from there by
    gradient descent on its support, of rate inner_rate n; the start moves down the gradient, of rate `rate` n, of the
    mean over tasks of the loss at the queries, through the inner steps, second derivatives included.

    Args:
        tasks: of each (X_support (P, d), y_support (P,) or (P, C), X_query (Q, d), y_query), all of one shape.
        inner_rate: learning rate within a task.
        rate: learning rate of the start.
        steps: of the start.
        inner_steps: within a task.
        first_order: drop the second derivatives (first-order MAML).
        loss: "square", "logistic" or "softmax", summed over the queries.
        width: infinity, or neurons.
        networks: at a finite width, how many.
        seed: of finite networks.
        test_tasks: tasks that are adapted to but not learned from, in the same form.

    Memory: about 8 networks ((K + 1) (r + C)^2 (inner_steps + 5) + 2 steps K Q C) bytes, r <= d.

    Valid when: width to infinity at any fixed numbers of steps. Gradients keep [U, V] in the span of its start, so that
    r + C neurons are infinitely many; entrywise optimisers do not.

    Raises:
        InputError: tasks or options that cannot be used.
        NoLimit: training diverges; the error's `record` holds the steps before.
        MemoryNeeded: the record or the networks are too large.

    Source: yang-hu-2020-tp4; finn-2017-maml.

    Example:
        >>> x = np.eye(2)
        >>> tasks = [(x, s * x[:, 0], x, s * x[:, 0]) for s in (-1.0, 1.0)]       # which sign?
        >>> found = maml(tasks, inner_rate=0.5, rate=0.2, steps=60)
        >>> found.unadapted[0, -1].round(3), found.loss[[0, -1]].round(3)
        (np.float64(0.5), array([0.125, 0.   ]))
    """
    width, count = size_of(WHERE, width, networks)
    adaptation = Adaptation(
        loss_named(WHERE, loss), positive(WHERE, "inner_rate", inner_rate), whole(WHERE, "inner_steps", inner_steps),
        _flag(first_order),
    )  # fmt: skip
    rate, steps = positive(WHERE, "rate", rate), whole(WHERE, "steps", steps)
    generator(seed, "checked")
    given, test, basis = _tasks(adaptation, tasks, test_tasks)
    sizes = basis.shape[1], given.support_targets.shape[-1]
    neurons = sum(sizes)
    several = len(given.query) + (0 if test is None else len(test.query))
    state = (several + 1) * neurons * sum(sizes) * (inner_steps + 5)
    needed = 8 * count * (state + 2 * (steps + 1) * several * given.query_targets[0].size)
    check_memory(WHERE, needed, f"{several} tasks over {steps} steps and {count} networks", SMALLER)
    start = starts.basis(*sizes) if width == inf else starts.linear_drawn(int(width), *sizes, count, seed)
    text = (
        f"MAML, {'first' if first_order else 'second'} order: {steps} steps on {len(given.query)} tasks, {inner_steps} "
        f"inner; {'infinite width, exact' if width == inf else f'{count} networks of width {width}'}; {needed:,} bytes"
    )
    return _learn(adaptation, start, (given, test), rate, steps, (basis, width, text))


def _flag(first_order: Any) -> bool:
    if not isinstance(first_order, bool | np.bool_):
        raise InputError(WHERE, f"first_order={first_order!r} is not True or False", "give one of the two")
    return bool(first_order)


def _learn(
    adaptation: Adaptation, start: Neurons, both: tuple[Tasks, Tasks | None], rate: float, steps: int, about: Any
) -> Maml:
    tasks, test = both
    now, found, most = start, [], 0.0
    with np.errstate(over="ignore", invalid="ignore"), Bar(steps + 1, description="meta-learning") as bar:
        for time in range(steps + 1):
            path = adaptation.adapt(now, tasks)
            seen = _scores(adaptation, path, tasks)
            unseen = _nothing(seen) if test is None else _scores(adaptation, adaptation.adapt(now, test), test)
            zero = adaptation.loss.value(np.zeros_like(tasks.query_targets), tasks.query_targets).mean()
            most = max(most, float(zero), float(seen[2].max()))
            if not np.all(seen[1] <= EXPLODED * most):
                raise _diverged(time, found, now, adaptation, about)
            found.append((*seen, *unseen))
            bar.reach(time + 1)
            if time < steps:
                dU, dV = adaptation.gradient(path, tasks)
                now = Neurons(now.U - rate * dU, now.V - rate * dV, now.weight)
    return _record(found, now, adaptation, about)


def _scores(adaptation: Adaptation, path: list[Neurons], tasks: Tasks) -> tuple[Array, Array, Array]:
    """Return outputs at the queries after adaptation, their loss, and the loss before adaptation."""
    after, before = answers(path[-1], tasks.query), answers(path[0], tasks.query)
    losses = (adaptation.loss.value(f, tasks.query_targets).mean(axis=1) for f in (after, before))
    return after, *losses


def _nothing(seen: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    none = np.full(len(seen[0]), np.nan)
    return seen[0][:, :0], none, none


def _record(found: list[Any], neurons: Neurons, adaptation: Adaptation, about: Any) -> Maml:
    runs, losses, before, test_runs, test_losses, test_before = (
        np.stack(column, axis=1) for column in zip(*found, strict=True)
    )
    basis, width, text = about
    return Maml(
        runs, losses, before, test_runs, test_losses, test_before, neurons, basis, width, adaptation.first_order, text
    )


def _diverged(time: int, found: list[Any], now: Neurons, adaptation: Adaptation, about: Any) -> NoLimit:
    why = f"training diverges at step {time}: the loss after adaptation is a million times that of zero outputs"
    kept = "; this error's `record` holds the steps before" if found else ""
    refusal = NoLimit(WHERE, why, f"use a smaller rate or inner_rate{kept}")
    refusal.record = _record(found, now, adaptation, about) if found else None  # type: ignore[attr-defined]
    return refusal


def _tasks(adaptation: Adaptation, tasks: Any, test_tasks: Any) -> tuple[Tasks, Tasks | None, Array]:
    """Return the tasks in the coordinates of their span, and its basis."""
    given = _stacked(adaptation, "tasks", tasks)
    test = None if test_tasks is None else _stacked(adaptation, "test_tasks", test_tasks)
    if test is not None and any(a.shape[1:] != b.shape[1:] for a, b in zip(given, test, strict=True)):
        shapes = [tuple(a.shape[1:]) for a in test]
        raise InputError(WHERE, f"test_tasks have other shapes than tasks: {shapes}", "give them the same shapes")
    sets = [given] if test is None else [given, test]
    inputs = [arrays[place] for arrays in sets for place in (0, 2)]
    d = inputs[0].shape[-1]
    basis, _ = span_of(*(x.reshape(-1, d) for x in inputs))
    ready = [Tasks(a[0] @ basis / d**0.5, a[1], a[2] @ basis / d**0.5, a[3]) for a in sets]
    return ready[0], (None if test is None else ready[1]), basis


def _stacked(adaptation: Adaptation, name: str, tasks: Any) -> list[Array]:
    """Return the four parts of every task, stacked: (K, P, d), (K, P, C), (K, Q, d), (K, Q, C)."""
    fix = f"give a list of ({', '.join(NAMES)})"
    if not isinstance(tasks, Sequence) or isinstance(tasks, str) or not len(tasks):
        raise InputError(WHERE, f"{name} is not a list of tasks: {tasks!r:.60}", fix)
    read = []
    for number, task in enumerate(tasks):
        if not isinstance(task, Sequence) or len(task) != len(NAMES):
            raise InputError(WHERE, f"{name}[{number}] is not four arrays: {task!r:.60}", fix)
        read.append(_four(adaptation, f"{WHERE}, {name}[{number}]", task))
        for part, array, first in zip(NAMES, read[-1], read[0], strict=True):
            if array.shape != first.shape:
                why = f"{part} of {name}[{number}] has shape {array.shape} and that of {name}[0] {first.shape}"
                raise InputError(WHERE, why, "give all tasks the same shapes")
    return [np.stack(part) for part in zip(*read, strict=True)]


def _four(adaptation: Adaptation, where: str, task: Any) -> list[Array]:
    parts = []
    for place in (0, 2):
        X = rows_of(where, NAMES[place], task[place])
        y = targets_of(where, task[place + 1], len(X)).reshape(len(X), -1)
        adaptation.loss.check(where, y)
        small_enough(where, **{NAMES[place]: X, NAMES[place + 1]: y})
        parts += [X, y]
    for place, against in ((2, 0), (3, 1)):
        if parts[place].shape[1] != parts[against].shape[1]:
            counts = parts[place].shape[1], parts[against].shape[1]
            why = f"{NAMES[place]} has {counts[0]} columns and {NAMES[against]} {counts[1]}"
            raise InputError(where, why, "give both the same columns")
    return parts
