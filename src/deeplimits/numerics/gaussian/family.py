"""What every Gaussian family answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    import torch


class Family(ABC):
    """A function phi with its expectations over (u, v) ~ N(0, [[q1, k], [k, q2]]).

    K = E[phi(u) phi(v)], dK = E[phi'(u) phi'(v)] (the derivative of K in k), Q = E[phi(u)^2], P = E[phi'(u)^2].
    Families are frozen and hashable. Numpy methods take arrays of any shape; `pair` takes torch tensors.
    """

    code: ClassVar[int]
    """Which compiled formula of the tile engine is this family's."""

    @property
    def constants(self) -> tuple[float, ...]:
        """The numbers of the compiled formula."""
        return ()

    @property
    def homogeneous(self) -> int | None:
        """The degree p of phi(t x) = t**p phi(x), t > 0; None where there is none."""
        return None

    @property
    def odd(self) -> bool:
        """Whether phi(-x) = -phi(x)."""
        return False

    @abstractmethod
    def function(self, x: np.ndarray) -> np.ndarray:
        """Return phi(x), entry by entry."""

    @abstractmethod
    def derivative(self, x: np.ndarray) -> np.ndarray:
        """Return phi'(x), entry by entry."""

    @abstractmethod
    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (Q, P) at variances q >= 0."""

    @abstractmethod
    def mean(self, q: np.ndarray) -> np.ndarray:
        """Return E[phi(u)] at variances q >= 0."""

    @abstractmethod
    def slope(self, q: np.ndarray) -> np.ndarray:
        """Return dQ/dq at variances q >= 0."""

    @abstractmethod
    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (K, dK), broadcast, in float64.

        Values and first gradients are finite at identical, opposite and zero inputs; where the true derivative is
        infinite there, it counts as 0.
        """

    @abstractmethod
    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sqrt(Q1 Q2) - K, sqrt(Q1 Q2) + K, dK) without cancellation.

        Args:
            gap: sqrt(q1 q2) - k, with its own relative accuracy however small.
            span: sqrt(q1 q2) + k, likewise.
            q1: the variances of u.
            q2: the variances of v.
        """

    @abstractmethod
    def columns(self, q: np.ndarray) -> np.ndarray:
        """Return what the tile engine wants precomputed for each row, shape (m, N)."""

    def error(self, q: np.ndarray | float) -> float:
        """Return an estimate of the largest error of Q and P relative to themselves; 0 for a closed form."""
        return 0.0


def root_gap(q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """Return (sqrt(q1) - sqrt(q2))**2 without cancellation."""
    total = np.sqrt(q1) + np.sqrt(q2)
    return ((q1 - q2) / np.where(total > 0, total, 1)) ** 2
