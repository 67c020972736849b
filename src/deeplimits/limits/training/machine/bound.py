"""A bound on the expected loss of a kernel machine, term by term, from its Rademacher complexity."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, log2, sqrt
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """With probability 1 - delta over N training rows, the expected loss is at most `total`.

    total = loss + 2 norm sqrt(trace) / N + 3 sqrt(log(2/delta) / (2 N))

    The loss is cut off at 1 and moves by at most 1 with each unit of the output. For classes it is
    min(1, max(0, 1 - y f)), at least the share of errors; for numbers min(1, max(0, |y - f| - epsilon)).

    Attributes:
        loss: its mean over the training rows.
        norm: |f| = sqrt(b.K b), of the machine.
        trace: of the kernel.
        rows: N.
        delta: chance that the bound fails.

    Valid when: `total`: the norm allowed was fixed before the rows were seen. `total_any_norm`: always, rows being
        independent; it pays for reading the norm off the machine.

    Source: chen-2021-nn-svm; `total_any_norm` is derived (a union over norms 1, 2, 4, ...).

    Example:
        >>> found = Bound(loss=0.1, norm=1.0, trace=1000.0, rows=1000, delta=0.05)
        >>> round(found.complexity, 4), round(found.confidence, 4), round(found.total, 4)
        (0.0632, 0.1288, 0.2921)
    """

    loss: float
    norm: float
    trace: float
    rows: int
    delta: float

    @property
    def complexity(self) -> float:
        """2 norm sqrt(trace) / N."""
        return 2 * self.norm * sqrt(self.trace) / self.rows

    @property
    def confidence(self) -> float:
        """3 sqrt(log(2/delta) / (2 N))."""
        return 3 * sqrt(log(2 / self.delta) / (2 * self.rows))

    @property
    def total(self) -> float:
        """The bound; above 1 it says nothing."""
        return self.loss + self.complexity + self.confidence

    @property
    def total_any_norm(self) -> float:
        """The bound with norm rounded up to 2^k and delta shared out as delta / ((k + 1) (k + 2)), k = 0, 1, ..."""
        k = max(0, ceil(log2(self.norm))) if self.norm > 0 else 0
        shared = self.delta / ((k + 1) * (k + 2))
        confidence = 3 * sqrt(log(2 / shared) / (2 * self.rows))
        return self.loss + 2 * 2.0**k * sqrt(self.trace) / self.rows + confidence


def bound(where: str, losses: Array, weights: Array, outputs: Array, diagonal: Array, delta: Any) -> Bound:
    """Return the bound of a machine f = K b.

    Args:
        where: named in errors.
        losses: of the training rows, not yet cut off, shape (N,).
        weights: b, shape (N,).
        outputs: K b, shape (N,).
        diagonal: of K, shape (N,).
        delta: between 0 and 1.

    Raises:
        InputError: a delta that is no chance.

    Example:
        >>> found = bound("here", np.array([0.0, 3.0]), np.ones(2), np.ones(2), np.ones(2), 0.1)
        >>> found.loss, round(found.norm, 6), found.trace
        (0.5, 1.414214, 2.0)
    """
    real = isinstance(delta, Real) and not isinstance(delta, bool | np.bool_)
    if not real or not 0 < float(delta) < 1:
        raise InputError(where, f"delta={delta!r} is not a chance between 0 and 1", "give e.g. delta=0.05")
    norm = sqrt(max(float(weights @ outputs), 0.0))
    return Bound(float(np.minimum(losses, 1.0).mean()), norm, float(diagonal.sum()), len(weights), float(delta))
