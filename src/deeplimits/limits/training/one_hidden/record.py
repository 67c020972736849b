"""What training of one hidden layer gave, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.one_hidden.course import Course
from deeplimits.limits.training.one_hidden.start import Neurons

Array = NDArray[np.float64]


def standard_error(runs: Array, exact: bool = False) -> Array:
    """Return s / sqrt(R) over the first axis: zeros where nothing is sampled, NaN of a single network."""
    if exact:
        return np.zeros(runs.shape[1:])
    if len(runs) == 1:
        return np.full(runs.shape[1:], np.nan)
    return runs.std(axis=0, ddof=1) / np.sqrt(len(runs))


@dataclass(frozen=True, eq=False)
class OneHidden:
    """Training of a network of one hidden layer under muP; T = steps + 1 times, P inputs, M test inputs, C outputs.

    R runs stand behind every number: one where the limit is exact, replicates of particles, networks of finite width.
    Numbers are means over runs, but for particles: there all of them together make one more network, `joint`, which
    numbers are of, and replicates give their standard errors.

    Attributes:
        course: of the runs; `course.outputs` has shape (R, T, P, C).
        joint: of all particles together, R = 1; None where there are none.
        gram: <x, x'> / d of the training inputs, shape (P, P).
        basis: orthonormal directions that training and test inputs span, shape (d, r).
        activation: in words.
        width: infinity, or neurons.
        gamma, rate, momentum: of training.
        exact: whether nothing is sampled.
        text: what was solved, how, and in how much memory.
        several: whether y had an axis for outputs.
    """

    course: Course
    joint: Course | None
    gram: Array
    basis: Array
    activation: str
    width: float
    gamma: float
    rate: float
    momentum: float
    exact: bool
    text: str
    several: bool = False

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of gradient steps taken, 0 .. steps."""
        return np.arange(self.course.losses.shape[1])

    @property
    def runs(self) -> Array:
        """Outputs of every run at the training inputs, (R, T, P, C)."""
        return self.course.outputs

    @property
    def outputs(self) -> Array:
        """Outputs at the training inputs, (T, P), or (T, P, C) where y had an axis for outputs."""
        return self._squeezed(self._mean("outputs"))

    @property
    def outputs_error(self) -> Array:
        """Standard error of `outputs`; NaN of a single network."""
        return self._squeezed(self._error("outputs"))

    @property
    def outputs_bias(self) -> Array:
        """Estimate of the bias of `outputs` by particles: (mean of replicates - joint) / (R - 1); else zeros.

        Particles pull at each other, so that S of them are off by O(1/S) in the mean.
        """
        if self.joint is None:
            return np.zeros(self.outputs.shape)
        return self._squeezed((self.runs.mean(axis=0) - self.joint.outputs[0]) / (len(self.runs) - 1))

    @property
    def test_outputs(self) -> Array:
        """Outputs at the test inputs, (T, M), or (T, M, C) where y had an axis for outputs."""
        return self._squeezed(self._mean("test_outputs"))

    @property
    def test_outputs_error(self) -> Array:
        """Standard error of `test_outputs`."""
        return self._squeezed(self._error("test_outputs"))

    @property
    def loss(self) -> Array:
        """Loss, summed over all training inputs and outputs, shape (T,)."""
        return self._mean("losses")

    @property
    def loss_error(self) -> Array:
        """Standard error of `loss`."""
        return self._error("losses")

    @property
    def kept(self) -> NDArray[np.int64]:
        """The times of kernels, shape (K,)."""
        return self.course.kept

    @property
    def features(self) -> Array:
        """Phi, <phi(h) phi(h)> over neurons at kept times, shape (K, P, P)."""
        return self._mean("features")

    @property
    def features_error(self) -> Array:
        """Standard error of `features`."""
        return self._error("features")

    @property
    def gradients(self) -> Array:
        """G, <g g> of g = phi'(h) V over pairs (input, output), Q = P C of them, at kept times, shape (K, Q, Q)."""
        return self._mean("gradients")

    @property
    def gradients_error(self) -> Array:
        """Standard error of `gradients`."""
        return self._error("gradients")

    @property
    def neurons(self) -> Neurons:
        """The trained neurons of every run; their U reads inputs as `basis`^T x / sqrt(d)."""
        return self.course.neurons

    def _mean(self, name: str) -> Array:
        return getattr(self.course if self.joint is None else self.joint, name).mean(axis=0)

    def _error(self, name: str) -> Array:
        return standard_error(getattr(self.course, name), self.exact)

    @property
    def kernel(self) -> Array:
        """The NTK at kept times, Phi (x) I + G * K, K the Gram matrix of inputs, shape (K, Q, Q)."""
        count = self.runs.shape[-1]
        gradients = self.gradients
        apart = np.einsum("kpq,cd->kpcqd", self.features, np.eye(count)).reshape(gradients.shape)
        return apart + gradients * np.kron(self.gram, np.ones((count, count)))

    @property
    def movement(self) -> Array:
        """How far features have moved at kept times: |Phi(t) - Phi(0)| / |Phi(0)|, shape (K,)."""
        features = self.features
        size = np.linalg.norm(features[:1], axis=(1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.linalg.norm(features - features[:1], axis=(1, 2)) / size

    def _squeezed(self, values: Array) -> Array:
        return values if self.several else values[..., 0]

    def describe(self) -> str:
        """Say what was solved, how, in how much memory, and how accurately."""
        if self.joint is None:
            return self.text
        error, bias = (float(np.abs(values).max()) for values in (self.outputs_error, self.outputs_bias))
        return f"{self.text}; standard error of outputs at most {error:.2g}, bias about {bias:.2g}"

    def __repr__(self) -> str:
        width = "infinite" if self.width == inf else f"{self.width:.0f}"
        return f"OneHidden({self.activation}, width {width}, {len(self.times) - 1} steps, {self.runs.shape[2]} inputs)"
