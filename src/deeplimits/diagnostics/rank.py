"""Two smooth ranks of a matrix, from its singular values."""

from __future__ import annotations

import torch
from torch import Tensor

from deeplimits.errors import InputError


def effective_rank(matrix: Tensor) -> Tensor:
    """Return exp of the entropy of the singular values' shares: 1 for rank one, n for n equal singular values.

    exp(-sum p log p), p_i = s_i / sum s.

    Args:
        matrix: (..., m, n), as m tokens of n features.

    Returns:
        (...), in the matrix's dtype; 0 for a matrix of zeros.

    Raises:
        InputError: fewer than two dimensions, or NaN or infinite entries.

    Source: roy-vetterli-2007-effective-rank.

    Example:
        >>> effective_rank(torch.stack([torch.eye(4), torch.ones(4, 4)])).round(decimals=4)
        tensor([4., 1.])
    """
    values = _singular_values(matrix, "effective_rank")
    total = values.sum(-1, keepdim=True)
    shares = values / torch.where(total > 0, total, 1.0)
    return torch.where(total.squeeze(-1) > 0, torch.special.entr(shares).sum(-1).exp(), 0.0)


def stable_rank(matrix: Tensor) -> Tensor:
    """Return the sum of squares over the largest square of the singular values, |A|_F^2 / |A|_2^2.

    Args:
        matrix: (..., m, n).

    Returns:
        (...), from 1 to min(m, n); 0 for a matrix of zeros.

    Raises:
        InputError: fewer than two dimensions, or NaN or infinite entries.

    Source: definition.

    Example:
        >>> stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0])))
        tensor(1.5000)
    """
    values = _singular_values(matrix, "stable_rank")
    largest = values[..., 0]
    squares = (values / torch.where(largest > 0, largest, 1.0).unsqueeze(-1)).square()
    return squares.sum(-1)


def _singular_values(matrix: Tensor, where: str) -> Tensor:
    if matrix.dim() < 2:
        raise InputError(where, f"a tensor of shape {tuple(matrix.shape)}", "give a matrix (..., m, n)")
    if not bool(torch.isfinite(matrix).all()):
        place = tuple(int(i) for i in (~torch.isfinite(matrix)).nonzero()[0])
        raise InputError(where, f"{float(matrix[place])} at {place}", "look for the layer where it first appears")
    return torch.linalg.svdvals(matrix.detach())
