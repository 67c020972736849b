"""What training at infinite depth gave: outputs, Gram matrices and states, with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.branches import MeanResNet
from deeplimits.limits.training.branches.solve import Run
from deeplimits.numerics.embedded import Array


@dataclass(frozen=True, eq=False)
class MeanODE:
    """Training of a network of infinite depth and any inner width, or of infinite inner width at a finite depth.

    Attributes:
        net: the description.
        depth: a whole number, or infinity.
        rate: learning rate.
        run: every number over time, the mean over runs with independent units.
        standard_error: of each number of `run`.
        targets: y, (P, C).
        layer_times: where states are kept, from 0 to 1.
        depth_error: how far half as many steps along the depth move the outputs; 0 at a finite depth.
        units: units at a node, over all runs.
        seed: of all units.
        text: what was solved, how, and how accurately.
        several: whether y had an axis for outputs.
    """

    net: MeanResNet
    depth: float
    rate: float
    run: Run
    standard_error: Run
    targets: Array
    layer_times: Array
    depth_error: float
    units: int
    seed: int
    text: str
    several: bool

    @property
    def times(self) -> NDArray[np.int64]:
        """Numbers of gradient steps taken, 0 .. steps."""
        return np.arange(len(self.run.outputs))

    @property
    def outputs(self) -> Array:
        """Outputs at the training inputs, (T, P), or (T, P, C) where y had an axis for outputs."""
        return self._squeezed(self.run.outputs)

    @property
    def outputs_error(self) -> Array:
        """Standard error of `outputs`."""
        return self._squeezed(self.standard_error.outputs)

    @property
    def test_outputs(self) -> Array:
        """Outputs at the test inputs, (T, M), or (T, M, C) where y had an axis for outputs."""
        return self._squeezed(self.run.test_outputs)

    @property
    def test_outputs_error(self) -> Array:
        """Standard error of `test_outputs`."""
        return self._squeezed(self.standard_error.test_outputs)

    @cached_property
    def loss(self) -> Array:
        """Sum over inputs and outputs of (f - y)^2 / 2 at every time, (T,)."""
        return ((self.run.outputs - self.targets) ** 2).sum((1, 2)) / 2

    @property
    def gram(self) -> Array:
        """Gram matrix over pairs (input, output), (T, P C, P C): df/dt = -rate gram (f - y) at small rates."""
        return self.run.gram

    @cached_property
    def smallest_eigenvalue(self) -> Array:
        """Smallest eigenvalue of `gram` at every time, (T,)."""
        return np.asarray(np.linalg.eigvalsh(self.run.gram)[:, 0], np.float64)

    @cached_property
    def loss_bound(self) -> Array:
        """Loss that the Gram matrices allow gradient flow at most, L(0) exp(-2 rate sum of smallest eigenvalues), (T,).

        Source: derived (dL/dt <= -2 rate lambda_min L).
        """
        passed = np.concatenate([[0.0], np.cumsum(self.smallest_eigenvalue[:-1])])
        return self.loss[0] * np.exp(-2 * self.rate * passed)

    @property
    def states(self) -> Array:
        """States of the training inputs at `layer_times`, before and after training, (2, layer times, P, D)."""
        return self.run.states

    @property
    def moved(self) -> Array:
        """Root mean square distance of the branches' units (u, v) from their start at every time, (T,)."""
        return self.run.moved

    def _squeezed(self, values: Array) -> Array:
        return values if self.several else values[..., 0]

    def describe(self) -> str:
        """Say what was solved, how, and how accurately."""
        return self.text

    def __repr__(self) -> str:
        at = f"depth={self.depth:g}, scale={self.net.scale:g}, rate={self.rate:g}, units={self.units}"
        return f"MeanODE({len(self.run.outputs) - 1} steps, {len(self.targets)} inputs, {at})"
