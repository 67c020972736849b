"""The front of the question of lazy training: rows and targets in, the law of trained networks out."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, PrecisionError, nearest
from deeplimits.limits.kernel.ask import kernel, variances
from deeplimits.limits.training.lazy.dynamics import Dynamics
from deeplimits.limits.training.lazy.ensemble import MATRICES, Ensemble, decomposed
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of, trainable
from deeplimits.limits.training.lazy.rate import refuse_unstable
from deeplimits.limits.training.lazy.record import GradientFlow
from deeplimits.numerics.arrays import check_memory

Array = NDArray[np.float64]
WHERE = "gradient_flow"
ALL, READOUT = TRAIN = ("all", "readout")
DIAGONAL, FULL = COVARIANCE = ("diagonal", "full")
BLOCK_BYTES = 200_000_000  # of one block of rows of a kernel between points and training rows


def gradient_flow(
    net: Layer,
    X: Any,
    y: Any,
    X_test: Any = None,
    depth: float | None = None,
    time: Any = inf,
    rule: str = "flow",
    train: str = "all",
    rate: float | None = None,
    momentum: float | None = None,
    ridge: float = 0.0,
    covariance: str = "diagonal",
) -> GradientFlow:
    """Return the law of infinitely wide networks at any time of their training on squared errors.

    Features stand still (NTK parametrization), and outputs f, N(0, K) at the start, obey df/dt = -Theta_.X (f_X - y):
    mean A_t y and covariance K_** + A_t K A_t^T - A_t K_X* - K_*X A_t^T with A_t = Theta_*X Theta^-1 (1 - E_t). One
    symmetric eigendecomposition gives every time.

    Loss and time: L = (1/2) sum (f - y)^2, a sum over rows and outputs. For a mean over P rows divide rates and flow
    times by P before they come in here. rule="flow" counts rate * steps, for small rates; "gd" and "momentum" count
    steps and are exact for any rate.

    Args:
        net: the description; it ends in a Dense readout.
        X: training inputs, shape (P, d); numpy or torch.
        y: targets, shape (P,) or (P, C).
        X_test: points at which the law is wanted, shape (M, d); the training rows by default.
        depth: what DEPTH stands for: a whole number or infinity.
        time: one or a list; infinity is the end of training.
        rule: "flow", "gd", or "momentum" (heavy ball: v <- momentum v - rate gradient, weights <- weights + v).
        train: "all" layers, or the "readout" alone, which moves by K in place of the NTK.
        rate: of "gd" and "momentum".
        momentum: of "momentum", in [0, 1).
        ridge: of (ridge/2) |weights - weights at the start|^2, added to the loss.
        covariance: "diagonal" (variances) or "full" (matrices as well).

    Memory: 5 P^2 numbers on the way, 2 P^2 kept; the law at T times takes T M (C + 1), the full covariance T M^2 more.

    Valid when: widths go to infinity first; as for `dl.kernel`. At width n errors are of order 1/sqrt(n), in averages
    over networks 1/n.

    Raises:
        InputError: data, times or numbers that cannot be used; a rate that diverges (the largest stable one is named);
            a singular kernel at infinite time (the rows are named).
        DescriptionError: a network without a readout; a rule, or an option that has no effect.
        MemoryNeeded: the kernels do not fit.

    Source: jacot-2018-ntk; lee-2019-wide, section 2.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> X, y = np.eye(3), np.array([1.0, 2.0, -1.0])
        >>> flow = gradient_flow(Mlp("relu"), X, y, depth=2, time=[0.0, 1.0, inf])
        >>> flow.mean.shape, flow.mean[-1].round(6).tolist(), flow.loss.round(3).tolist()
        ((3, 3), [1.0, 2.0, -1.0], [3.5, 0.589, 0.0])
    """
    task = _prepare(net, X, y, X_test, depth, time, train, Dynamics(rule, rate, momentum, ridge), covariance)
    law = _law(task)
    parts = [_at(task, law, part) for part in _parts(task)]
    means, spreads = (np.concatenate(found, axis=1) for found in zip(*parts, strict=True))
    matrices = spreads if task.full else None
    if matrices is not None:
        spreads = np.diagonal(matrices, axis1=1, axis2=2)
    train_means = np.stack([law.train_mean(float(t)) for t in task.time.ravel()])
    if not (np.isfinite(means).all() and np.isfinite(spreads).all()):
        raise PrecisionError(WHERE, "outputs leave the range of float64", "scale the targets and the inputs to about 1")
    shape, column = task.time.shape, (Ellipsis, 0) if task.flat else Ellipsis
    return GradientFlow(
        time=task.time,
        rows=task.X,
        points=task.points,
        mean=means.reshape(*shape, *means.shape[1:])[column],
        variance=np.maximum(spreads, 0.0).reshape(*shape, -1),
        covariance=None if matrices is None else matrices.reshape(*shape, *matrices.shape[1:]),
        train_mean=train_means.reshape(*shape, *train_means.shape[1:])[column],
        train=train,
        depth=depth,
        law=law,
        text=_text(task),
    )


@dataclass(frozen=True)
class _Task:
    net: Layer
    depth: float | None
    X: Array
    y: Array
    flat: bool
    test: Array | None
    time: Array
    dynamics: Dynamics
    readout: bool
    full: bool

    @property
    def points(self) -> Array:
        return self.X if self.test is None else self.test

    def kernels(self, X1: Array, X2: Array | None = None) -> tuple[Array, Array]:
        """Return K, and the kernel that moves the outputs, which may be the same array."""
        if self.readout:
            nngp = kernel(self.net, X1, X2, depth=self.depth, get="nngp")
            return nngp, nngp
        found = kernel(self.net, X1, X2, depth=self.depth)
        return found.nngp, found.ntk


def _prepare(
    net: Any, X: Any, y: Any, test: Any, depth: Any, time: Any, train: Any, dynamics: Dynamics, covariance: Any
) -> _Task:
    for name, value, known in (("train", train, TRAIN), ("covariance", covariance, COVARIANCE)):
        if value not in known:
            raise DescriptionError(WHERE, f"{name}={value!r}", nearest(str(value), known))
    rows = rows_of(WHERE, "X", X)
    targets = targets_of(WHERE, y, len(rows))
    trainable(WHERE, net, targets.reshape(len(rows), -1).shape[1])
    points = None if test is None else rows_of(WHERE, "X_test", test)
    if points is not None and points.shape[1] != rows.shape[1]:
        why = f"X_test has {points.shape[1]} features and X has {rows.shape[1]}"
        raise InputError(WHERE, why, "give both the same columns")
    times = dynamics.times(time)
    full = covariance == FULL
    count, places, columns = len(rows), len(rows if points is None else points), targets[0].size
    needed = 8 * (MATRICES * count**2 + times.size * places * (columns + 1 + places * full))
    ways = "train on fewer rows, ask for fewer points or times, or leave covariance='diagonal'"
    check_memory(WHERE, needed, f"{count} rows and {places} points at {times.size} times", ways)
    flat = targets.ndim == 1
    return _Task(net, depth, rows, targets.reshape(count, -1), flat, points, times, dynamics, train == READOUT, full)


def _law(task: _Task) -> Ensemble:
    nngp, moving = task.kernels(task.X)
    start = None if task.readout else nngp
    lasts = not task.dynamics.ridge and bool((task.time == inf).any())
    modes = decomposed(WHERE, moving, task.X, lasts)
    refuse_unstable(task.dynamics, float(modes.values[-1]))
    return Ensemble(modes, start, task.y, task.dynamics)


def _parts(task: _Task) -> list[slice]:
    rows, held = len(task.points), 8 * len(task.X) * (2 if task.readout else 4)
    size = rows if task.full or task.test is None else max(1, BLOCK_BYTES // held)
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def _cross(task: _Task, law: Ensemble, part: slice) -> tuple[Array, Array]:
    """Return K_*X and Theta_*X V at some of the points."""
    if task.test is None:
        projected = law.modes.vectors * law.modes.values
        return (projected if law.start is None else law.start), projected
    nngp, moving = task.kernels(task.test[part], task.X)
    return nngp, law.project(moving)


def _at(task: _Task, law: Ensemble, part: slice) -> tuple[Array, Array]:
    """Return means (T, m, C), and variances (T, m) or covariances (T, m, m), at some of the points."""
    nngp, projected = _cross(task, law, part)
    points, times = task.points[part], [float(time) for time in task.time.ravel()]
    if task.full:
        start = kernel(task.net, points, depth=task.depth, get="nngp")
    else:
        start = variances(task.net, points, task.depth)
    means = [(projected * law.gain(time)) @ law.mode_targets for time in times]
    spreads = [start + law.added(projected, nngp, time, task.full) for time in times]
    found = np.stack(spreads)
    if task.full:
        places = np.arange(len(points))
        found[:, places, places] = np.maximum(found[:, places, places], 0.0)
    return np.stack(means), found


def _text(task: _Task) -> str:
    of = "infinite depth" if task.depth == inf else f"depth {1 if task.depth is None else task.depth:g}"
    what = "the readout alone" if task.readout else "every layer"
    rule = {"flow": "gradient flow", "gd": "gradient descent", "momentum": "a heavy ball"}[task.dynamics.rule]
    rate = "" if task.dynamics.rate is None else f" of rate {task.dynamics.rate:g}"
    momentum = "" if task.dynamics.momentum is None else f" and momentum {task.dynamics.momentum:g}"
    ridge = f", ridge {task.dynamics.ridge:g}" if task.dynamics.ridge else ""
    return f"infinite width, {of}, {what} trained by {rule}{rate}{momentum}{ridge} on {len(task.X)} rows"
