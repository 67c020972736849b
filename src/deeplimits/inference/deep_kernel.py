"""Deep kernel machines as scikit-learn estimators: Bayesian networks whose features learn, at infinite width."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deeplimits.architecture.layer import Layer
from deeplimits.inference.classifier import of_classes
from deeplimits.inference.deep_kernel_estimator import DeepKernelMachine
from deeplimits.inference.estimator import check_noise
from deeplimits.inference.function_regressor import FunctionRegressor
from deeplimits.inference.laplace import logistic_normal


class DeepKernelMachineRegressor(FunctionRegressor, DeepKernelMachine):
    """Regression with learned features: the posterior of a Bayesian network in the limit where these still move.

    Layer l has a Gram matrix G_l of its features, with prior K_l(G_{l-1}), the kernel map of the network's own layer.
    They maximise

    log N(y; 0, K(G_L) + noise) - sum_l nu_l KL(N(0, G_l) | N(0, K_l(G_{l-1}))),

    the limit of a deep Gaussian process whose layers have N nu_l features, N to infinity, with the likelihood to the
    power N. nu to infinity gives `NNGPRegressor`; a small nu learns more. What is learned starts from there, by
    G_l = A M M^T A^T, A A^T = K_l, M from the identity on.

    Args:
        net: the description; every dense layer but the readout, and every residual block, has a Gram matrix.
            `dl.Mlp("relu", bias_std=0.3)` by default.
        depth: what DEPTH stands for, a whole number.
        nu: price of learning, above 0, for all layers or one a layer; infinity keeps a layer at its prior.
        noise: variance of the noise in the targets, absolute: in squared units of y.
        inducing_points: None: every row is in the Gram matrices, which costs N^3 a step. A number, or rows (B, d): the
            Gram matrices are those of B inducing points (of a number: centres of k-means), rows enter through them, and
            the evidence is bounded from below; a step costs N B^2 + B^3.
        normalize_y: as in `NNGPRegressor`.
        solver: "lbfgs" or "adam".
        max_iter: most steps.
        tol: of the gradient's largest entry, of the objective over the number of targets.
        seed: of k-means, for a number of inducing points.
        progress: whether to show a bar on a terminal.

    Attributes:
        likelihood_: log p(y | G_L) at the maximum, or its bound with inducing points.
        kl_: KL of every layer, shape (L,); 0 where nu is infinite.
        objective_: likelihood_ - sum of nu kl.
        grams_, prior_grams_: G_l and K_l(G_{l-1}) of every layer, at the rows or the inducing points.
        ranks_: rank of each layer's prior there: rows that a layer cannot tell apart share their features.
        converged_, residual_, n_iter_: whether the gradient fell below tol, to what, and in how many steps.
        inducing_points_: rows of the Gram matrices.
        posterior_: the law of the scaled function.

    Valid when: Gaussian weights, squared error. The maximum is that uphill from the prior; there may be others.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: yang-2021-deep-kernel-machine.

    Example:
        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([1.0, -1.0, 0.0])
        >>> model = DeepKernelMachineRegressor(depth=2, nu=5.0, noise=0.01).fit(X, y)
        >>> bool(model.converged_), len(model.grams_), bool((model.kl_ > 0).all())
        (True, 2, True)
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: int | None = 2,
        nu: Any = 10.0,
        noise: float = 1e-2,
        inducing_points: Any = None,
        normalize_y: bool = False,
        solver: str = "lbfgs",
        max_iter: int = 500,
        tol: float = 1e-4,
        seed: int = 0,
        progress: bool = True,
    ):
        self.net = net
        self.depth = depth
        self.nu = nu
        self.noise = noise
        self.inducing_points = inducing_points
        self.normalize_y = normalize_y
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed
        self.progress = progress

    def fit(self, X: Any, y: Any) -> DeepKernelMachineRegressor:
        """Learn the Gram matrices of rows and targets.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: shape (N,) or (N, outputs).

        Raises:
            InputError: entries that are not finite, a noise below zero, equal rows without noise, inducing points that
                are none.
            DescriptionError: a depth, a solver or a network that this machine does not have.
            PrecisionError: a kernel that is not positive definite.
            MemoryNeeded: the matrices do not fit.
        """
        where = f"{type(self).__name__}.fit"
        noise = check_noise(where, self.noise)
        rows, y = self._inputs.regression(self, X, y)
        self.y_mean_, self.y_scale_ = self._scale(y)
        targets, unit = (y - self.y_mean_) / self.y_scale_, self.y_scale_**2
        self._learn(where, rows, targets.reshape(len(rows), -1), noise / unit, unit, y.ndim == 1)
        return self


class DeepKernelMachineClassifier(ClassifierMixin, DeepKernelMachine):
    """Classification with learned features: one machine, a function for each class against the rest.

    As `DeepKernelMachineRegressor`, with the logistic likelihood and Laplace's approximation of its evidence, summed
    over the classes (one problem for two classes); all share the Gram matrices. nu to infinity gives the modes and the
    evidence of `NNGPClassifier`. With inducing points f = A v + rest, and the evidence loses sum(W rest)/2, W the
    curvature of the likelihood: the regressor's bound, where W is 1/noise.

    Args:
        net, depth, nu, inducing_points, solver, max_iter, tol, seed, progress: as in `DeepKernelMachineRegressor`.

    Attributes:
        classes_: the labels, sorted.
        likelihood_, kl_, objective_, grams_, prior_grams_, ranks_, converged_, residual_, n_iter_, inducing_points_: as
            in `DeepKernelMachineRegressor`.

    Valid when: Gaussian weights. `predict_proba` is the model's own average over the function: no temperature is
        fitted, since every label has shaped the Gram matrices, so that none can be left out afterwards.

    Raises:
        DeepLimitsError: in `fit`; see there.

    Source: yang-2021-deep-kernel-machine; rasmussen-williams-2006, section 3.4.

    Example:
        >>> X, y = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["a", "a", "b", "b"]
        >>> DeepKernelMachineClassifier(depth=2).fit(X, y).predict([[0.8, 0.3], [0.2, 0.7]]).tolist()
        ['a', 'b']
    """

    def __init__(
        self,
        net: Layer | None = None,
        depth: int | None = 2,
        nu: Any = 10.0,
        inducing_points: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 500,
        tol: float = 1e-4,
        seed: int = 0,
        progress: bool = True,
    ):
        self.net = net
        self.depth = depth
        self.nu = nu
        self.inducing_points = inducing_points
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed
        self.progress = progress

    def fit(self, X: Any, y: Any) -> DeepKernelMachineClassifier:
        """Learn the Gram matrices of rows and labels.

        Args:
            X: shape (N, d); numpy, pandas or torch.
            y: labels, shape (N,).

        Raises:
            InputError: entries that are not finite, targets that are no labels, a class with one member.
            DescriptionError: a depth, a solver or a network that this machine does not have.
            MemoryNeeded: the matrices do not fit.
        """
        where = f"{type(self).__name__}.fit"
        rows, self.classes_, place = self._inputs.classification(self, X, y)
        one = np.arange(len(self.classes_)) == place[:, None]
        signs = np.where(one[:, 1:] if len(self.classes_) == 2 else one, 1.0, -1.0)
        self._learn(where, rows, signs, None, 1.0, False)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class at new rows, averaged over the function, shape (M, C).

        With more than two classes, the probabilities of the C problems divided by their sum.

        Args:
            X: shape (M, d).
        """
        check_is_fitted(self)
        mean, variance = self.posterior_.mean_and_variance(self._inputs.rows(self, X))
        return of_classes(list(logistic_normal(mean, variance.reshape(len(mean), -1)).T))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class at new rows, shape (M,).

        Args:
            X: shape (M, d).
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]
