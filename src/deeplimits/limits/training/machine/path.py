"""Outputs of infinitely wide networks that train with weight decay, step by step, for the two places of that decay."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, PrecisionError, nearest
from deeplimits.limits.kernel.ask import kernel
from deeplimits.limits.training.lazy.inputs import rows_of, targets_of, trainable
from deeplimits.limits.training.machine.ask import positive
from deeplimits.limits.training.machine.loss import CLASSES, loss_of

Array = NDArray[np.float64]
WHERE = "decay_path"
START, READOUT = TOWARDS = ("start", "readout")


@dataclass(frozen=True, eq=False)
class DecayPath:
    """Outputs of one infinitely wide network in training.

    Attributes:
        steps: kept, shape (T,).
        time: rate * steps.
        outputs: at the points, shape (T, M).
        train_outputs: at the training rows, shape (T, P).
        hidden_share: what is left of the hidden layers' part of the kernel, shape (T,).
    """

    steps: Array
    time: Array
    outputs: Array
    train_outputs: Array
    hidden_share: Array


def decay_path(
    net: Layer,
    X: Any,
    y: Any,
    X_test: Any = None,
    depth: float | None = None,
    loss: str = "hinge",
    decay: float = 1.0,
    towards: str = "start",
    rate: float = 0.01,
    steps: Any = 1000,
    epsilon: float = 0.1,
) -> DecayPath:
    """Return how outputs move under (sub)gradient descent on sum l(f, y) + (decay/2) penalty, from f = 0.

    f(x) <- f(x) - rate (decay f(x) + sum_i l'(f_i, y_i) Theta_t(x, x_i))

    towards="start": the penalty is |weights - weights at the start|^2 and Theta_t the NTK throughout: the fixed point
    is the kernel machine of the NTK, C = 1/decay.

    towards="readout": the penalty is |readout|^2 alone, towards zero. The readout of the start fades as
    (1 - rate decay)^t, and with its square the hidden layers' part of the NTK:
    Theta_t = K + (1 - rate decay)^(2 t) (Theta - K). While decay * time is small that is the NTK; the fixed point is
    the kernel machine of the NNGP kernel K.

    Args:
        net: the description; it ends in a Dense readout.
        X: training inputs, shape (P, d).
        y: shape (P,); -1 and 1 for "hinge", "squared_hinge" and "logistic".
        X_test: points, shape (M, d); the training rows by default.
        depth: what DEPTH stands for.
        loss: as in `kernel_machine`.
        decay: of the weights, in NTK parametrization.
        towards: "start" or "readout".
        rate: of the descent.
        steps: at which outputs are kept, one or a rising list.
        epsilon: as in `kernel_machine`.

    Valid when: networks whose output at the start is 0, such as differences of two alike; small rates. Losses with
        kinks leave a jitter of the order of the rate.

    Raises:
        InputError: data, steps or numbers that cannot be used.
        DescriptionError: a network without a readout, an unknown loss or place of the decay.
        PrecisionError: outputs that diverge: the rate is too large.

    Source: chen-2021-nn-svm; the fading of the hidden layers is derived.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> path = decay_path(Mlp("relu"), np.eye(2), [1, -1], depth=1, decay=0.5, rate=0.05, steps=[0, 100])
        >>> path.outputs.shape, bool(path.outputs[1, 0] > 0), path.hidden_share.tolist()
        ((2, 2), True, [1.0, 1.0])
    """
    if towards not in TOWARDS:
        raise DescriptionError(WHERE, f"towards={towards!r}", nearest(str(towards), TOWARDS))
    chosen = loss_of(WHERE, loss, epsilon)
    pace, fading = positive(WHERE, "rate", rate), positive(WHERE, "decay", decay)
    if not pace * fading < 1:
        raise InputError(WHERE, f"rate * decay = {pace * fading:g} is not below 1", "lower the rate")
    rows = rows_of(WHERE, "X", X)
    targets, kept = targets_of(WHERE, y, len(rows)), _steps(steps)
    if targets.ndim == 2 or (loss in CLASSES and (np.abs(targets) != 1).any()):
        why = f"y of shape {targets.shape} is not one {'-1 or 1' if loss in CLASSES else 'number'} a row"
        raise InputError(WHERE, why, "give one output at a time; encode two classes as -1 and 1")
    trainable(WHERE, net, 1)
    points = rows if X_test is None else rows_of(WHERE, "X_test", X_test)
    if points.shape[1] != rows.shape[1]:
        why = f"X_test has {points.shape[1]} features and X has {rows.shape[1]}"
        raise InputError(WHERE, why, "give both the same columns")
    every = rows if X_test is None else np.concatenate([rows, points])
    found = kernel(net, every, rows, depth=depth, dtype="float64")
    hidden = found.ntk - found.nngp if towards == READOUT else None
    outputs, keep = np.zeros(len(every)), {}
    for step in range(int(kept[-1]) + 1):
        if step in kept:
            keep[step] = outputs
        slopes = chosen.slope(outputs[: len(rows)], targets)
        push = found.ntk @ slopes
        if hidden is not None:
            push -= (1 - (1 - pace * fading) ** (2 * step)) * (hidden @ slopes)
        outputs = outputs - pace * (fading * outputs + push)
    kept_outputs = np.stack([keep[int(step)] for step in kept])
    if not np.isfinite(kept_outputs).all():
        raise PrecisionError(WHERE, f"outputs diverge at rate={pace:g}", "lower the rate")
    shares = (1 - pace * fading) ** (2 * kept) if towards == READOUT else np.ones(len(kept))
    test = kept_outputs if X_test is None else kept_outputs[:, len(rows) :]
    return DecayPath(kept, pace * kept, test, kept_outputs[:, : len(rows)], shares)


def _steps(steps: Any) -> Array:
    values = [steps] if np.ndim(steps) == 0 else list(steps)
    kept = [0 if type(step) is int and step == 0 else whole(WHERE, "steps", step) for step in values]
    if not kept or any(after <= before for before, after in pairwise(kept)):
        raise InputError(WHERE, f"steps={steps!r} is not a rising list", "give e.g. steps=[100, 1000]")
    return np.array(kept, dtype=float)
