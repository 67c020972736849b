"""phi(x) = x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deeplimits.numerics.gaussian.family import Family

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Linear(Family):
    """The identity: K = k, dK = 1."""

    code: ClassVar[int] = 7

    @property
    def homogeneous(self) -> int:
        return 1

    @property
    def odd(self) -> bool:
        return True

    def function(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x)

    def derivative(self, x: np.ndarray) -> np.ndarray:
        return np.ones_like(x)

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(q) + 0, np.ones_like(q)

    def mean(self, q: np.ndarray) -> np.ndarray:
        return np.zeros_like(q)

    def slope(self, q: np.ndarray) -> np.ndarray:
        return np.ones_like(q)

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        k = k + 0 * (q1 + q2)
        return k, k.new_ones(()).expand(k.shape)

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return gap, span, np.ones_like(gap)

    def columns(self, q: np.ndarray) -> np.ndarray:
        return np.empty((0, len(q)))
