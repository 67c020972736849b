"""What a gradient flow gave: the law of trained networks at the times and points asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.lazy.ensemble import Ensemble

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """The law of the outputs of infinitely wide networks in training: a Gaussian process at every time.

    Outputs (columns of y) are independent and share their variances. Shapes begin with that of `time`: nothing for one
    time, (T,) for a list.

    Attributes:
        time: times asked for, shape () or (T,): rate * steps of gradient flow, else steps.
        rows: training inputs, shape (P, d).
        points: inputs at which the law is given, shape (M, d).
        mean: over networks, shape (..., M) or (..., M, C), as y.
        variance: over networks, of one output, shape (..., M).
        covariance: shape (..., M, M); None unless covariance="full".
        train_mean: mean at the training rows, shape (..., P) or (..., P, C).
        train: what is trained, "all" or "readout".
        depth: of the networks.
        law: the same at other times, and the modes.
        text: which limit was taken, in words.
    """

    time: Array
    rows: Array
    points: Array
    mean: Array
    variance: Array
    covariance: Array | None
    train_mean: Array
    train: str
    depth: float | None
    law: Ensemble = field(repr=False)
    text: str = field(repr=False)

    @cached_property
    def std(self) -> Array:
        """Standard deviation over networks, shape (..., M)."""
        return np.sqrt(self.variance)

    @property
    def eigenvalues(self) -> Array:
        """Of the kernel that moves the training outputs, shape (P,), rising."""
        return self.law.modes.values

    @cached_property
    def convergence_times(self) -> Array:
        """Time in which the error of every mode falls by a factor e, shape (P,), in the order of `eigenvalues`."""
        return self.law.dynamics.lifetime(self.eigenvalues)

    @cached_property
    def loss(self) -> Array:
        """(1/2) sum (f - y)^2 over training rows and outputs, averaged over networks, of the shape of `time`."""
        return self.loss_at(self.time)

    def loss_at(self, time: Any) -> Array:
        """Return the loss, averaged over networks, at other times: that of the mean plus half the summed variances.

        Args:
            time: one or a list, counted as in the record.

        Returns:
            Of the shape of `time`.
        """
        return self.losses_at(time).sum(0)

    def losses_at(self, time: Any) -> Array:
        """Return the loss of the mean, and what the spread of networks adds to it, shape (2, ...)."""
        times = self.law.dynamics.times(time)
        found = np.array([self.law.loss(float(t)) for t in times.ravel()]).T
        return found.reshape(2, *times.shape)

    def describe(self) -> str:
        """Say which limit was taken, what was trained and how, and how fast the modes are."""
        fast, slow = self.convergence_times[-1], self.convergence_times[0]
        modes = f"{len(self.eigenvalues)} modes with eigenvalues from {self.eigenvalues[0]:.3g} to "
        return f"{self.text}; {modes}{self.eigenvalues[-1]:.3g}, errors falling by e in {fast:.3g} to {slow:.3g}"

    def __repr__(self) -> str:
        at = f"rule={self.law.dynamics.rule!r}, train={self.train!r}, time={self.time.tolist()}"
        return f"GradientFlow({len(self.eigenvalues)} rows, {len(self.points)} points, {at})"
