"""The front of the question how a deep linear network trains: data in, a record out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.limits.tokens.inputs import check_times
from deeplimits.limits.training.linear.inputs import LARGEST, check_data, check_not_negative
from deeplimits.limits.training.linear.modes import strengths
from deeplimits.limits.training.linear.record import DeepLinear
from deeplimits.numerics.arrays import check_memory

WHERE = "deep_linear"
NOTHING = 1e-12  # singular values below this share of the largest are rounding
WHITE = 1e-6  # how far the input covariance may turn a mode, as a share of itself

Array = NDArray[np.float64]


def deep_linear(
    X: Any,
    y: Any,
    *,
    layers: float,
    time: float | Sequence[float],
    initial: ArrayLike = 1e-3,
    whiten: bool = False,
) -> DeepLinear:
    """Return how a deep linear network W_N ... W_1 learns data by gradient flow on sum (f - y)^2 / 2.

    With y'X = U S V' and X'X V = V diag(c), the product stays U diag(u) V' and each of its strengths moves alone,
    du/dt = N c u^(2 - 2/N) (s - u), s = S / c. Modes are those with S > 0; the product is 0 elsewhere at the start.

    Args:
        X: inputs, shape (P, d); nothing is centred, and the network has no biases.
        y: targets, shape (P,) or (P, C).
        layers: N >= 1 weight matrices; may be infinite.
        time: rate times steps of gradient descent (N times that for infinite N): the last, or rising ones to look at.
        initial: strength of every mode at the start, a number or shape (m,), largest target first.
        whiten: take X W for X, W symmetric with (X W)'(X W) = P I on the span of the rows. `matrix` and `predict` of
            the record still speak of inputs as given.

    Valid when: the layers start balanced, W_(j+1)' W_(j+1) = W_j W_j', and aligned with the data, as
    `deeplimits.training.balanced` makes them; hidden layers are no narrower than the number of modes. Other starts
    follow `deeplimits.training.EndToEnd` if they are balanced, and no law here if they are not.

    Raises:
        InputError: data, times or numbers that cannot be; inputs whose covariance mixes the modes; targets that are
            all zero, or orthogonal to the inputs.

    Source: saxe-2013-deep-linear; arora-2018-implicit-acceleration (any N).

    Example:
        >>> import numpy as np
        >>> found = deep_linear(np.eye(3), np.diag([3.0, 2.0, 1.0]), layers=2, time=10.0, initial=0.01)
        >>> found.learned(0.5).round(2)
        array([0.95, 1.32, 2.3 ])
    """
    count = whole(WHERE, "layers", layers, infinite=True)
    x, targets, flat = check_data(WHERE, X, y)
    times = check_not_negative(WHERE, "time", check_times(WHERE, time, whole=False))
    if not isinstance(whiten, bool | np.bool_):
        raise InputError(WHERE, f"whiten={whiten!r} is not True or False", "give one of them")
    whitening = _whitening(x) if whiten else None
    x = x if whitening is None else x @ whitening
    s, c, left, right = _modes(x, targets)
    start = _initial(initial, len(s))
    check_memory(WHERE, 24 * len(times) * (len(s) + 16), "the strengths at every time", "ask for fewer times")
    floor = max(0.0, float((targets**2).sum() - (c * s**2).sum()) / 2)
    found = strengths(times, s, start, count, c)
    return DeepLinear(count, times, s, c, start, found, left, right, whitening, floor, flat)


def _whitening(x: Array) -> Array:
    """Return sqrt(P) (X'X)^(-1/2), zero where X'X is."""
    _, size, right = np.linalg.svd(x, full_matrices=False)
    kept = size > len(x) ** 0.5 * NOTHING * size[0]
    return len(x) ** 0.5 * (right[kept].T / size[kept]) @ right[kept]


def _modes(x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Return targets, speeds and directions of the modes."""
    check_memory(WHERE, 24 * x.shape[1] ** 2, "the covariance of the inputs", "use fewer columns")
    with np.errstate(over="ignore", invalid="ignore"):
        both, inputs = y.T @ x, x.T @ x
    if not (np.isfinite(both).all() and np.isfinite(inputs).all()):
        raise InputError(WHERE, "products of X and y are too large for float64", "measure in other units")
    left, size, right = np.linalg.svd(both, full_matrices=False)
    kept = size > NOTHING * np.linalg.norm(x) * np.linalg.norm(y)
    if not kept.any():
        raise InputError(WHERE, "y'X is zero: there is nothing to learn", "give targets that depend on the inputs")
    left, size, right = left[:, kept], size[kept], right[kept].T
    seen = inputs @ right
    c = np.einsum("dm,dm->m", right, seen)
    turned = np.linalg.norm(seen - right * c, axis=0) / c
    if turned.max() > WHITE:
        mode = int(np.argmax(turned))
        why = f"X'X turns mode {mode} of y'X by {turned[mode]:.2g} of its length, so the modes do not move alone"
        fix = "pass whiten=True, or follow the product with deeplimits.training.EndToEnd, which needs no white inputs"
        raise InputError(WHERE, why, fix)
    s = size / c
    order = np.argsort(-s, kind="stable")
    both = np.concatenate([s, c])
    if both.min() < 1 / LARGEST or both.max() > LARGEST:
        raise InputError(WHERE, f"targets reach {s.max():g}, X'X reaches {c.max():g}", "measure in other units")
    return s[order], c[order], left[:, order], right[:, order]


def _initial(initial: ArrayLike, modes: int) -> Array:
    given = check_not_negative(WHERE, "initial", initial)
    if given.ndim and given.shape != (modes,):
        why = f"initial has shape {given.shape}, and the data have {modes} mode{'s' if modes > 1 else ''}"
        raise InputError(WHERE, why, f"give a number, or shape ({modes},)")
    return np.broadcast_to(given, (modes,)).copy()
