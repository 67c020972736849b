"""Numbers of one or several networks over training, and what is raised when they explode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.one_hidden.start import Neurons

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Course:
    """Outputs (R, T, P, C) and (R, T, M, C), losses (R, T), kernels (R, K, P, P) and (R, K, Q, Q) at kept times."""

    outputs: Array
    test_outputs: Array
    losses: Array
    kept: NDArray[np.int64]
    features: Array
    gradients: Array
    neurons: Neurons

    def cut(self, times: int) -> Course:
        """Return the first `times` times only."""
        few = int(np.sum(self.kept < times))
        return replace(
            self, outputs=self.outputs[:, :times], test_outputs=self.test_outputs[:, :times],
            losses=self.losses[:, :times], kept=self.kept[:few], features=self.features[:, :few],
            gradients=self.gradients[:, :few],
        )  # fmt: skip


class Diverged(Exception):
    """Raised when a loss explodes: the time, and the course before it."""

    def __init__(self, time: int, course: Course):
        self.time, self.course = time, course
        super().__init__(time)
