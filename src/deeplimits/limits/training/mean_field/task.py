"""What a mean-field march is asked, checked before any work, and what a march answers to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from deeplimits.architecture.compose import depends_on_depth
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.numerics.arrays import check, is_tensor
from deeplimits.numerics.seeds import generator

WHERE = "mean_field"
MARCHES = 8
SAMPLES = 8000
SMALLEST_GAMMA = 1e-8
EXPLODED = 1e6
"""A loss this many times the first one counts as diverged."""

Report = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Task:
    """The arguments of `mean_field` in their final form; X (P, d), y (P, C) and X_test (M, d) in float64."""

    net: Layer
    depth: float
    X: Array
    y: Array
    X_test: Array
    gamma: float
    rate: float
    steps: int
    samples: int
    seed: int
    solver: str

    @property
    def particles(self) -> int:
        """Particles a layer in one march: an even number, pairs whose gradient noise differs in sign."""
        return self.samples // MARCHES

    @property
    def marches(self) -> int:
        """Independent marches."""
        return 1 if self.solver == "exact" else MARCHES


class Diverged(Exception):
    """Raised by a march whose outputs explode: the time, and the course before it."""

    def __init__(self, time: int, course: Course):
        self.time, self.course = time, course
        super().__init__(time)


def exploded(outputs: Array, y: Array) -> bool:
    """Say whether outputs, (P, C), are no longer finite, or their loss is a million times that of zero outputs."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = float(((outputs - y) ** 2).sum())
    return not loss <= EXPLODED * float((y**2).sum())


def prepare(
    net: Any, X: Any, y: Any, rule: Any, depth: Any, gamma: Any, steps: Any, rate: Any, samples: Any, seed: Any,
    X_test: Any,
) -> tuple[Task, bool]:  # fmt: skip
    """Return the checked arguments, with the solver still open, and whether y has an axis for outputs."""
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.Mlp('tanh')"
        raise DescriptionError(WHERE, f"{type(net).__name__} is not a network description", fix)
    if rule != "mup":
        fix = "use rule='mup'; training in the NTK parametrization is dl.gradient_flow"
        raise InputError(WHERE, f"rule={rule!r} has no limit in which features move", fix)
    if depth is None:
        if depends_on_depth(net):
            raise InputError(WHERE, "the network leaves DEPTH open", "pass depth=2")
        depth = 1
    depth = whole(WHERE, "depth", depth, infinite=True)
    inputs = check(WHERE, X, X_test)
    x, test = (np.empty((0, inputs.features)) if v is None else np.asarray(v, np.float64) for v in inputs.numpy())
    targets, several = _targets(y, len(x))
    gamma, rate = _gamma(gamma), _positive("rate", rate)
    steps = whole(WHERE, "steps", steps)
    generator(seed, "checked")
    count = SAMPLES if samples is None else whole(WHERE, "samples", samples)
    if count % (2 * MARCHES):
        why = f"samples={count} do not split into {MARCHES} marches of pairs"
        raise InputError(WHERE, why, f"give a multiple of {2 * MARCHES}, e.g. samples={SAMPLES}")
    return Task(net, depth, x, targets, test, gamma, rate, steps, count, int(seed), ""), several


def _targets(y: Any, rows: int) -> tuple[Array, bool]:
    """Return y as float64, shape (P, C), and whether it had an axis for outputs."""
    try:
        values = np.asarray(y.detach().cpu() if is_tensor(y) else y)
        if values.dtype.kind not in "fiub":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(WHERE, f"y is not an array of numbers: {y!r:.60}", "give one number an input") from None
    if values.ndim not in (1, 2) or len(values) != rows or 0 in values.shape:
        fix = f"give shape ({rows},), or ({rows}, C) for C outputs"
        raise InputError(WHERE, f"y has shape {values.shape} for {rows} rows of X", fix)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InputError(WHERE, f"y has {values[place]} at row {place[0]}", "drop or impute that row")
    return values.reshape(rows, -1), values.ndim == 2


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < inf:
        raise InputError(WHERE, f"{name}={value!r} is not a positive number", f"give e.g. {name}=0.1")
    return float(value)


def _gamma(gamma: Any) -> float:
    if isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 <= float(gamma) < SMALLEST_GAMMA:
        why = f"gamma={gamma!r}: no feature moves{'' if gamma == 0 else ' that rounding does not hide'}"
        fix = "ask for the lazy limit, dl.gradient_flow(net, X, y, X_test, depth=..., rule='gd')"
        raise InputError(WHERE, why, fix)
    return _positive("gamma", gamma)
