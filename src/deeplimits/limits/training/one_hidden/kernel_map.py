"""Layers of the pi-limit: functions sum of A_i k(B_i, g) of a vector g, to which gradient steps append rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimits.numerics.gaussian import Family


@dataclass(eq=False)
class KernelMap:
    """g -> sum over rows of A_i k(B_i, g), k(b, g) = E[phi(b . w) phi(g . w)], w standard normal.

    Rows stand in arrays that are as long as they will ever get; the first `rows` hold something.

    Attributes:
        A: what rows give, (most, r_out).
        B: where rows lie, (most, r_in).
        rows: how many there are.
        phi: the activation.
    """

    A: Tensor
    B: Tensor
    rows: int
    phi: Family

    @classmethod
    def of(cls, A: Tensor, B: Tensor, more: int, phi: Family) -> KernelMap:
        """Return a layer of given rows with room for more."""
        both = (torch.cat([w, torch.empty((more, w.shape[1]), dtype=w.dtype)]) for w in (A, B))
        first, second = both
        return cls(first, second, len(A), phi)

    def __call__(self, g: Tensor) -> Tensor:
        """Return the layer at every row of g, (P, r_in) to (P, r_out)."""
        if not self.rows:
            return g @ torch.zeros((g.shape[1], self.A.shape[1]), dtype=g.dtype)
        return kernel(self.phi, g, self.B[: self.rows]) @ self.A[: self.rows]

    def move(self, g: Tensor, gradient: Tensor, rate: float, kept: float) -> None:
        """Multiply all rows by `kept`, and append -rate gradient at g."""
        self.A[: self.rows] *= kept
        rows = slice(self.rows, self.rows + len(g))
        self.A[rows], self.B[rows], self.rows = -rate * gradient, g, rows.stop


def kernel(phi: Family, first: Tensor, second: Tensor) -> Tensor:
    """Return E[phi(a . w) phi(b . w)] of rows a (N, r) and b (M, r), shape (N, M), differentiable."""
    squares = [w.square().sum(1) for w in (first, second)]
    return phi.pair(first @ second.T, squares[0][:, None], squares[1][None, :])[0]
