"""Statistical agreement: differences in standard errors, with what finite width and depth do taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deeplimits.testing.record import Log

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gap:
    """A difference of what should be equal, its standard error, and what other errors may add, each of one shape."""

    value: Array
    error: Array
    allowance: float = 0.0

    def minus(self, other: Gap) -> Gap:
        """Return the difference of two independent gaps."""
        return Gap(self.value - other.value, np.hypot(self.error, other.error), self.allowance + other.allowance)


def extrapolated(small: Gap, large: Gap) -> Gap:
    """Return 2 large - small: a gap with its term of first order in 1/size taken out, `large` at twice the size."""
    error = np.hypot(2 * large.error, small.error)
    return Gap(2 * large.value - small.value, error, 2 * large.allowance + small.allowance)


def bound(chance: float, numbers: int) -> float:
    """Return how many standard errors `numbers` numbers stay below, all of them, but for a chance.

    Example:
        >>> round(bound(1e-4, 1), 2), round(bound(1e-4, 30), 2)
        (3.89, 4.65)
    """
    return float(stats.norm.isf(chance / (2 * numbers)))


def agree(part: str, gap: Gap, what: str, fix: str, limit: float, log: Log) -> None:
    """Check that a gap is zero within `limit` standard errors.

    Args:
        part: name of the check.
        gap: entries that should be zero, shape (m,) or (k, k).
        what: what was compared, in words.
        fix: where to look if it does not hold.
        limit: of |gap| - allowance, in standard errors.
        log: where the check is kept.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.maximum(np.abs(gap.value) - gap.allowance, 0.0) / gap.error
    z = np.where(np.abs(gap.value) <= 1e-12, 0.0, z)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.nan_to_num(z, nan=np.inf))), z.shape))
    worst = float(z[place])
    largest = f"{gap.value[place]:.3g} +- {gap.error[place]:.2g}"
    words = f"{what}: largest {largest}, {worst:.2f} standard errors (bound {limit:.2f})"
    log.check(part, worst, 0, limit, words, fix)


def matrix(sample: Any, predicted: Array) -> Gap:
    """Return the upper triangle of mean - predicted of a Sample or a Diffusion."""
    upper = np.triu_indices(len(predicted))
    return Gap((sample.mean - predicted)[upper], sample.standard_error[upper])


def tangent(sample: Any, predicted: Array) -> Gap:
    """Return the upper triangle of the mean NTK - predicted of a Sample."""
    upper = np.triu_indices(len(predicted))
    return Gap((sample.ntk_mean - predicted)[upper], sample.ntk_standard_error[upper])


def law(sample: Any) -> Gap:
    """Return the mean Gram matrix, the mean of log q and its variance of a Sample or a Diffusion, (k (k + 5) / 2,)."""
    gram = sample.gram
    upper = np.triu_indices(gram.shape[1])
    logs = np.log(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 1e-300))
    count = len(gram)
    variance = logs.var(0, ddof=1)
    fourth = ((logs - logs.mean(0)) ** 4).mean(0)
    errors = np.sqrt(np.maximum(fourth - (count - 3) / (count - 1) * variance**2, 0.0) / count)
    value = np.concatenate([sample.mean[upper], logs.mean(0), variance])
    error = np.concatenate([sample.standard_error[upper], logs.std(0, ddof=1) / np.sqrt(count), errors])
    return Gap(value, error)
