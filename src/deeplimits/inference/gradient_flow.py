"""Regression by infinitely wide networks that are still in training, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, nearest
from deeplimits.inference.estimator import check_fit
from deeplimits.inference.function_regressor import FunctionRegressor
from deeplimits.inference.gaussian_process import Law
from deeplimits.inference.prior import Prior, Rows
from deeplimits.limits.training.lazy.dynamics import Dynamics, check_number
from deeplimits.limits.training.lazy.ensemble import MATRICES, Ensemble, decomposed
from deeplimits.limits.training.lazy.inputs import trainable
from deeplimits.limits.training.lazy.rate import KERNELS, refuse_unstable


@dataclass(frozen=True, eq=False)
class Trained(Law):
    """The law of trained networks at one time.

    Attributes:
        prior: the network.
        kind: the kernel that moves the outputs: "ntk", or "nngp" where the readout alone is trained.
        rows: the N inputs.
        law: of the training outputs, at every time.
        time: of training.
        weights: of the mean, shape (N,) or (N, outputs).
        start: NNGP kernel of the rows, None where it moves the outputs.
    """

    prior: Prior
    kind: str
    rows: Rows
    law: Ensemble
    time: float
    weights: np.ndarray
    start: np.ndarray | None

    def _reduced(self, X: Rows, full: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if self.start is None:
            moving = nngp = self.prior.cross(X, self.rows, self.kind)
        else:
            nngp, moving = self.prior.both(X, self.rows)
        added = self.law.added(self.law.project(moving), nngp, self.time, full is not None)
        return moving @ self.weights, added if full is None else full + added


class GradientFlowRegressor(FunctionRegressor):
    """Regression by infinitely wide networks, stopped at any time of their training on squared errors.

    The law of networks from random starts: `dl.gradient_flow`, which says what is meant by time, rule, rate and ridge.
    `fit` finds the modes of the kernel once; `predict` answers at every time.

    Trained to the end (time=inf) it is `NTKRegressor(noise=ridge)`, the ensemble; with train="readout" and ridge=0 it
    is `NNGPRegressor(noise=0)`.

    Args:
        net: the description; `dl.ResNet("relu")` by default. It ends in a Dense readout.
        depth: what DEPTH stands for: a whole number or infinity.
        time: rate * steps of gradient flow, or steps of the other rules; infinity is the end of training.
        rule: "flow", "gd" or "momentum".
        train: "all" layers or the "readout" alone.
        rate: of "gd" and "momentum", on the loss (1/2) sum (f - y)^2.
        momentum: of "momentum", in [0, 1).
        ridge: of (ridge/2) |weights - weights at the start|^2, added to that loss; 0 is the plain loss, which at
            infinite time refuses rows that the network cannot tell apart.
        normalize_y: whether the networks learn (y - mean) / scale, with one mean an output and one scale for all
            outputs, the root of their mean variance; `ridge` counts in squared units of y all the same.

    Attributes:
        net_: the network.
        eigenvalues_: of the kernel that moves the training outputs, shape (N,), rising; their modes converge in times
            1 / eigenvalue.
        law_: of the scaled training outputs, at every time.
        posterior_: the law of the scaled function, at the time of the fit.

    Valid when: as for `dl.gradient_flow`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: jacot-2018-ntk; lee-2019-wide, section 2.

    Example:
        >>> X, y = np.eye(3), np.array([1.0, 0.0, -1.0])
        >>> model = GradientFlowRegressor(depth=3, time=1.0, ridge=0.0).fit(X, y)
        >>> early, late = model.predict(X), model.predict(X, time=inf)
        >>> bool(abs(early[0]) < 1), late.round(6).tolist()[::2]
        (True, [1.0, -1.0])
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        time: float = inf,
        rule: str = "flow",
        train: str = "all",
        rate: float | None = None,
        momentum: float | None = None,
        ridge: float = 1e-2,
        normalize_y: bool = False,
    ):
        self.net = net
        self.depth = depth
        self.time = time
        self.rule = rule
        self.train = train
        self.rate = rate
        self.momentum = momentum
        self.ridge = ridge
        self.normalize_y = normalize_y

    def fit(self, X: Any, y: Any) -> GradientFlowRegressor:
        """Find the modes of the kernel on the training rows.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: shape (N,) or (N, outputs).

        Raises:
            InputError: entries that are not finite; a rate that diverges; at infinite time without a ridge, rows that
                the network cannot tell apart.
            DescriptionError: a network without a readout, or an option that has no effect.
            NoLimit: the network has no limit at this depth.
            MemoryNeeded: the kernels do not fit.
        """
        where = f"{type(self).__name__}.fit"
        if self.train not in KERNELS:
            raise DescriptionError(where, f"train={self.train!r}", nearest(str(self.train), KERNELS))
        ridge = check_number(where, "ridge", self.ridge, least=0.0)
        time = self._time(Dynamics(self.rule, self.rate, self.momentum, ridge, where), self.time)
        prior = self._prior()
        trainable(where, prior.net)
        rows, y = self._inputs.regression(self, X, y)
        check_fit(where, len(rows), MATRICES, "train the readout alone (one kernel less)")
        self.y_mean_, self.y_scale_ = self._scale(y)
        targets = (y - self.y_mean_) / self.y_scale_
        dynamics = Dynamics(self.rule, self.rate, self.momentum, ridge / self.y_scale_**2, where)
        kind = KERNELS[self.train]
        start, moving = prior.both(rows) if kind == "ntk" else (None, prior.matrix(rows, kind))
        modes = decomposed(where, moving, rows, lasts=time == inf and not ridge)
        refuse_unstable(dynamics, float(modes.values[-1]))
        self.net_, self.eigenvalues_ = prior.net, modes.values
        self.law_ = Ensemble(modes, start, targets.reshape(len(rows), -1), dynamics)
        self._kept = prior, kind, rows, targets.ndim
        self.posterior_ = self._trained(time)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, time: Any = None) -> Any:
        """Return the mean at new rows, and on request the standard deviation or the covariance there.

        Args:
            X: shape (M, d).
            return_std: whether to return the standard deviations over networks as well, shape of the mean.
            return_cov: whether to return the covariance as well, shape (M, M) or (M, M, outputs).
            time: of training; that of the fit by default.

        Returns:
            The mean, shape (M,) or (M, outputs); or a pair.

        Raises:
            InputError: both spreads asked for, rows or a time that cannot be used.
        """
        check_is_fitted(self)
        law = self.posterior_ if time is None else self._trained(self._time(self.law_.dynamics, time))
        return self._answer(law, X, return_std, return_cov)

    def _trained(self, time: float) -> Trained:
        prior, kind, rows, rank = self._kept
        weights = self.law_.weights(time)
        return Trained(prior, kind, rows, self.law_, time, weights if rank == 2 else weights[:, 0], self.law_.start)

    def _time(self, dynamics: Dynamics, time: Any) -> float:
        found = dynamics.times(time)
        if found.ndim:
            raise InputError(dynamics.where, f"time={time!r} is not one time", "call predict(X, time=...) for each")
        return float(found)
