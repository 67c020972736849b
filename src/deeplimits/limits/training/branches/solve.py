"""Gradient descent on the mean ODE: one run with given units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from deeplimits.architecture.branches import MeanResNet
from deeplimits.errors import NoLimit
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.training.branches.depth import Scheme
from deeplimits.limits.training.branches.readout import Fixed, Mean, Readout
from deeplimits.limits.training.branches.units import Field, LazyUnits, Units, initial
from deeplimits.numerics.embedded import Array, Embedded

WHERE = "mean_ode"
EXPLODED = 1e6
"""A loss this many times the first one, or that of zero outputs, has diverged."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked: a network, a problem, and gradient descent on it."""

    net: MeanResNet
    problem: Embedded
    steps: int
    rate: float
    units: int
    seed: int

    def basis(self) -> Array:
        """Return an orthonormal basis (D, r) of the training states and the unembedding.

        Gaussian units are the same in every direction, and what is outside never moves them.
        """
        p = self.problem
        spanned = [p.states.T] if self.net.readout == "trained" else [p.states.T, p.out]
        vectors, values, _ = np.linalg.svd(np.concatenate(spanned, 1), full_matrices=False)
        kept = values > values.max(initial=0.0) * 1e-12
        return vectors[:, : max(int(kept.sum()), 1)]


@dataclass(frozen=True, eq=False)
class Run:
    """Numbers over time of one run: T = steps + 1 times, P inputs, C outputs, M test inputs.

    Attributes:
        outputs: (T, P, C).
        test_outputs: (T, M, C).
        gram: (T, P C, P C).
        states: at the nodes and the end, before and after training, (2, nodes + 1, P, D).
        moved: root mean square distance of the branches' units from their start, (T,).
    """

    outputs: Array
    test_outputs: Array
    gram: Array
    states: Array
    moved: Array


def averaged(runs: list[Run]) -> tuple[Run, Run]:
    """Return the mean over independent runs, and its standard error."""
    mean, error = {}, {}
    for name in (field.name for field in fields(Run)):
        values = np.stack([getattr(run, name) for run in runs])
        mean[name], error[name] = values.mean(0), values.std(0, ddof=1) / len(runs) ** 0.5
    return Run(**mean), Run(**error)


def solve(task: Task, scheme: Scheme, repeat: int, report: Callable[[int], None]) -> Run:
    """Return one run.

    At every step of gradient descent the states go up, the errors p = df/dh come down, and with q = sum over outputs of
    (y - f) p every unit at every node moves by rate / scale times the gradient of sum over inputs of q . v phi(u . h /
    sqrt(D)). The Gram matrix is minus df/dt over rate (f - y) at rate -> 0: integral over the depth of
    E[grad(p . v phi) . grad(p' . v phi)], and the readout's.

    Raises:
        NoLimit: training diverges.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _descended(task, scheme, repeat, report)


def _descended(task: Task, scheme: Scheme, repeat: int, report: Callable[[int], None]) -> Run:
    problem, P = task.problem, len(task.problem.states)
    Q = task.basis()
    field, readout = _units(task, Q, scheme.nodes, repeat)
    start = np.concatenate([problem.states, problem.tests]) @ Q
    T, C = task.steps + 1, problem.targets.shape[1]
    outputs, tests, gram = np.empty((T, P, C)), np.empty((T, len(start) - P, C)), np.empty((T, P * C, P * C))
    kept, moved = [], np.empty(T)
    for t in range(T):
        states = scheme.up(field, start)
        both = readout.outputs(states[-1])
        outputs[t], tests[t] = both[:P], both[P:]
        errors = problem.targets - outputs[t]
        _finite(task, t, outputs[t], outputs[0])
        end = states[-1, :P]
        looks = [field.look(node, states[node, :P]) for node in range(scheme.nodes)]
        seen = scheme.down(field, looks, readout.back(end))
        parts = (w * field.gram(n, looks[n], seen[n]) for n, w in enumerate(scheme.weights))
        gram[t] = readout.gram(end) + sum(parts)
        moved[t] = field.moved()
        if t in (0, task.steps):
            kept.append(states[:, :P] @ Q.T)
        if t < task.steps:
            for node, look in enumerate(looks):
                field.move(node, look, np.einsum("pc,pcr->pr", errors, seen[node]), task.rate)
            readout.move(end, errors, task.rate)
        report(t)
    return Run(outputs, tests, gram, np.stack(kept), moved)


def _units(task: Task, Q: Array, nodes: int, repeat: int) -> tuple[Field, Readout]:
    """Return the branches' units and the readout at the start: pairs (u, v), (u, -v), which add exactly nothing."""
    net, problem, (D, r) = task.net, task.problem, Q.shape
    beyond = problem.tests - problem.tests @ Q @ Q.T
    outside = np.concatenate([np.zeros(len(problem.states)), np.linalg.norm(beyond, axis=1)])
    root, phi = D**-0.5, family(net.activation)

    def pairs(columns: int, name: str) -> tuple[Array, Array, Array]:
        half = initial(task.units // 2, r + columns + 1, task.seed, repeat, name)
        u, v, aside = (np.concatenate([half[:, a:b]] * 2) for a, b in ((0, r), (r, r + columns), (-1, None)))
        v[len(half) :] *= -1
        return net.inner_std * u, net.outer_std * v, root * net.inner_std * outside[:, None] * aside.T

    u, v, aside = pairs(r, "branches")
    kind = LazyUnits if net.lazy else Units
    field = kind(phi, u, v, nodes, net.scale, root, aside)
    if net.readout == "fixed":
        return field, Fixed(Q.T @ problem.out)
    b, a, aside = pairs(problem.targets.shape[1], "readout")
    return field, Mean(phi, b, a, net.readout_scale, root, aside)


def _finite(task: Task, time: int, outputs: Array, first: Array) -> None:
    y = task.problem.targets
    with np.errstate(over="ignore", invalid="ignore"):
        loss, small = (float((apart**2).sum()) for apart in (outputs - y, first - y))
        small = max(small, float((y**2).sum()))
    if not loss <= EXPLODED * small:
        why = f"training diverges at step {time}: the loss goes from {small / 2:.1e} to {loss / 2:.1e}"
        raise NoLimit(WHERE, why, f"use a rate below {task.rate:g}")


def steepest(task: Task) -> float:
    """Return the largest eigenvalue of the Gram matrix before training, where states do not move along the depth."""
    Q = task.basis()
    field, readout = _units(task, Q, 1, 0)
    h = task.problem.states @ Q
    gram = field.gram(0, field.look(0, h), readout.back(h)) + readout.gram(h)
    return float(np.linalg.eigvalsh(gram)[-1]) if np.isfinite(gram).all() else np.inf
