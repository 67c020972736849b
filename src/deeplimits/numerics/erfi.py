"""The inverse of the imaginary error function."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
from scipy.special import dawsn

MOST_STEPS = 20


def inverse_erfi(y: Any) -> np.ndarray:
    """Return u with erfi(u) = y, erfi(u) = (2/sqrt(pi)) int_0^u exp(s**2) ds, entry by entry.

    Halley steps on log erfi(|u|) = u**2 + log D(u) + log(2/sqrt(pi)), whose derivative is 1/D(u): with Dawson's D
    nothing overflows, however large y is.

    Source: definition (Halley's method).

    Example:
        >>> from scipy.special import erfi
        >>> bool(abs(inverse_erfi(erfi(1.5)) - 1.5) < 1e-14), float(inverse_erfi(0.0))
        (True, 0.0)
    """
    y = np.asarray(y, dtype=np.float64)
    size = np.abs(y) * (sqrt(pi) / 2)
    inside = (size > 0) & np.isfinite(size)
    scale = np.where(inside, size, 1.0)
    u = np.minimum(scale, np.sqrt(np.log1p(scale)))
    for _ in range(MOST_STEPS):
        dawson = dawsn(u)
        gap = u * u + np.log(dawson / scale)
        move = dawson * gap / (1 + 0.5 * gap * (1 - 2 * u * dawson))
        u = u - move
        if not (np.abs(move) > 1e-6 * u).any():  # the error after a step is of the order of its cube
            break
    return np.where(inside, np.copysign(u, y), y)
