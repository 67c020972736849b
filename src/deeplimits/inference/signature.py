"""Regression and classification of paths with neural signature kernels, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from typing import Any, ClassVar

import numpy as np

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, PrecisionError
from deeplimits.inference import evidence, paths
from deeplimits.inference.classifier import NNGPClassifier
from deeplimits.inference.estimator import NetworkEstimator
from deeplimits.inference.prior import Prior
from deeplimits.inference.regressor import NNGPRegressor

STEP, CLOSE, MOST = log(2.0), 1e-2, 200  # first steps in the logarithms, when to stop, evaluations


class OnPaths(NetworkEstimator):
    """What estimators on paths do otherwise than those on rows."""

    _inputs: ClassVar[Any] = paths
    _default: ClassVar[Layer | None] = ControlledResNet("relu", time=True)

    def log_marginal_likelihood(self, hyper: Mapping[str, float] | None = None, eval_gradient: bool = False) -> Any:
        """Return log p(y) of the training targets: exact in regression, Laplace's approximation in classification.

        Args:
            hyper: {path: value} of hyperparameters of the network (and "noise"); by default those of the fit.
            eval_gradient: kernels of paths have none: True is refused.

        Raises:
            DescriptionError: a gradient is asked for.
            InputError: an unknown path.
        """
        if eval_gradient:
            where, fix = f"{type(self).__name__}.log_marginal_likelihood", "take differences of two calls"
            raise DescriptionError(where, "kernels of paths have no gradients in hyperparameters", fix)
        return super().log_marginal_likelihood(hyper)  # type: ignore[misc]

    def _prior(self) -> Prior:
        prior = super()._prior()
        if not isinstance(prior.net, ControlledResNet):
            fix = "give a dl.layer.ControlledResNet; for inputs that are rows, NNGPRegressor and NNGPClassifier"
            raise DescriptionError(
                type(self).__name__, f"net is a {type(prior.net).__name__}, not driven by paths", fix
            )
        return prior

    def _highest(self, where: str, objective: Any, start: Mapping[str, float]) -> evidence.Maximum:
        return search(objective, start)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def search(objective: Any, start: Mapping[str, float]) -> evidence.Maximum:
    """Return the largest evidence found from `start` on, within a factor of 100 (noise: 1e6), without gradients.

    The simplex method of Nelder and Mead in the logarithms, from steps of a factor of 2, to one per cent.

    Args:
        objective: ({path: value}, False) -> (evidence, anything).
        start: {path: value}, all above zero.

    Source: definition.

    Example:
        >>> found = search(lambda at, gradient: (-log(at["a"] / 3.0) ** 2, {}), {"a": 1.0})
        >>> round(found.values["a"], 1)
        3.0
    """
    from scipy.optimize import minimize

    worst = 1e3 * abs(objective(start, False)[0]) + 1e6

    def negative(logs: np.ndarray) -> float:
        try:
            return -objective({path: exp(value) for path, value in zip(start, logs, strict=True)}, False)[0]
        except PrecisionError:  # too far: the simplex comes back
            return worst

    at = np.log(list(start.values()))
    reach = np.log([evidence.NOISE_REACH if path == evidence.NOISE else evidence.REACH for path in start])
    simplex = np.vstack([at, at + STEP * np.eye(len(at))])
    options = {"initial_simplex": simplex, "xatol": CLOSE, "fatol": CLOSE, "maxfev": MOST}
    found: Any = minimize(
        negative, at, method="Nelder-Mead", bounds=np.stack([at - reach, at + reach], axis=1), options=options
    )
    values = {path: exp(value) for path, value in zip(start, found.x, strict=True)}
    return evidence.Maximum(values, -float(found.fun), int(found.nfev) + 1)


class NeuralSignatureRegressor(OnPaths, NNGPRegressor):
    """Gaussian-process regression of functions of paths, with the neural signature kernel as covariance.

    X is a list of arrays, (points, d) each and as long as they like, or one array (N, points, d); in an array or frame
    of two dimensions, (N, points), each row is a series of numbers. `fit`, `predict` with `return_std` or `return_cov`,
    `sample_y` and `log_marginal_likelihood` are those of `NNGPRegressor`.

    The kernel grows like exp(2 weight_std |x|) with the length |x| of a path: scale channels so that paths are a few
    units long. It sees steps only: put a point at zero before each path where their starts matter. Of a path with one
    channel and no time it sees the two ends.

    Args:
        net: a `ControlledResNet`; by default that of ReLU, with the time as a channel. With the identity it is the
            signature kernel.
        depth: number of layers, or infinity.
        noise, normalize_y: as in `NNGPRegressor`.
        optimize: hyperparameters over which the evidence is maximised in `fit`, without gradients: "weight_std",
            "bias_std", "initial_std", "noise", several of them, "all" (all that start above zero), or None.

    Attributes:
        net_, noise_, posterior_, log_marginal_likelihood_value_: as in `NNGPRegressor`.
        channels_: number d of channels.

    Valid when: width goes to infinity first; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: cirone-2023-neural-signature-kernels; rasmussen-williams-2006, section 2.2.

    Example:
        >>> X = [np.array([[0.0], [1.0]]), np.array([[0.0], [0.5], [2.0]]), np.array([[0.0], [-1.0]])]
        >>> model = NeuralSignatureRegressor(noise=1e-6).fit(X, [1.0, 2.0, -1.0])
        >>> model.predict(X).round(3), model.predict([X[0] / 2]).shape
        (array([ 1.,  2., -1.]), (1,))
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: float | None = inf,
        noise: float = 1e-2,
        normalize_y: bool = False,
        optimize: Any = None,
    ):
        super().__init__(net, depth, noise, normalize_y, optimize)


class NeuralSignatureClassifier(OnPaths, NNGPClassifier):
    """Classification of paths with the neural signature kernel as covariance, by Laplace's approximation.

    X and the scale of paths as in `NeuralSignatureRegressor`; `fit`, `predict` and the calibrated `predict_proba` are
    those of `NNGPClassifier`.

    Args:
        net: as in `NeuralSignatureRegressor`.
        depth: number of layers, or infinity.
        optimize: as in `NeuralSignatureRegressor`, without "noise".
        calibrate: as in `NNGPClassifier`.

    Attributes:
        classes_, net_, modes_, temperature_, log_marginal_likelihood_value_: as in `NNGPClassifier`.
        channels_: number d of channels.

    Valid when: width goes to infinity first; as for `dl.kernel`.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: cirone-2023-neural-signature-kernels; rasmussen-williams-2006, section 3.4.

    Example:
        >>> rising, falling = np.array([[0.0], [1.0]]), np.array([[0.0], [0.3], [-1.0]])
        >>> model = NeuralSignatureClassifier().fit([rising, falling, 2 * rising, 2 * falling], ["up", "down"] * 2)
        >>> model.predict([1.5 * rising]).tolist()
        ['up']
    """

    def __init__(
        self, net: Layer | None = None, depth: float | None = inf, optimize: Any = None, calibrate: bool = True
    ):
        super().__init__(net, depth, optimize, calibrate)
