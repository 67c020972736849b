"""What the estimators of networks have in common: the network's hyperparameters are parameters of the estimator."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from deeplimits.architecture.layer import Layer
from deeplimits.errors import InputError
from deeplimits.inference import evidence, inputs
from deeplimits.inference.prior import Prior, network
from deeplimits.numerics.arrays import check_memory

PREFIX = "net__"


class NetworkEstimator(BaseEstimator):
    """An estimator with a network of infinite width inside.

    `get_params` lists the network's hyperparameters as `net__<path>`, and `set_params` sets them, so that a grid search
    reaches them.
    """

    net: Any
    depth: Any
    optimize: Any
    _inputs: ClassVar[Any] = inputs  # how rows and targets are read
    _default: ClassVar[Layer | None] = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, the network's hyperparameters among them."""
        return merged(super().get_params(deep=deep), self.net, deep, self._default)

    def set_params(self, **params: Any) -> NetworkEstimator:
        """Set parameters; `net__<path>` sets a hyperparameter of the network.

        Raises:
            DescriptionError: a path that the network does not have (the nearest are offered).
        """
        inner = {name.removeprefix(PREFIX): value for name, value in params.items() if name.startswith(PREFIX)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(PREFIX)})
        if inner:
            self.net = network(self.net, self._default).replace(inner)
        return self

    def _prior(self) -> Prior:
        return Prior(network(self.net, self._default), self.depth)

    def _highest(self, where: str, objective: evidence.Objective, start: Mapping[str, float]) -> evidence.Maximum:
        return evidence.maximise(where, objective, start, forgiving=self.optimize == "all")


def merged(found: dict[str, Any], net: Any, deep: bool, default: Layer | None = None) -> dict[str, Any]:
    """Return parameters, with `deep` together with the hyperparameters of the network.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> merged({}, Mlp("erf"), True)["net__weight_std"]
        1.0
    """
    if not deep or not (net is None or isinstance(net, Layer)):
        return found
    return found | {PREFIX + path: value for path, value in network(net, default).hyperparameters().items()}


def check_noise(where: str, noise: Any) -> float:
    """Return a noise variance as a float.

    Raises:
        InputError: not a finite number of at least zero.
    """
    if isinstance(noise, bool) or not isinstance(noise, Real) or not isfinite(noise) or float(noise) < 0:
        fix = "give a variance on the scale of y, e.g. noise=1e-2"
        raise InputError(where, f"noise={noise!r} is not a variance", fix)
    return float(noise)


def check_fit(where: str, rows: int, matrices: int, fix: str) -> None:
    """Refuse a fit whose matrices do not fit in memory.

    Args:
        where: named in the error.
        rows: number N of training rows.
        matrices: number of N x N matrices held at once.
        fix: ways out besides fewer rows.
    """
    held = "a matrix" if matrices == 1 else f"{matrices} matrices"
    ways = f"fit on fewer rows, {fix}, or use a machine with more memory"
    check_memory(where, 8 * rows * rows * matrices, f"{held} of {rows} x {rows} in float64", ways)


def normal(covariance: np.ndarray, count: int, random_state: Any) -> np.ndarray:
    """Draw from N(0, covariance), shape (M, count); the covariance may be singular.

    Example:
        >>> normal(np.zeros((2, 2)), 3, 0).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    from sklearn.utils import check_random_state

    values, vectors = np.linalg.eigh(covariance)
    white = check_random_state(random_state).standard_normal((len(covariance), count))
    return vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * white)
