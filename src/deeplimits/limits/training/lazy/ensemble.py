"""The law of trained networks at any time, from one symmetric eigendecomposition."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from deeplimits.errors import AccuracyWarning, PrecisionError
from deeplimits.limits.training.lazy.dynamics import Dynamics
from deeplimits.limits.training.lazy.singular import ROUNDING, refuse_coincident, refuse_singular

Array = NDArray[np.float64]
MATRICES = 5  # held at once: two kernels, the modes, and the workspace in which they are found
DOUBT = 1e-3  # relative error of the slowest mode, by rounding, above which there is a warning


@dataclass(frozen=True, eq=False)
class Modes:
    """Theta = V diag(values) V^T, the kernel that moves the P training outputs.

    Attributes:
        values: shape (P,), rising, at least 0.
        vectors: V, shape (P, P), one mode a column.
        noise: how far rounding may have moved an eigenvalue.
    """

    values: Array
    vectors: Array
    noise: float


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of infinite width in training, started at random.

    With Theta the kernel that moves the outputs, K the covariance at the start and E_t the propagator of the error,
    A_t = Theta_*X (Theta + ridge)^-1 (1 - E_t) carries the training error at the start to new points:

    - mean:       A_t y
    - covariance: K_** + A_t K_XX A_t^T - A_t K_X* - K_*X A_t^T

    Where Theta = K (only the readout is trained) that is K_** - K_*X K^-1 (1 - E_t^2) K_X* (ridge 0).

    Attributes:
        modes: of Theta on the training rows.
        start: K on the training rows, shape (P, P); None where it is Theta.
        targets: y, shape (P, C).
        dynamics: the rule of training.

    Source: jacot-2018-ntk; lee-2019-wide, section 2; derived (steps, ridge).

    Example:
        >>> modes = Modes(np.array([2.0]), np.eye(1), 0.0)
        >>> law = Ensemble(modes, None, np.array([[1.0]]), Dynamics())
        >>> law.loss(0.0), law.loss(np.inf)
        ((0.5, 1.0), (0.0, 0.0))
    """

    modes: Modes
    start: Array | None
    targets: Array
    dynamics: Dynamics

    @cached_property
    def mode_targets(self) -> Array:
        """V^T y, shape (P, C)."""
        return self.modes.vectors.T @ self.targets

    @cached_property
    def mode_variances(self) -> Array:
        """Variance of every mode of the outputs at the start, the diagonal of V^T K V, shape (P,)."""
        if self.start is None:
            return self.modes.values
        return np.einsum("pi,pi->i", self.modes.vectors, self.start @ self.modes.vectors)

    def gain(self, time: float) -> Array:
        """Return (1 - E_t) / (values + ridge) of every mode, shape (P,).

        Raises:
            InputError: modes that rounding hides, at a time at which they count; names the rows.
        """
        gain = self.dynamics.gain(self.modes.values, time)
        doubt = self.modes.noise * gain[0]
        if not doubt < 1:
            refuse_singular(self.dynamics.where, self.modes.values, self.modes.vectors[:, 0], time)
        if doubt > DOUBT:
            low, top = self.modes.values[[0, -1]]
            text = (
                f"{self.dynamics.where}: eigenvalues fall to {low:.2g} of {top:.3g}: at time {time:g} the slowest mode "
            )
            text += f"is good to {doubt:.0e} of itself; stop earlier, drop nearly equal rows, or give a ridge"
            warnings.warn(text, AccuracyWarning, stacklevel=3)
        return gain

    def weights(self, time: float) -> Array:
        """Return w such that the mean is Theta_*X w, shape (P, C)."""
        return self.modes.vectors @ (self.gain(time)[:, None] * self.mode_targets)

    def train_mean(self, time: float) -> Array:
        """Return the mean at the training rows, shape (P, C)."""
        self.gain(time)
        left = self.dynamics.error(self.modes.values, time)
        return self.modes.vectors @ ((1 - left)[:, None] * self.mode_targets)

    def loss(self, time: float) -> tuple[float, float]:
        """Return (1/2) sum (f - y)^2 over rows and outputs, averaged over networks: of the mean, and of the spread."""
        self.gain(time)
        left = self.dynamics.error(self.modes.values, time) ** 2
        of_mean = 0.5 * float(left @ (self.mode_targets**2).sum(1))
        return of_mean, 0.5 * self.targets.shape[1] * float(left @ self.mode_variances)

    def project(self, ntk: Array) -> Array:
        """Return Theta_*X V for M points, shape (M, P), which `added` takes."""
        return ntk @ self.modes.vectors

    def added(self, projected: Array, nngp: Array, time: float, full: bool) -> Array:
        """Return what training adds to the covariance at M points.

        Args:
            projected: Theta_*X V, shape (M, P).
            nngp: K_*X, shape (M, P).
            time: of training.
            full: whether the matrix (M, M) is wanted, or its diagonal (M,).
        """
        gain = self.gain(time)
        if self.start is None:
            left, right = projected * (gain * (self.modes.values * gain - 2)), projected
        else:
            left = (projected * gain) @ self.modes.vectors.T
            right = left @ self.start - 2 * nngp
        if not full:
            return np.einsum("mp,mp->m", left, right)
        found = left @ right.T
        return (found + found.T) / 2


def decomposed(where: str, kernel: Array, rows: Array, lasts: bool) -> Modes:
    """Return the modes of a kernel on the training rows; it is overwritten.

    Args:
        where: named in errors.
        kernel: shape (P, P), symmetric.
        rows: the inputs, shape (P, d), for the words of errors.
        lasts: whether every mode must move: training to the end, without a ridge.

    Raises:
        InputError: rows that the kernel does not tell apart, and `lasts`.
        PrecisionError: a kernel that is not positive semi-definite, by more than rounding.
    """
    if lasts:
        refuse_coincident(where, kernel, rows)
    scale = float(np.abs(kernel.diagonal()).max())
    values, vectors = eigh(kernel.T, driver="evd", overwrite_a=True, check_finite=False)
    noise = max(len(values) * ROUNDING * float(values[-1]), -float(values[0]))
    if -values[0] > 1e-6 * scale or not isfinite(values[-1]):
        why = f"the kernel of these {len(values)} rows has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        raise PrecisionError(where, why, "scale the inputs to |x|^2/d near 1")
    modes = Modes(np.maximum(values, 0.0), vectors, noise)
    if lasts and values[0] <= noise:
        refuse_singular(where, modes.values, vectors[:, 0], np.inf)
    return modes
