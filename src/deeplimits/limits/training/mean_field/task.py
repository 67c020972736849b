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
from deeplimits.errors import InputError, PrecisionError
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of, trainable
from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.numerics.seeds import generator

WHERE = "mean_field"
MARCHES = 8
SAMPLES = 8000
LEAST = 1600
SMALLEST_GAMMA = 1e-8
ROUNDING = 1e-10
EXPLODED = 1e6
"""A loss this many times that of outputs zero, and of errors of one, counts as diverged."""

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
    """Say whether outputs, (P, C), are not finite, or their loss is a million times that of outputs 0 or errors 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = float(((outputs - y) ** 2).sum())
    return not loss <= EXPLODED * max(float((y**2).sum()), y.size)


def prepare(
    net: Any, X: Any, y: Any, rule: Any, depth: Any, gamma: Any, steps: Any, rate: Any, samples: Any, seed: Any,
    X_test: Any,
) -> tuple[Task, bool]:  # fmt: skip
    """Return the checked arguments, with the solver still open, and whether y has an axis for outputs."""
    if rule != "mup":
        fix = "use rule='mup'; training in the NTK parametrization is dl.gradient_flow"
        raise InputError(WHERE, f"rule={rule!r} has no limit in which features move", fix)
    trainable(WHERE, net)
    if depth is None:
        if depends_on_depth(net):
            raise InputError(WHERE, "the network leaves DEPTH open", "pass depth=2")
        depth = 1
    depth = whole(WHERE, "depth", depth, infinite=True)
    x = rows_of(WHERE, "X", X)
    test = np.empty((0, x.shape[1])) if X_test is None else rows_of(WHERE, "X_test", X_test)
    if test.shape[1] != x.shape[1]:
        why = f"X_test has {test.shape[1]} features and X has {x.shape[1]}"
        raise InputError(WHERE, why, "give both the same columns")
    try:
        targets = targets_of(WHERE, y, len(x))
    except PrecisionError as error:
        raise PrecisionError(WHERE, error.why, "divide the targets by their size") from None
    columns = targets.reshape(len(x), -1)
    trainable(WHERE, net, columns.shape[1])
    gamma, rate = _gamma(gamma), _positive("rate", rate)
    _sizes(gamma, columns)
    steps = whole(WHERE, "steps", steps)
    generator(seed, "checked")
    count = SAMPLES if samples is None else whole(WHERE, "samples", samples)
    if count % (2 * MARCHES) or count < LEAST:
        why = f"samples={count} do not split into {MARCHES} marches of at least {LEAST // (2 * MARCHES)} pairs"
        raise InputError(WHERE, why, f"give a multiple of {2 * MARCHES} from {LEAST} on, e.g. samples={SAMPLES}")
    return Task(net, depth, x, columns, test, gamma, rate, steps, count, int(seed), ""), targets.ndim == 2


def _positive(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < inf:
        raise InputError(WHERE, f"{name}={value!r} is not a positive number", f"give e.g. {name}=0.1")
    return float(value)


def _sizes(gamma: float, y: Array) -> None:
    """Refuse targets that drown in rounding: gamma f is a mean of numbers of size one."""
    size = float(np.abs(y).max())
    if 0 < gamma * size < ROUNDING:
        why = f"y reaches only {size:.3g}, and gamma f, computed to about 1e-16, has to reach {gamma * size:.3g}"
        raise PrecisionError(WHERE, why, "scale the targets up, or use dl.gradient_flow, which is linear in them")


def _gamma(gamma: Any) -> float:
    if isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 <= float(gamma) < SMALLEST_GAMMA:
        why = f"gamma={gamma!r}: no feature moves{'' if gamma == 0 else ' that rounding does not hide'}"
        fix = "ask for the lazy limit, dl.gradient_flow(net, X, y, X_test, depth=..., rule='gd')"
        raise InputError(WHERE, why, fix)
    return _positive("gamma", gamma)
