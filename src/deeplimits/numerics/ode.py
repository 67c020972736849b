"""The Runge-Kutta tableau that the flows are solved with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method for autonomous equations: stages (S, S) and weights (S,)."""

    stages: np.ndarray
    weights: np.ndarray
    order: int


@cache
def dormand_prince_8() -> Tableau:
    """Return the 12-stage method of order 8 of Dormand and Prince, as scipy ships it.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, sec. II.5.

    Example:
        >>> round(float(dormand_prince_8().weights.sum()), 12)
        1.0
    """
    from scipy.integrate import DOP853

    return Tableau(np.asarray(DOP853.A)[:12, :12], np.asarray(DOP853.B)[:12], 8)


def graded_steps(count: int, exponent: int = 5) -> np.ndarray:
    """Return `count` step lengths that sum to 1 and are short near 0, where kernels of opposite inputs are rough.

    Example:
        >>> float(graded_steps(2).sum())
        1.0
    """
    return np.diff((np.arange(count + 1) / count) ** exponent)
