"""Rank collapse: layers of attention bring all tokens to one, without skips faster than any power."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.limits.tokens.inputs import Array, check_matrix, check_tokens, positive

WHERE = "rank_collapse"
NEAR = 1.0


def residual_of(x: Array) -> float:
    """Return |X - 1 mean^T| / |X| in the Frobenius norm; 0 for tokens that are all zero.

    Example:
        >>> residual_of(np.array([[1.0, 0.0], [1.0, 0.0]]))
        0.0
    """
    size = float(np.linalg.norm(x))
    return float(np.linalg.norm(x - x.mean(axis=0))) / size if size else 0.0


def rank_collapse(
    X: Any,
    layers: int,
    beta: float = 1.0,
    query_key: Any = None,
    value: Any = None,
    skip: float = 0.0,
    branch: float = 1.0,
) -> Array:
    """Return the rank residual |X - 1 mean^T| / |X| of tokens before the first and after every layer of attention.

    X <- skip X + branch softmax(beta X A^T X^T) X V^T. Without skips the residual falls like its own third power from
    layer to layer; with skips by a factor. The mean and the rest are carried apart, so that the curve is right to
    rounding even where it is 1e-200.

    Args:
        X: tokens, shape (m, d).
        layers: how many, L.
        beta: inverse temperature.
        query_key: A, shape (d, d), or (L, d, d) for one a layer; the identity by default.
        value: V, likewise.
        skip: factor of the skip.
        branch: factor of the attention.

    Returns:
        Shape (L + 1,).

    Valid when: one head, no mask, no normalisation between layers.

    Raises:
        InputError: tokens, numbers or matrices that cannot be.

    Source: dong-2021-rank-collapse.

    Example:
        >>> curve = rank_collapse(np.eye(3), layers=4)
        >>> bool(curve[4] < curve[3] ** 2.5)
        True
    """
    x = check_tokens(WHERE, X, directions=False)
    layers, beta = whole(WHERE, "layers", layers), positive(WHERE, "beta", beta)
    keys, values = (
        _stack(name, given, layers, x.shape[1]) for name, given in (("query_key", query_key), ("value", value))
    )
    _check_factors(skip, branch)
    mean, rest = x.mean(axis=0), x - x.mean(axis=0)
    curve = [_residual(mean, rest)]
    for key, weight in zip(keys, values, strict=True):
        mean, rest = _layer(mean, rest, beta, key, weight, float(skip), float(branch))
        curve.append(_residual(mean, rest))
    return np.array(curve)


def _layer(
    mean: Array, rest: Array, beta: float, key: Array | None, value: Array | None, skip: float, branch: float
) -> tuple[Array, Array]:
    """Return the mean and the rest after one layer.

    Weights are p_j (1 + e_ij) / (1 + s_i): p = softmax of what all rows share, e_ij = e^(beta <A r_i, r_j>) - 1,
    which keeps the digits of small differences where all logits are below NEAR.
    """
    shared, own = (part if key is None else part @ key.T for part in (mean, rest))
    common_logits, logits = beta * (rest @ shared), beta * (own @ rest.T)
    p = softmax(common_logits)
    if np.abs(logits).max(initial=0.0) < NEAR:
        excess = np.expm1(logits)
        level = excess @ p
        moved = ((excess - level[:, None]) * p / (1 + level[:, None])) @ rest
    else:
        moved = (softmax(logits + common_logits, axis=1) - p) @ rest
    common = mean + p @ rest + moved.mean(axis=0)
    moved = moved - moved.mean(axis=0)
    if value is not None:
        common, moved = value @ common, moved @ value.T
    return skip * mean + branch * common, skip * rest + branch * moved


def _residual(mean: Array, rest: Array) -> float:
    apart, size = float(np.linalg.norm(rest)), len(rest) ** 0.5 * float(np.linalg.norm(mean))
    total = np.hypot(apart, size)
    return apart / float(total) if total else 0.0


def _stack(name: str, given: Any, layers: int, dimension: int) -> list[Array | None]:
    if np.ndim(given) != 3:
        return [check_matrix(WHERE, name, given, dimension)] * layers
    if len(given) != layers:
        raise InputError(WHERE, f"{name} has {len(given)} matrices for {layers} layers", "give one a layer, or one")
    return [check_matrix(WHERE, f"{name}[{index}]", one, dimension) for index, one in enumerate(given)]


def _check_factors(skip: Any, branch: Any) -> None:
    for name, value in (("skip", skip), ("branch", branch)):
        if isinstance(value, bool) or not isinstance(value, float | int) or not np.isfinite(value):
            raise InputError(WHERE, f"{name}={value!r} is not a finite number", f"give e.g. {name}=0.5")
