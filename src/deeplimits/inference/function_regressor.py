"""What regressors have in common whose answer is a Gaussian law over functions."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from deeplimits.errors import InputError
from deeplimits.inference.estimator import NetworkEstimator, normal
from deeplimits.inference.gaussian_process import Law


class FunctionRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):
    """A regressor that keeps a law over functions, `posterior_`, of targets centred by `y_mean_` over `y_scale_`."""

    normalize_y: bool
    posterior_: Law
    y_mean_: Any
    y_scale_: float

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return the mean at new rows, and on request the standard deviation or the covariance there.

        Args:
            X: shape (M, d).
            return_std: whether to return the standard deviations as well, shape of the mean.
            return_cov: whether to return the covariance as well, shape (M, M) or (M, M, outputs).

        Returns:
            The mean, shape (M,) or (M, outputs); or a pair. The spread is that of the function, without the noise.

        Raises:
            InputError: both spreads asked for, or rows that cannot be used.
        """
        check_is_fitted(self)
        return self._answer(self.posterior_, X, return_std, return_cov)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw functions from the posterior and return their values at new rows.

        Args:
            X: shape (M, d).
            n_samples: number of functions.
            random_state: seed.

        Returns:
            shape (M, n_samples) or (M, outputs, n_samples).
        """
        mean, covariance = self.predict(X, return_cov=True)
        if mean.ndim == 1:
            return mean[:, None] + normal(covariance, n_samples, random_state)
        drawn = normal(covariance[..., 0], mean.shape[1] * n_samples, random_state)
        return mean[..., None] + drawn.reshape(len(mean), mean.shape[1], n_samples)

    def _answer(self, law: Law, X: Any, return_std: bool, return_cov: bool) -> Any:
        if return_std and return_cov:
            why = "return_std and return_cov at once"
            raise InputError(f"{type(self).__name__}.predict", why, "the square root of the diagonal is the std")
        rows = self._inputs.rows(self, X)
        if return_cov:
            mean, covariance = law.mean_and_covariance(rows)
            covariance *= self.y_scale_**2
            return self._back(mean), covariance if mean.ndim == 1 else self._each(covariance, mean)
        if return_std:
            mean, variance = law.mean_and_variance(rows)
            spread = self.y_scale_ * np.sqrt(variance)
            return self._back(mean), spread if mean.ndim == 1 else self._each(spread, mean)
        return self._back(law.mean(rows))

    def _scale(self, y: np.ndarray) -> tuple[Any, float]:
        if not self.normalize_y:
            return np.zeros(y.shape[1:]), 1.0
        spread = sqrt(float(np.mean(np.var(y, axis=0))))
        return y.mean(axis=0), spread if spread > 10 * np.finfo(float).eps * float(np.abs(y).max()) else 1.0

    def _back(self, mean: np.ndarray) -> np.ndarray:
        return mean * self.y_scale_ + self.y_mean_

    def _each(self, spread: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return np.repeat(spread[..., None], mean.shape[1], axis=-1)
