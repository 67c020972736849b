"""Sinkhorn-Knopp: the doubly stochastic matrix that a positive matrix scales to."""

from __future__ import annotations

import warnings
from math import inf

import torch
from torch import Tensor

from deeplimits.errors import AccuracyWarning, InputError


def doubly_stochastic(logits: Tensor, iterations: int = 20, tolerance: float = 1e-3) -> Tensor:
    """Return the matrix that exp(logits) becomes when its columns and rows are normalised in turn.

    M <- exp(logits); repeat: M_ij <- M_ij / sum_i M_ij, then M_ij <- M_ij / sum_j M_ij; in logarithms throughout. Rows
    end exact. A doubly stochastic matrix has spectral norm 1, products of them are doubly stochastic, and 1 x 1 is 1.

    Args:
        logits: (..., n, n).
        iterations: pairs of normalisations.
        tolerance: of column sums, beyond which a warning tells the residual; infinite asks nothing of them (and does
            not wait for the device).

    Raises:
        InputError: logits that are not square or not finite, or fewer than one iteration.

    Source: xie-2025-mhc.

    Example:
        >>> M = doubly_stochastic(torch.randn(4, 4))
        >>> bool(torch.allclose(M.sum(0), torch.ones(4), atol=1e-3)), round(float(torch.linalg.matrix_norm(M, 2)), 3)
        (True, 1.0)
    """
    if logits.dim() < 2 or logits.shape[-1] != logits.shape[-2]:
        raise InputError(
            "doubly_stochastic", f"logits of shape {tuple(logits.shape)}", "give square matrices (..., n, n)"
        )
    if not isinstance(iterations, int) or iterations < 1:
        raise InputError("doubly_stochastic", f"iterations={iterations!r}", "give 1 or more; 20 is usual")
    checked = tolerance < inf
    if checked and not bool(torch.isfinite(logits).all()):
        raise InputError(
            "doubly_stochastic", "logits hold NaN or an infinite value", "bound them before the exponential"
        )
    for _ in range(iterations):
        logits = logits - logits.logsumexp(-2, keepdim=True)
        logits = logits - logits.logsumexp(-1, keepdim=True)
    found = logits.exp()
    if checked:
        residual = float((found.detach().sum(-2) - 1).abs().max())
        if residual > tolerance:
            words = f"column sums are within {residual:.2g} of 1 after {iterations} iterations: raise iterations"
            warnings.warn(words, AccuracyWarning, stacklevel=2)
    return found
