"""Regression by the kernel machine of infinitely wide networks, as a scikit-learn estimator."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from deeplimits.architecture.layer import Layer
from deeplimits.inference.estimator import check_fit
from deeplimits.inference.kernel_machine import MATRICES, KernelMachine
from deeplimits.limits.training.machine.loss import EpsilonInsensitive, loss_of

LOSSES = ("epsilon_insensitive", "huber")


class NTKSVR(MultiOutputMixin, RegressorMixin, KernelMachine):
    """Regression by the machine that wide networks become when their weights decay towards their start.

    As `NTKSVC`, with losses of numbers; the squared loss is `NTKRegressor(noise=1/C)`. Outputs are independent.

    Args:
        net, depth, kernel, C, tol, max_iter: as in `NTKSVC`.
        loss: "epsilon_insensitive" max(0, |y - f| - epsilon), or "huber": (y - f)^2/2 up to |y - f| = epsilon,
            epsilon |y - f| - epsilon^2/2 beyond.
        epsilon: in units of y.

    Attributes:
        net_, weights_, support_, solutions_, converged_, gap_, n_iter_: as in `NTKSVC`.

    Valid when: as for `NTKSVC`. There is no bias: y should have mean near zero.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: chen-2021-nn-svm; hsieh-2008-dual-coordinate.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> X, y = np.eye(3), np.array([1.0, 0.0, -1.0])
        >>> NTKSVR(Mlp("relu"), depth=1, C=100.0, epsilon=0.1).fit(X, y).predict(X).round(6).tolist()
        [0.9, 0.0, -0.9]
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        kernel: str = "ntk",
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.1,
        C: float = 1.0,
        tol: float = 1e-8,
        max_iter: int = 5000,
    ):
        self.net = net
        self.depth = depth
        self.kernel = kernel
        self.loss = loss
        self.epsilon = epsilon
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> NTKSVR:
        """Find the machine of rows and targets.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: shape (N,) or (N, outputs).

        Raises:
            InputError: entries that are not finite; a C, tol or epsilon that cannot be.
            DescriptionError: an unknown kernel or loss, a network without a readout.
            NoLimit: the network has no limit at this depth.
            MemoryNeeded: the kernel does not fit.
        """
        where = f"{type(self).__name__}.fit"
        settings = self._settings(where, loss_of(where, self.loss, self.epsilon, LOSSES))
        rows, y = self._inputs.regression(self, X, y)
        check_fit(where, len(rows), MATRICES, "fit on a subset")
        self._flat = y.ndim == 1
        self._solve(where, settings, rows, y.reshape(len(rows), -1))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return f at new rows, shape (M,) or (M, outputs).

        Args:
            X: shape (M, d).
        """
        found = self._outputs(X)
        return found[:, 0] if self._flat else found

    def bound(self, delta: float = 0.05) -> Any:
        """Return a bound on the mean of min(1, max(0, |y - f| - epsilon)) on new rows, with probability 1 - delta.

        Args:
            delta: chance that the bound fails.

        Returns:
            A `Bound`, or a list with one for each output.

        Raises:
            InputError: a delta that is no chance.

        Source: chen-2021-nn-svm.
        """
        return self._bounds(EpsilonInsensitive(float(self.epsilon)), delta)
