"""Limits of slowly converging sequences."""

from __future__ import annotations

import numpy as np


def accelerate(sums: np.ndarray) -> float:
    """Return the limit of partial sums S(L) taken at L = 2^k, by Wynn's epsilon algorithm.

    Valid when: S(L) - S is a sum of powers of L, which doubling L turns into geometric terms.

    Args:
        sums: partial sums at successive doublings, shape (K,), K >= 3.

    Source: Wynn (1956), Math. Comp. 10, 91.

    Example:
        >>> import math
        >>> sums = [sum(1 / l**2 for l in range(1, 2**k + 1)) for k in range(4, 13)]
        >>> abs(accelerate(np.array(sums)) - math.pi**2 / 6) < 1e-10
        True
    """
    older, newer = np.zeros(len(sums) + 1), np.asarray(sums, dtype=np.longdouble)
    best, change = newer[-1], np.inf
    for column in range(1, len(sums)):
        difference = np.diff(newer)
        if np.any(np.abs(difference) <= 1e-17 * np.abs(newer[-1])):
            break
        older, newer = newer, older[1:-1] + 1 / difference
        if column % 2 == 0 and len(newer) > 1:
            step = abs(newer[-1] - newer[-2])
            if step < change:
                best, change = newer[-1], step
    return float(best)
