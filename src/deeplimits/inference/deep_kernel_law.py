"""What a deep kernel machine says at new rows, once its Gram matrices are learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
import torch
from torch import Tensor

from deeplimits.inference.deep_kernel_evidence import Answer, exact
from deeplimits.inference.deep_kernel_layers import Blocks
from deeplimits.inference.deep_kernel_machine import State, Task, evidence, features, forward
from deeplimits.inference.prior import row_blocks

Moments = tuple[np.ndarray, np.ndarray]


def gram(one: np.ndarray, two: np.ndarray) -> Tensor:
    """Return one two^T / d, shape (N, M)."""
    return torch.from_numpy(one @ two.T / one.shape[1])


@dataclass(frozen=True, eq=False)
class MachineLaw:
    """The Gaussian law of the function, given the learned Gram matrices.

    Attributes:
        task: what was learned.
        state: where learning stopped.
        base: rows of the Gram matrices, shape (B, d): the training rows, or inducing points.
        flat: whether targets had one axis.
    """

    task: Task
    state: State
    base: np.ndarray
    flat: bool

    @property
    def whole(self) -> bool:
        """Whether the covariance of all training rows is kept: Gaussian noise, no inducing points."""
        return self.task.noise is not None and not self.task.sparse

    @cached_property
    def answer(self) -> Answer:
        """The law of the features' weights, where the training rows are seen through features."""
        return evidence(self.task, self.state.kernel)

    def likelihood(self, unit: float) -> float:
        """Return log p(y | G_L), its bound, or Laplace's approximation, for targets in units of sqrt(unit)."""
        if not self.whole:
            found = float(self.answer.value)
        else:
            found = float(exact(self.state.kernel.base, self.task.targets, self.task.noise or 0.0))
        return found - 0.5 * log(unit) * self.task.targets.numel()

    def mean(self, X: np.ndarray) -> np.ndarray:
        """Return the mean at M rows, shape (M,) or (M, C)."""
        return self._each(X, lambda part: self._moments(part, False))[0]

    def mean_and_variance(self, X: np.ndarray) -> Moments:
        """Return the mean, and the variance: (M,) where it is that of every output, else (M, C)."""
        mean, variance = self._each(X, lambda part: self._moments(part, False))
        return mean, np.maximum(variance[:, 0] if variance.shape[1] == 1 else variance, 0.0)

    def mean_and_covariance(self, X: np.ndarray) -> Moments:
        """Return the mean and the covariance of every output, shape (M, M)."""
        mean, covariance = self._moments(X, True)
        return self._shaped(mean), (covariance + covariance.T) / 2

    def _each(self, X: np.ndarray, of: Callable[[np.ndarray], Moments]) -> Moments:
        means, variances = zip(*(of(part) for part in self._parts(X)), strict=True)
        return self._shaped(np.concatenate(means)), np.concatenate(variances)

    def _parts(self, X: np.ndarray) -> Iterator[np.ndarray]:
        for part in row_blocks(len(X), 8 * len(self.base)):
            yield X[part]

    def _shaped(self, mean: np.ndarray) -> np.ndarray:
        return mean[:, 0] if self.flat else mean

    @torch.no_grad()
    def _moments(self, X: np.ndarray, full: bool) -> Moments:
        own = gram(X, X) if full else torch.from_numpy(np.einsum("nd,nd->n", X, X) / X.shape[1])
        inputs = Blocks(self.task.inputs.base, gram(X, self.base), own)
        kernel = forward(self.task, self.state.roots, inputs).kernel
        assert kernel.cross is not None and kernel.own is not None
        if self.whole:
            lower, weights = self._factor
            mean, half = kernel.cross @ weights, torch.linalg.solve_triangular(lower, kernel.cross.T, upper=False)
            spread = kernel.own - half.T @ half if full else (kernel.own - (half**2).sum(0))[:, None]
            return mean.numpy(), spread.numpy()
        lower, _, _ = features(self.task, self.state.kernel)
        outer = torch.linalg.solve_triangular(lower, kernel.cross[:, self.task.chosen[-1].rows].T, upper=False).T
        mean, added = self.answer.at(outer)
        if full:
            return mean.numpy(), (kernel.own - outer @ outer.T + self.answer.covariance(outer)).numpy()
        left = kernel.own - (outer**2).sum(1)
        return mean.numpy(), (left[:, None] + added).numpy()

    @cached_property
    def _factor(self) -> tuple[Tensor, Tensor]:
        base = self.state.kernel.base
        lower = torch.linalg.cholesky(base + (self.task.noise or 0.0) * torch.eye(len(base), dtype=base.dtype))
        return lower, torch.cholesky_solve(self.task.targets, lower)
