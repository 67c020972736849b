"""Inputs, targets and the two fixed matrices around a network's states, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.numerics.arrays import check, is_tensor
from deeplimits.numerics.seeds import generator

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A regression problem on states of dimension D.

    Attributes:
        states: E x of the training inputs, (P, D).
        targets: (P, C).
        tests: E x of further inputs, (M, D).
        out: unembedding, (D, C).
        several: whether the targets had an axis for outputs.
    """

    states: Array
    targets: Array
    tests: Array
    out: Array
    several: bool


def embedded(where: str, X: Any, y: Any, X_test: Any, embedding: Any, unembedding: Any) -> Embedded:
    """Return a checked problem in float64.

    Args:
        where: named in errors.
        X: (P, d).
        y: (P,) or (P, C).
        X_test: (M, d), or None.
        embedding: E^T, (d, D); None for states that are the inputs.
        unembedding: (D, C); None draws entries N(0, 1/D), always the same ones.

    Raises:
        InputError: not numbers, NaN or infinity, shapes that do not fit.

    Example:
        >>> embedded("here", np.eye(2), [1.0, -1.0], None, None, None).targets.shape
        (2, 1)
    """
    inputs = check(where, X, X_test)
    x, tests = (np.empty((0, inputs.features)) if v is None else np.asarray(v, np.float64) for v in inputs.numpy())
    shape = list(np.shape(y.detach().cpu() if is_tensor(y) else y)) if hasattr(y, "__len__") else []
    if len(shape) not in (1, 2) or shape[0] != len(x) or 0 in shape:
        why = f"y has shape {tuple(shape)}, and X has {len(x)} rows"
        raise InputError(where, why, f"give y of shape ({len(x)},) or ({len(x)}, outputs)")
    several = len(shape) == 2
    targets = _matrix(where, "y", y if several else (y[:, None] if is_tensor(y) else np.asarray(y)[:, None]))
    if embedding is not None:
        matrix = _matrix(where, "embedding", embedding)
        if len(matrix) != x.shape[1]:
            why = f"embedding has shape {matrix.shape}, and X has {x.shape[1]} columns"
            raise InputError(where, why, f"give shape ({x.shape[1]}, D)")
        x, tests = x @ matrix, tests @ matrix
    D, C = x.shape[1], targets.shape[1]
    with np.errstate(over="ignore"):
        for name, rows in (("X", x), ("X_test", tests), ("y", targets)):
            if not np.isfinite((rows**2).sum()):
                raise InputError(where, f"the squares of {name} are beyond float64", f"scale {name} down")
    if unembedding is None:
        out = generator(0, "unembedding").standard_normal((D, C)) / D**0.5
    else:
        out = _matrix(where, "unembedding", unembedding)
        if out.shape != (D, C):
            raise InputError(where, f"unembedding has shape {out.shape}", f"give shape ({D}, {C})")
    return Embedded(x, targets, tests, out, several)


def _matrix(where: str, name: str, value: Any) -> Array:
    try:
        return np.asarray(check(where, value).numpy()[0], dtype=np.float64)
    except InputError as error:
        raise InputError(where, error.why.replace("X1", name), error.fix) from None
