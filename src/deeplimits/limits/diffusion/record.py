"""What a diffusion gave: Gram matrices of sampled states, their statistics, and the accuracy of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.diffusion.closed_form import ClosedForm
from deeplimits.numerics.moments import standard_error, variance

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Diffusion:
    """Samples of the Gram matrix <Y, Y>/n of a network of fixed width; every statistic carries its standard error.

    Attributes:
        width: n.
        depth: a whole number, or infinity.
        seed: of all samples.
        gram: of the features that enter the readout, shape (samples, k, k).
        times: fractions of the layer time at which the state was looked at, shape (T,).
        path: Gram matrices of the hidden state at these times, shape (T, samples, k, k).
        steps: steps of the scheme of Euler and Maruyama; at a finite depth, the blocks themselves.
        step_error: estimated error of the mean Gram matrix by the steps, relative to its largest entry, with a margin
            of two standard errors; 0 at a finite depth.
        text: which process was simulated, in words.
        state: the features that enter the readout, shape (samples, k, features); None unless states=True.
        states: the hidden state at these times, shape (T, samples, k, n); None unless states=True.
        closed_forms: the law of the one neuron of width 1 where it is known, one for each input; else empty.
    """

    width: int
    depth: float
    seed: int
    gram: Array
    times: Array
    path: Array
    steps: int
    step_error: float
    text: str
    state: Array | None = None
    states: Array | None = None
    closed_forms: tuple[ClosedForm, ...] = ()

    @property
    def closed_form(self) -> ClosedForm | None:
        """The known law of the hidden state of the first input at the end; None where there is none."""
        return self.closed_forms[0] if self.closed_forms else None

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.gram)

    @cached_property
    def mean(self) -> Array:
        """Mean of `gram`, (k, k)."""
        return self.gram.mean(0)

    @cached_property
    def standard_error(self) -> Array:
        """Standard error of `mean`, (k, k)."""
        return standard_error(self.gram)

    @cached_property
    def path_mean(self) -> Array:
        """Mean of `path` over samples, (T, k, k)."""
        return self.path.mean(1)

    @cached_property
    def path_error(self) -> Array:
        """Standard error of `path_mean`, (T, k, k)."""
        return np.stack([standard_error(gram) for gram in self.path])

    @cached_property
    def log_mean(self) -> Array:
        """Mean of log q over samples, q the diagonal of `gram`; (k,), minus infinity where some q is 0."""
        return np.nan_to_num(self._logs, nan=-np.inf).mean(0)

    @cached_property
    def log_mean_error(self) -> Array:
        """Standard error of `log_mean`, (k,)."""
        return standard_error(self._logs)

    @cached_property
    def log_variance(self) -> Array:
        """Variance of log q over samples, (k,)."""
        return variance(self._logs)[0]

    @cached_property
    def log_variance_error(self) -> Array:
        """Standard error of `log_variance`, (k,): sqrt((m4 - (S-3)/(S-1) v^2) / S), m4 the fourth central moment."""
        return variance(self._logs)[1]

    @cached_property
    def _logs(self) -> Array:
        q = np.diagonal(self.gram, axis1=1, axis2=2)
        return np.log(np.where(q > 0, q, np.nan))

    def describe(self) -> str:
        """Say which process was simulated, in how many steps, how accurate they are, and whether its law is known."""
        return self.text

    def __repr__(self) -> str:
        at = f"width={self.width}, depth={self.depth:g}, steps={self.steps}, seed={self.seed}"
        return f"Diffusion({self.samples} samples, {self.gram.shape[1]} inputs, {at})"
