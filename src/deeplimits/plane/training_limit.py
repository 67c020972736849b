"""What theory says of networks while they train, in the form that a comparison takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.finite.train import Descent
from deeplimits.plane.training_check import Limit

Array = NDArray[np.float64]


def lazy(
    net: Any, X: Array, y: Array, X_test: Array | None, depth: int, descent: Descent, times: tuple[int, ...]
) -> Limit:
    """Return mean and standard deviation of the ensemble: exact."""
    from deeplimits.limits.training.lazy.ask import gradient_flow

    points = X if X_test is None else np.concatenate([X, X_test])
    rule, momentum = ("momentum", descent.momentum) if descent.momentum else ("gd", None)
    found = gradient_flow(net, X, y, points, depth, list(times), rule, rate=descent.rate, momentum=momentum)
    mean = found.mean.reshape(len(times), -1)
    spread = np.repeat(np.sqrt(found.variance), y.shape[1], axis=1)
    return Limit(mean, np.zeros_like(mean), spread, np.zeros_like(mean), found.loss, found.describe())


def mean_field(
    net: Any, X: Array, y: Array, X_test: Array | None, depth: int, descent: Descent, times: tuple[int, ...], seed: int
) -> Limit:
    """Return the one function that all networks become, with the standard error of its sampling."""
    from deeplimits.limits.training.mean_field.ask import mean_field as solve

    found = solve(
        net,
        X,
        y,
        depth=depth,
        gamma=descent.gamma or 1.0,
        steps=descent.steps,
        rate=descent.rate,
        seed=seed,
        X_test=X_test,
    )
    at = list(times)
    mean, error = (
        np.concatenate([part.outputs[at], part.test_outputs[at]], axis=1).reshape(len(times), -1)
        for part in (found.course, found.standard_error)
    )
    return Limit(mean, error, np.zeros_like(mean), np.zeros_like(mean), found.loss[at], found.describe())
