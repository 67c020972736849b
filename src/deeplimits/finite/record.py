"""What sampled networks gave: matrices network by network, and their statistics with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deeplimits.numerics.moments import standard_error, variance

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Gram matrices of the features that enter the readout, and NTKs, of independent networks.

    gram: (networks, k, k), <Y, Y>/n; ntk: (networks, k, k) of the scalar-output network, or None.
    Statistics are over networks; every one carries its standard error.
    """

    width: int
    depth: int
    seed: int
    parametrization: str
    gram: Array
    ntk: Array | None = None

    @property
    def networks(self) -> int:
        """Number of networks."""
        return len(self.gram)

    @cached_property
    def mean(self) -> Array:
        """Mean Gram matrix (k, k)."""
        return self.gram.mean(0)

    @cached_property
    def standard_error(self) -> Array:
        """Standard error of `mean` (k, k)."""
        return standard_error(self.gram)

    @cached_property
    def covariance(self) -> Array:
        """Covariance over networks of the entries of the Gram matrix, (k, k, k, k)."""
        return self._products()[0]

    @cached_property
    def covariance_error(self) -> Array:
        """Standard error of `covariance`: sqrt((E[(a b)^2] - E[a b]^2) / (S-1)), a and b centred entries."""
        return self._products()[1]

    @cached_property
    def log_variance(self) -> Array:
        """Variance over networks of log q, q the diagonal of the Gram matrix; (k,), NaN where some q is 0."""
        return variance(self._log_diagonal)[0]

    @cached_property
    def log_variance_error(self) -> Array:
        """Standard error of `log_variance` (k,): sqrt((m4 - (S-3)/(S-1) v^2) / S) with the fourth central moment m4."""
        return variance(self._log_diagonal)[1]

    @cached_property
    def ntk_mean(self) -> Array | None:
        """Mean NTK (k, k), or None where it was not asked for."""
        return None if self.ntk is None else self.ntk.mean(0)

    @cached_property
    def ntk_standard_error(self) -> Array | None:
        """Standard error of `ntk_mean` (k, k)."""
        return None if self.ntk is None else standard_error(self.ntk)

    @property
    def _log_diagonal(self) -> Array:
        diagonal = np.diagonal(self.gram, axis1=1, axis2=2)
        return np.log(np.where(diagonal > 0, diagonal, np.nan))

    def _products(self) -> tuple[Array, Array]:
        count, k = self.networks, self.gram.shape[1]
        centred = (self.gram - self.mean).reshape(count, -1)
        biased = centred.T @ centred / count
        second = (centred**2).T @ centred**2 / count
        error = np.sqrt(np.maximum(second - biased**2, 0.0) / (count - 1))
        shape = (k, k, k, k)
        return (biased * (count / (count - 1))).reshape(shape), error.reshape(shape)

    def __repr__(self) -> str:
        asked = "gram" if self.ntk is None else "gram, ntk"
        at = f"width={self.width}, depth={self.depth}, seed={self.seed}, parametrization={self.parametrization!r}"
        return f"Sample({asked} of {self.networks} networks, {self.gram.shape[1]} inputs, {at})"
