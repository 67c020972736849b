"""What training of one hidden layer is asked, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of
from deeplimits.limits.training.one_hidden.loss import Loss, loss_named
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator

Array = NDArray[np.float64]
EXPLODED = 1e6
"""A loss this many times that of zero outputs counts as diverged."""
SMALLER = "use fewer inputs, steps, samples or networks, or kept=0, which keeps no kernels"


def positive(where: str, name: str, value: Any) -> float:
    """Return a positive finite number.

    Raises:
        InputError: anything else.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < inf:
        raise InputError(where, f"{name}={value!r} is not a positive number", f"give e.g. {name}=0.1")
    return float(value)


def choice(where: str, name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return one of the known words.

    Raises:
        InputError: another.
    """
    if not isinstance(value, str) or value not in known:
        raise InputError(where, f"{name}={value!r} is not known", f"use one of {', '.join(known)}")
    return value


def small_enough(where: str, **arrays: Array) -> None:
    """Refuse arrays whose sum of squares is beyond float64.

    Raises:
        InputError: names the array and its largest entry.
    """
    for name, values in arrays.items():
        largest = float(np.abs(values).max(initial=0.0))
        if largest > 1e150 / max(values.size, 1):
            why = f"{name} has an entry of size {largest:.3g}: squares of it are beyond float64"
            raise InputError(where, why, "scale it, e.g. X / X.std()")


def size_of(where: str, width: Any, networks: Any) -> tuple[float, int]:
    """Return the width, and how many networks of it; at infinite width there is one.

    Raises:
        InputError: not such numbers, or networks at infinite width.
    """
    width = whole(where, "width", width, infinite=True)
    if networks is not None and width == inf:
        why = f"networks={networks!r} has no effect at infinite width, where all are the same"
        raise InputError(where, why, "leave networks out, or give a finite width")
    return width, 1 if networks is None else whole(where, "networks", networks)


def span_of(*rows: Array) -> tuple[Array, list[Array]]:
    """Return an orthonormal basis (d, r) of what rows span, and the rows in its coordinates, each (N, r)."""
    _, strengths, directions = np.linalg.svd(np.concatenate(rows), full_matrices=False)
    least = strengths.max(initial=0.0) * max(sum(len(x) for x in rows), rows[0].shape[1]) * np.finfo(np.float64).eps
    found = directions[strengths > least].T
    return found, [x @ found for x in rows]


@dataclass(frozen=True, eq=False)
class Task:
    """Arguments in their final form: inputs X (P, r) and X_test (M, r) in the basis (d, r), over sqrt(d); y (P, C)."""

    X: Array
    X_test: Array
    basis: Array
    y: Array
    loss: Loss
    rate: float
    steps: int
    momentum: float
    gamma: float
    batches: NDArray[np.int64] | None
    kept: NDArray[np.int64]
    several: bool

    def needed(self, runs: int, neurons: int) -> int:
        """Return the bytes that a run of networks needs, its record included."""
        inputs, (rows, count) = len(self.X) + len(self.X_test), self.y.shape
        record = (self.steps + 1) * (inputs * count + 1) + 3 * len(self.kept) * (rows**2 + (rows * count) ** 2)
        record += 3 * rows**2  # the kernel at the start, for the largest stable rate
        state = neurons * (8 * (self.X.shape[1] + count) + 6 * inputs + rows * count * bool(len(self.kept)))
        return 8 * runs * (record + state)


def prepare(
    where: str, X: Any, y: Any, X_test: Any, loss: Any, rate: Any, steps: Any, momentum: Any, gamma: Any,
    batch: Any, kept: Any, seed: Any,
) -> Task:  # fmt: skip
    """Return the checked arguments."""
    rows = rows_of(where, "X", X)
    test = np.empty((0, rows.shape[1])) if X_test is None else rows_of(where, "X_test", X_test)
    if test.shape[1] != rows.shape[1]:
        why = f"X has {rows.shape[1]} columns and X_test has {test.shape[1]}"
        raise InputError(where, why, "give both the same columns")
    given = targets_of(where, y, len(rows))
    targets, found = given.reshape(len(rows), -1), loss_named(where, loss)
    found.check(where, targets)
    small_enough(where, X=rows, X_test=test, y=targets)
    rate, gamma, steps = positive(where, "rate", rate), _gamma(where, gamma), whole(where, "steps", steps)
    _momentum(where, momentum)
    kept = whole(where, "kept", kept, minimum=0)
    generator(seed, "checked")
    batches = None if batch is None else _batches(where, batch, len(rows), steps, seed)
    times = np.unique(np.linspace(0, steps, min(kept, steps + 1)).round().astype(np.int64))
    check_memory(where, 8 * (len(rows) + len(test)) * rows.shape[1] * 3, "the span of the inputs", SMALLER)
    basis, (inner, outer) = span_of(rows, test)
    root = rows.shape[1] ** 0.5
    return Task(
        inner / root, outer / root, basis, targets, found, rate, steps, float(momentum), gamma, batches, times,
        given.ndim == 2,
    )  # fmt: skip


def _momentum(where: str, momentum: Any) -> None:
    if not isinstance(momentum, Real) or isinstance(momentum, bool) or not 0 <= float(momentum) < 1:
        raise InputError(where, f"momentum={momentum!r} is not in [0, 1)", "give e.g. momentum=0.9")


def _gamma(where: str, gamma: Any) -> float:
    if isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 <= float(gamma) < 1e-8:
        why = f"gamma={gamma!r}: no feature moves, to rounding"
        raise InputError(where, why, "ask for the lazy limit, dl.gradient_flow(net, X, y, X_test, rule='gd')")
    return positive(where, "gamma", gamma)


def _batches(where: str, batch: Any, rows: int, steps: int, seed: Any) -> NDArray[np.int64]:
    """Return the rows of every step, (steps, batch): passes over all rows in orders drawn from the seed."""
    size = whole(where, "batch", batch)
    if size > rows:
        raise InputError(where, f"batch={size} exceeds the {rows} rows of X", "give a smaller batch")
    check_memory(where, 8 * (steps * size + rows), "the order of the rows", SMALLER)
    random, passes = generator(seed, "order"), -(-steps * size // rows)
    order = np.concatenate([random.permutation(rows) for _ in range(passes)])
    return order[: steps * size].reshape(steps, size)
