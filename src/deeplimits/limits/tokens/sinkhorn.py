"""Doubly stochastic attention by Sinkhorn's algorithm, and tokens that it moves."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from deeplimits.limits.tokens.inputs import Array

RESIDUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Balanced:
    """A doubly stochastic matrix e^(logits + rows + columns), and how far its columns are from summing to 1.

    Attributes:
        matrix: shape (m, m); rows sum to 1 up to rounding.
        rows, columns: logarithms of the factors, shape (m,).
        residual: largest |column sum - 1|.
        iterations: how many were done.
    """

    matrix: Array
    rows: Array
    columns: Array
    residual: float
    iterations: int


def balance(
    logits: Array, iterations: int = 1000, residual: float = RESIDUAL, columns: Array | None = None
) -> Balanced:
    """Return the doubly stochastic matrix D e^logits E, D and E diagonal, in the log domain.

    Rows and columns are divided by their sums in turn, rows last, so that every output of attention is a mean of
    values; one iteration is a softmax. For symmetric logits D = E, and each iteration takes the geometric mean of both
    factors, which converges much faster.

    Args:
        logits: shape (m, m).
        iterations: at most so many.
        residual: the |column sum - 1| to stop at.
        columns: logarithms of E to start from, shape (m,).

    Source: sander-2021-sinkformers.

    Example:
        >>> found = balance(np.array([[0.0, 1.0], [2.0, 0.0]]))
        >>> found.matrix.sum(axis=0).round(9).tolist(), found.matrix.sum(axis=1).round(9).tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """
    symmetric = np.array_equal(logits, logits.T)
    g = np.zeros(len(logits)) if columns is None else columns
    done = 1
    while True:
        f, matrix = _rows(logits + g)
        found = float(np.abs(matrix.sum(axis=0) - 1).max())
        if found <= residual or done == iterations:
            return Balanced(matrix, f, g, found, done)
        g = (f + g) / 2 if symmetric else _rows(logits.T + f)[0]
        done += 1


def _rows(logits: Array) -> tuple[Array, Array]:
    """Return the logarithms of the factors that make rows sum to 1, and the matrix with these."""
    top = logits.max(axis=1)
    matrix = np.exp(logits - top[:, None])
    sums = matrix.sum(axis=1)
    return -top - np.log(sums), matrix / sums[:, None]


@dataclass(eq=False)
class SinkhornFlow:
    """x_i' = V (sum_j K_ij x_j - x_i) / epsilon, K the doubly stochastic matrix of the logits <A x_i, x_j> / epsilon.

    For many tokens of density rho and small epsilon, A = I: x' = V grad log rho / 2, which for V = -I is diffusion of
    heat, rho' = Laplacian rho / 2.

    Attributes:
        epsilon: width of the kernel e^(-|x - y|^2 / 2 epsilon), which <x, y> / epsilon gives too.
        query_key: A, shape (d, d), or None for the identity.
        value: V, likewise.
        iterations: of Sinkhorn's algorithm, at most.
        residual: the largest |column sum - 1| so far.

    Source: sander-2021-sinkformers (constants derived for this kernel).
    """

    epsilon: float
    query_key: Array | None
    value: Array | None
    iterations: int
    residual: float = 0.0
    _columns: Array | None = field(default=None, repr=False)

    def attention(self, x: Array) -> Balanced:
        """Return K of the tokens, started from the factors of the last one while the algorithm converges."""
        logits = self._key(x) @ x.T / self.epsilon
        if self.query_key is None:
            logits = (logits + logits.T) / 2
        found = balance(logits, self.iterations, columns=self._columns)
        if found.residual > RESIDUAL and self._columns is not None:
            found = balance(logits, self.iterations)
        self.residual = max(self.residual, found.residual)
        self._columns = found.columns if self.residual <= RESIDUAL else None
        return found

    def velocity(self, x: Array) -> Array:
        """Return x', shape (m, d)."""
        moved = (self.attention(x).matrix @ x - x) / self.epsilon
        return moved if self.value is None else moved @ self.value.T

    def jacobian(self, x: Array) -> Array:
        """Return the derivative of `velocity`, shape (m, d, m, d): the factors move so that all sums stay 1."""
        (m, d), k, each = x.shape, self.attention(x).matrix, np.arange(len(x))
        a = np.eye(d) if self.query_key is None else self.query_key
        mean, back = k @ x, k.T @ x
        key, query = x @ a.T / self.epsilon, x @ a / self.epsilon
        rows = np.einsum("ik,ib->ikb", k, key)
        rows[each, each] += mean @ a / self.epsilon
        columns = np.einsum("kj,jb->jkb", k, query)
        columns[each, each] += back @ a.T / self.epsilon
        free = np.append(np.ones(m), -np.ones(m)) / (2 * m) ** 0.5
        system = np.block([[np.eye(m), k], [k.T, np.eye(m)]]) + np.outer(free, free)
        sums = np.concatenate([rows, columns]).reshape(2 * m, m * d)
        f, g = np.linalg.solve(system, -sums).reshape(2, m, m, d)
        turn = np.einsum("ia,ikb->iakb", mean, f) + np.einsum("ij,ja,jkb->iakb", k, x, g, optimize=True)
        turn += np.einsum("ik,ka,ib->iakb", k, x, key) + np.einsum("ik,ab->iakb", k, np.eye(d))
        turn[each, :, each, :] += np.einsum("ij,ja,jb->iab", k, x, query) - np.eye(d)
        moved = turn if self.value is None else np.einsum("ca,iakb->ickb", self.value, turn)
        return moved / self.epsilon

    def energy(self, x: Array) -> float:
        """Return OT(rho, rho) / 2 epsilon, the entropic cost of transport of the tokens to themselves.

        The cost of a pair is <A(x - y), x - y> / 2; for A = V = I the flow descends it (for V = -I, ascends).
        """
        found = self.attention(x)
        own = np.sum(self._key(x) * x, axis=1) / (2 * self.epsilon)
        return float(np.mean(found.rows + found.columns) / 2 + np.log(len(x)) / 2 + np.mean(own))

    def _key(self, x: Array) -> Array:
        return x if self.query_key is None else x @ self.query_key.T
