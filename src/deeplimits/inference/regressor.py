"""Regression with networks of infinite width, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError
from deeplimits.inference import evidence
from deeplimits.inference.estimator import check_fit, check_noise
from deeplimits.inference.function_regressor import FunctionRegressor
from deeplimits.inference.gaussian_process import Posterior, factorise
from deeplimits.inference.prior import Prior, Rows

LAWS = ("ensemble", "gp")
MAXIMISING = 4  # matrices held while the evidence is maximised


class NetworkRegressor(FunctionRegressor):
    """What the regressors with a noise have in common."""

    noise: Any
    _kind: str

    def fit(self, X: Any, y: Any) -> NetworkRegressor:
        """Condition the network on rows and targets.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: shape (N,) or (N, outputs).

        Raises:
            InputError: entries that are not finite, a noise below zero, equal rows without noise.
            PrecisionError: a kernel that is not positive definite; says how much noise is missing.
            NoLimit: the network has no limit at this depth.
            MemoryNeeded: the kernel does not fit.
        """
        where, law = f"{type(self).__name__}.fit", self._law()
        noise, prior = check_noise(where, self.noise), self._prior()
        start = evidence.tuned(where, prior.net, self.optimize, noise)
        if start and law == "ensemble":
            fix = "use posterior='gp', choose hyperparameters by GridSearchCV, or set optimize=None"
            raise DescriptionError(where, "the law of trained networks has no evidence to maximise", fix)
        rows, y = self._inputs.regression(self, X, y)
        held = 2 if law == "ensemble" else MAXIMISING if start else 1
        check_fit(where, len(rows), held, "use posterior='gp' without optimize (one matrix)")
        self.y_mean_, self.y_scale_ = self._scale(y)
        targets = (y - self.y_mean_) / self.y_scale_
        self.net_, self.noise_ = prior.net, noise
        if start:
            self._maximise(where, prior, rows, targets, start)
        self._condition(where, Prior(self.net_, self.depth), rows, targets, law)
        self._targets = targets
        return self

    def log_marginal_likelihood(self, hyper: Mapping[str, float] | None = None, eval_gradient: bool = False) -> Any:
        """Return log p(y) of the training targets, summed over outputs, and on request its gradient.

        Args:
            hyper: {path: value} of hyperparameters of the network, and "noise"; by default those of the fit.
            eval_gradient: whether to return {path: gradient} as well, in the paths of `hyper`, or all by default.

        Raises:
            DescriptionError: posterior="ensemble", which is no posterior of a model with a likelihood.
            InputError: an unknown path.
        """
        check_is_fitted(self)
        where = f"{type(self).__name__}.log_marginal_likelihood"
        if self.posterior_.start is not None:
            why = "posterior='ensemble' is the law of trained networks: it has no likelihood and no evidence"
            raise DescriptionError(where, why, "use posterior='gp'")
        known = self.net_.hyperparameters() | {evidence.NOISE: self.noise_}
        values = evidence.check_paths(where, known if hyper is None else hyper, known)
        objective = self._objective(Prior(self.net_, self.depth), self.posterior_.rows, self._targets)
        value, gradient = objective(values if eval_gradient or hyper else {}, gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def _law(self) -> str:
        return "gp"

    def _objective(self, prior: Prior, rows: Rows, targets: np.ndarray) -> Any:
        unit = self.y_scale_**2

        def objective(at: Mapping[str, float], gradient: bool = True) -> tuple[float, dict[str, float]]:
            inner = {path: value for path, value in at.items() if path != evidence.NOISE}
            noise = at.get(evidence.NOISE, self.noise_) / unit
            moved = replace(prior, net=prior.net.replace(inner), noise=noise)
            return evidence.regression(moved, self._kind, rows, targets, noise, at if gradient else (), unit)

        return objective

    def _maximise(self, where: str, prior: Prior, rows: Rows, targets: np.ndarray, start: dict) -> None:
        objective = self._objective(prior, rows, targets)
        found = self._highest(where, objective, start)
        self.noise_ = found.values.pop(evidence.NOISE, self.noise_)
        self.net_, self.log_marginal_likelihood_value_ = prior.net.replace(found.values), found.evidence

    def _condition(self, where: str, prior: Prior, rows: Rows, targets: np.ndarray, law: str) -> None:
        start, unit = None, self.y_scale_**2
        prior = replace(prior, noise=self.noise_ / unit)
        if law == "ensemble":
            start, matrix = prior.both(rows)
        else:
            matrix = prior.matrix(rows, self._kind)
        factor = factorise(where, matrix, self.noise_ / unit, rows, unit)
        self.posterior_ = Posterior(prior, self._kind, rows, factor, factor.solve(targets), start)


class NNGPRegressor(NetworkRegressor):
    """Gaussian-process regression with the NNGP kernel: the posterior of an infinitely wide Bayesian network.

    mean = K_*X (K + noise I)^-1 y,  covariance = K_** - K_*X (K + noise I)^-1 K_X*.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        noise: variance of the noise in the targets, absolute: in squared units of y, whatever `normalize_y` says.
        normalize_y: whether the prior is that of (y - mean) / scale, with one mean an output and one scale for all
            outputs, the root of their mean variance. As in scikit-learn it is not by default: then y should have mean
            near zero and a variance comparable with the kernel's diagonal.
        optimize: hyperparameters over which the evidence is maximised in `fit`: paths such as "weight_std" and "noise",
            or "all" (all that start above zero), or None.

    Attributes:
        net_: the network, with the hyperparameters found.
        noise_: the noise variance found.
        posterior_: the law of the scaled function.
        log_marginal_likelihood_value_: the evidence at the maximum, where it was maximised.

    Valid when: widths go to infinity first; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: lee-2018-deep; rasmussen-williams-2006, section 2.2.

    Example:
        >>> X, y = np.eye(3), np.array([1.0, 0.0, -1.0])
        >>> model = NNGPRegressor(depth=3, noise=1e-6).fit(X, y)
        >>> model.predict(X).round(3), model.predict(X, return_std=True)[1].round(3)
        (array([ 1., -0., -1.]), array([0.001, 0.001, 0.001]))
    """

    _kind = "nngp"

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        noise: float = 1e-2,
        normalize_y: bool = False,
        optimize: Any = None,
    ):
        self.net = net
        self.depth = depth
        self.noise = noise
        self.normalize_y = normalize_y
        self.optimize = optimize


class NTKRegressor(NetworkRegressor):
    """Regression with the neural tangent kernel: what infinitely wide networks say when trained to the end.

    posterior="ensemble", the law of networks trained from random starts: with A = T_*X (T + noise I)^-1, T the NTK and
    K the NNGP kernel, mean = A y and covariance = K_** + A K A^T - A K_X* - K_*X A^T.

    posterior="gp", the Gaussian process whose covariance is the NTK: the same mean, covariance T_** - A T_X*.

    How noise enters: training minimises |f - y|^2 / 2 + noise |w - w_0|^2 / 2, w_0 the weights at the start; noise=0 is
    training to the end. In the ensemble the targets are what they are, and only the starts are random.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        noise: absolute: in squared units of y, whatever `normalize_y` says.
        normalize_y: as in `NNGPRegressor`.
        posterior: "ensemble" or "gp".
        optimize: as in `NNGPRegressor`; for posterior="gp" only.

    Attributes:
        net_: the network, with the hyperparameters found.
        noise_: the noise variance found.
        posterior_: the law of the scaled function.
        log_marginal_likelihood_value_: the evidence at the maximum, where it was maximised.

    Valid when: widths go to infinity first, every layer trained, squared error, small steps; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: jacot-2018-ntk; lee-2019-wide.

    Example:
        >>> X, y = np.eye(3), np.array([1.0, 0.0, -1.0])
        >>> mean, spread = NTKRegressor(depth=3, noise=0.0).fit(X, y).predict([[1.0, 1.0, 0.0]], return_std=True)
        >>> mean.shape, spread.shape
        ((1,), (1,))
    """

    _kind = "ntk"

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        noise: float = 1e-2,
        normalize_y: bool = False,
        posterior: str = "ensemble",
        optimize: Any = None,
    ):
        self.net = net
        self.depth = depth
        self.noise = noise
        self.normalize_y = normalize_y
        self.posterior = posterior
        self.optimize = optimize

    def _law(self) -> str:
        if self.posterior not in LAWS:
            why = f"posterior={self.posterior!r}"
            raise DescriptionError("NTKRegressor", why, "use 'ensemble' (trained networks) or 'gp'")
        return self.posterior
