"""Infinite self-attention: the discounted sum of all powers of one attention matrix, and the walk that it counts."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, NoLimit
from deeplimits.limits.tokens.inputs import Array, check_tokens, positive
from deeplimits.numerics.arrays import check

EPSILON = 1e-6


def base_operator(queries: Any, keys: Any) -> Array:
    """Return ReLU(Q K^T / d) / (|ReLU(Q K^T / d)| + 1e-6) in the Frobenius norm, shape (m, m).

    Args:
        queries: Q, shape (m, d).
        keys: K, shape (m, d).

    Raises:
        InputError: arrays that cannot be, or of different shapes.

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> base_operator(np.eye(2), np.eye(2)).round(4).tolist()
        [[0.7071, 0.0], [0.0, 0.7071]]
    """
    q, k = _pair("base_operator", queries, keys)
    scores = np.maximum(q @ k.T / q.shape[1], 0.0)
    return scores / (np.linalg.norm(scores) + EPSILON)


def infinite_attention(operator: Any, discount: float) -> Array:
    """Return C = sum over k >= 1 of g^k A^k = (I - g A)^-1 - I, by one solve, shape (m, m).

    Args:
        operator: A, shape (m, m).
        discount: g.

    Raises:
        NoLimit: g times the spectral radius of A is not below 1.
        InputError: a matrix or a number that cannot be.

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> infinite_attention([[0.5]], discount=0.5).round(4).tolist()
        [[0.3333]]
    """
    matrix, discount = _square("infinite_attention", operator), positive("infinite_attention", "discount", discount)
    reach = discount * spectral_radius(matrix)
    if reach >= 1:
        why = f"the discount times the spectral radius is {reach:.4g}: the sum over all powers diverges"
        raise NoLimit("infinite_attention", why, f"give a discount below {discount / reach:.4g}")
    return np.asarray(np.linalg.solve(np.eye(len(matrix)) - discount * matrix, discount * matrix), dtype=np.float64)


def truncated_attention(operator: Any, discount: float, terms: int) -> Array:
    """Return the first terms of the sum, g A + ... + (g A)^terms, shape (m, m).

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> truncated_attention([[0.5]], discount=0.5, terms=2).tolist()
        [[0.3125]]
    """
    where = "truncated_attention"
    step = positive(where, "discount", discount) * _square(where, operator)
    total = np.zeros_like(step)
    for _ in range(whole(where, "terms", terms)):
        total = step @ (total + np.eye(len(step)))
    return total


def truncation_bound(discount: float, terms: int) -> float:
    """Return g^(terms + 1) / (1 - g), at least the error of `truncated_attention` in the spectral norm if |A| <= 1.

    The error falls by the factor g rho(A) a term, rho the spectral radius.

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> truncation_bound(0.5, terms=3)
        0.125
    """
    discount = positive("truncation_bound", "discount", discount, below=1.0)
    return discount ** (whole("truncation_bound", "terms", terms, minimum=0) + 1) / (1 - discount)


def expected_visits(operator: Any, discount: float) -> Array:
    """Return how often a walk from token i is at token j before it stops, (I - g A)^-1, shape (m, m).

    The walk goes from i to j with chance g A_ij and stops with chance R_i = 1 - g sum_j A_ij.

    Raises:
        InputError: some R_i is negative, or some A_ij: then there is no such walk.
        NoLimit: the walk never stops.

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> expected_visits([[0.0, 1.0], [0.0, 0.0]], discount=0.5).tolist()
        [[1.0, 0.5], [0.0, 1.0]]
    """
    where = "expected_visits"
    matrix = _square(where, operator)
    if (matrix < 0).any():
        row, column = (int(i) for i in np.argwhere(matrix < 0)[0])
        raise InputError(where, f"entry ({row}, {column}) is {matrix[row, column]:.3g}", "give a matrix of chances")
    stops = 1 - positive(where, "discount", discount) * matrix.sum(axis=1)
    if (stops < 0).any():
        row = int(np.argmin(stops))
        why = f"token {row} would stop with chance {stops[row]:.3g}: its row sums to more than 1/discount"
        raise InputError(where, why, f"give a discount of at most {discount / (1 - stops[row]):.4g}")
    return np.eye(len(matrix)) + infinite_attention(matrix, discount)


def linear_scores(queries: Any, keys: Any) -> Array:
    """Return the scores of tokens by the variant of linear cost, ReLU(K q) / sum, q = sum_t |q_t| q_t, shape (m,).

    They stand for the left Perron vector of `base_operator`, the ReLU moved outside the sum over queries.

    Source: roffo-2026-infinite-self-attention.

    Example:
        >>> linear_scores([[1.0, 0.0], [1.0, 0.0]], [[3.0, 0.0], [1.0, 0.0]]).tolist()
        [0.75, 0.25]
    """
    q, k = _pair("linear_scores", queries, keys)
    scores = np.maximum(k @ (np.linalg.norm(q, axis=1) @ q), 0.0)
    total = float(scores.sum())
    if total == 0:
        why = "every key is opposite to the mean query: all scores are zero"
        raise InputError("linear_scores", why, "use the full matrix, base_operator, on these tokens")
    return scores / total


def linear_cosine(count: int) -> float:
    """Return the cosine of `linear_scores` and the left Perron vector for independent queries and keys of mean zero.

    (1 + pi / 2 sqrt(m)) / sqrt(pi (1 + pi / 2m)), up to 1/m and 1/d: with Gaussian z the scores are ReLU(z_j) and the
    vector is 1 + sqrt(pi / 2m) z_j, both times |k_j|. It falls to 1/sqrt(pi) = 0.564.

    Source: derived.

    Example:
        >>> round(linear_cosine(10**8), 3)
        0.564
    """
    m = whole("linear_cosine", "count", count, minimum=2)
    return (1 + pi / (2 * sqrt(m))) / sqrt(pi * (1 + pi / (2 * m)))


def spectral_radius(matrix: Array) -> float:
    """Return the largest modulus of an eigenvalue.

    Example:
        >>> spectral_radius(np.diag([1.0, -2.0]))
        2.0
    """
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def left_perron(matrix: Array) -> Array:
    """Return the left eigenvector of the largest eigenvalue of a matrix of nonnegative entries, of norm 1, shape (m,).

    Example:
        >>> left_perron(np.array([[1.0, 1.0], [0.0, 1.5]])).round(3).tolist()
        [0.0, 1.0]
    """
    values, vectors = np.linalg.eig(matrix.T)
    vector = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    return vector / np.linalg.norm(vector)


def _pair(where: str, queries: Any, keys: Any) -> tuple[Array, Array]:
    q, k = (check_tokens(where, one, directions=False) for one in (queries, keys))
    if q.shape != k.shape:
        raise InputError(where, f"queries have shape {q.shape} and keys {k.shape}", "give one of each a token")
    return q, k


def _square(where: str, operator: Any) -> Array:
    matrix = np.array(check(where, operator).numpy()[0], dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(where, f"the matrix has shape {matrix.shape}", "give a square one")
    return matrix
