"""Classification with networks of infinite width, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.layer import Layer
from deeplimits.inference import calibration, evidence, laplace
from deeplimits.inference.estimator import NetworkEstimator, check_fit
from deeplimits.inference.prior import Prior, row_blocks

MAXIMISING = 8  # matrices held while the evidence is maximised
LOGISTIC = 4.0  # variance of the least noise that a logistic likelihood is alike: its curvature is at most 1/4


class NetworkClassifier(ClassifierMixin, NetworkEstimator):
    """What the classifiers have in common."""

    calibrate: bool
    _kind: str

    def fit(self, X: Any, y: Any) -> NetworkClassifier:
        """Condition the network on rows and labels: one binary problem a class, a single one for two classes.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: labels, shape (N,).

        Raises:
            InputError: entries that are not finite, targets that are no labels, a class with one member.
            NoLimit: the network has no limit at this depth.
            MemoryNeeded: the kernel and the factors, one a problem, do not fit.
        """
        where, prior = f"{type(self).__name__}.fit", self._prior()
        start = evidence.tuned(where, prior.net, self.optimize, None)
        rows, self.classes_, place = self._inputs.classification(self, X, y)
        problems = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        held = max(2 + self.calibrate + len(problems), MAXIMISING if start else 0)
        check_fit(where, len(rows), held, "fit fewer classes (one matrix each)")
        self._rows, self._targets = rows, [(place == index).astype(float) for index in problems]
        self.net_ = prior.net
        if start:
            found = self._highest(where, self._objective, start)
            self.net_, self.log_marginal_likelihood_value_ = prior.net.replace(found.values), found.evidence
        kernel = Prior(self.net_, self.depth, LOGISTIC).matrix(rows, self._kind)
        self.modes_ = [laplace.mode(where, kernel, target) for target in self._targets]
        self.temperature_ = 1.0
        if self.calibrate:
            left_out = of_classes([laplace.logistic_normal(*mode.left_out(kernel)) for mode in self.modes_])
            self.temperature_ = calibration.temperature(left_out, place)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class at new rows, averaged over the function and calibrated, shape (M, C).

        With more than two classes, the probabilities of the C problems divided by their sum; then p^(1/temperature_),
        divided by its sum.

        Args:
            X: shape (M, d).
        """
        check_is_fitted(self)
        rows, prior = self._inputs.rows(self, X), Prior(self.net_, self.depth, LOGISTIC)
        found = np.empty((len(self.modes_), len(rows)))
        for part in row_blocks(len(rows), 2 * len(self._rows)):
            cross = prior.cross(rows[part], self._rows, self._kind)
            diagonal = prior.variances(rows[part], self._kind)
            for problem, mode in enumerate(self.modes_):
                found[problem, part] = laplace.logistic_normal(*mode.latent(cross, diagonal))
        return calibration.temper(of_classes(found), self.temperature_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class at new rows, shape (M,).

        Args:
            X: shape (M, d).
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def log_marginal_likelihood(self, hyper: Mapping[str, float] | None = None, eval_gradient: bool = False) -> Any:
        """Return Laplace's approximation of log p(y), summed over the binary problems, and on request its gradient.

        Args:
            hyper: {path: value} of hyperparameters of the network; by default those of the fit.
            eval_gradient: whether to return {path: gradient} as well, in the paths of `hyper`, or all by default.

        Raises:
            InputError: an unknown path.
        """
        check_is_fitted(self)
        known = self.net_.hyperparameters()
        given = evidence.check_paths(
            f"{type(self).__name__}.log_marginal_likelihood", known if hyper is None else hyper, known
        )
        value, gradient = self._objective(given, eval_gradient)
        return (value, gradient) if eval_gradient else value

    def _objective(self, at: Mapping[str, float], gradient: bool = True) -> tuple[float, dict[str, float]]:
        prior = Prior(self.net_.replace(at), self.depth, LOGISTIC)
        kernel = prior.matrix(self._rows, self._kind)
        value, weights = 0.0, np.zeros_like(kernel) if gradient else kernel
        for target in self._targets:
            mode = laplace.mode("log_marginal_likelihood", kernel, target)
            value += mode.evidence
            if gradient:
                weights += mode.weights(kernel)
        if not gradient:
            return value, {}
        return value, evidence.network_gradient(prior, self._kind, self._rows, weights, at)


def of_classes(problems: Any) -> np.ndarray:
    """Return probabilities of classes, shape (N, C), from those of C problems, or of the one for two classes."""
    found = np.stack(problems, axis=1)
    if found.shape[1] == 1:
        return np.hstack([1 - found, found])
    found = np.maximum(found, np.finfo(float).tiny)
    return found / found.sum(axis=1, keepdims=True)


class NNGPClassifier(NetworkClassifier):
    """Classification with the NNGP kernel: a Bayesian network of infinite width, by Laplace's approximation.

    A function for each class, one class against the rest, with the kernel as prior covariance and the logistic
    likelihood; the posterior is the Gaussian at its mode. Its probabilities are cautious on real data, the more so the
    more classes there are; one temperature, found on the training rows with each left out in turn, mends that.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        optimize: hyperparameters over which the evidence is maximised in `fit`: paths such as "readout_std", or "all"
            (all that start above zero), or None.
        calibrate: whether probabilities are sharpened or softened by the temperature; without, they are those of the
            model itself, right where the prior is.

    Attributes:
        classes_: the labels, sorted.
        net_: the network, with the hyperparameters found.
        modes_: the approximate posterior of each binary problem.
        temperature_: of `predict_proba`; 1 leaves the model's own probabilities.
        log_marginal_likelihood_value_: the evidence at the maximum, where it was maximised.

    Valid when: widths go to infinity first; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: lee-2018-deep; rasmussen-williams-2006, section 3.4.

    Example:
        >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["a", "a", "b", "b"]
        >>> NNGPClassifier(depth=3).fit(X, y).predict([[0.8, 0.3], [0.2, 0.7]]).tolist()
        ['a', 'b']
    """

    _kind = "nngp"

    def __init__(
        self, net: Layer | None = None, depth: float | None = inf, optimize: Any = None, calibrate: bool = True
    ):
        self.net = net
        self.depth = depth
        self.optimize = optimize
        self.calibrate = calibrate


class NTKClassifier(NetworkClassifier):
    """Classification with the neural tangent kernel as prior covariance, by Laplace's approximation.

    Otherwise as `NNGPClassifier`. The mode is what networks linearised at their start learn from the logistic loss with
    the penalty |w - w_0|^2 / 2.

    Args:
        net: the description; `dl.ResNet("relu")` by default.
        depth: what DEPTH stands for: a whole number or infinity.
        optimize, calibrate: as in `NNGPClassifier`.

    Attributes:
        classes_: the labels, sorted.
        net_: the network, with the hyperparameters found.
        modes_: the approximate posterior of each binary problem.
        temperature_: of `predict_proba`; 1 leaves the model's own probabilities.
        log_marginal_likelihood_value_: the evidence at the maximum, where it was maximised.

    Valid when: widths go to infinity first, every layer trained; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: jacot-2018-ntk; rasmussen-williams-2006, section 3.4.

    Example:
        >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["a", "a", "b", "b"]
        >>> NTKClassifier(depth=3).fit(X, y).predict_proba([[0.8, 0.3]]).shape
        (1, 2)
    """

    _kind = "ntk"

    def __init__(
        self, net: Layer | None = None, depth: float | None = inf, optimize: Any = None, calibrate: bool = True
    ):
        self.net = net
        self.depth = depth
        self.optimize = optimize
        self.calibrate = calibrate
