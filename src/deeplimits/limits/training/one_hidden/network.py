"""Networks f = weight V^T phi(U x) / gamma of one hidden layer: outputs, gradients and curvature, many at once.

Arrays: U (..., n, r), V (..., n, c), X (..., P, r), f (..., P, c). Gradients are those of muP: n times the gradient,
which does not depend on what one neuron weighs, so that one code holds at every width, infinity included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def _turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def outputs(hidden: Array, V: Array, factor: float) -> Array:
    """Return f = factor phi(h)^T V of phi(h), (..., P, n)."""
    return factor * hidden @ V


def gradient(hidden: Array, slopes: Array | None, V: Array, X: Array, chi: Array) -> tuple[Array, Array]:
    """Return sum over inputs of (phi'(h) (V chi) x^T, phi(h) chi^T), for chi = dL/df.

    Args:
        hidden: phi(h), (..., P, n).
        slopes: phi'(h) likewise; None for the identity.
        V: readout.
        X: inputs.
        chi: (..., P, c).
    """
    if slopes is None:
        return V @ (_turned(chi) @ X), _turned(hidden) @ chi
    return _turned(slopes * (chi @ _turned(V))) @ X, _turned(hidden) @ chi


def curvature(
    U: Array, V: Array, X: Array, chi: Array, turn: Function, along: tuple[Array, Array], weight: float
) -> tuple[Array, Array]:
    """Return the derivative of `gradient` of a linear network along changes (A, B) of (U, V).

    d f = weight ((X A^T) V + (X U^T) B), d chi = turn(d f);
    (B chi^T X + V (d chi)^T X, A X^T chi + U X^T d chi).
    """
    A, B = along
    moved = turn(weight * (X @ _turned(A) @ V + X @ _turned(U) @ B))
    inner, change = _turned(chi) @ X, _turned(moved) @ X
    return B @ inner + V @ change, A @ _turned(inner) + U @ _turned(change)
