"""Shaped attention at large width n: what it does to the covariance of the tokens, to first order in 1/n.

The attention matrix is A = I + n^(-1/2) A_1 + A_2/n + ..., with T_ad the weight 1/m_a of each of the m_a tokens that
token a sees, z the logits, covariance E z_ad z_bw = V_ab V_dw / (tau^2 n), and a bar for T's average along a row:
A_1 = sqrt(n) T (z - zbar) and A_2 = (n/2) T ((z - zbar)^2 - average of (z - zbar)^2).
All functions take tau = 1: drifts are divided by tau^2, `first_order` by tau.
"""

from __future__ import annotations

import torch
from torch import Tensor


def visible(tokens: int, causal: bool = False) -> Tensor:
    """Return T (m, m): the weight of each token in each row at equal logits.

    Example:
        >>> visible(2, causal=True).tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    T = torch.ones(tokens, tokens, dtype=torch.float64)
    T = T.tril() if causal else T
    return T / T.sum(-1, keepdim=True)


def first_order(root: Tensor, normals: Tensor, T: Tensor) -> Tensor:
    """Return a sample of A_1: T (h - hbar), h = L g L^T, from g of independent normals.

    Args:
        root: L with L L^T = V, shape (..., m, m).
        normals: g, of the same shape.
        T: of `visible`.

    Source: noci-2023-shaped-transformer.
    """
    h = root @ normals @ root.mT
    return T * (h - (T * h).sum(-1, keepdim=True))


def first_order_square(V: Tensor, T: Tensor) -> Tensor:
    """Return E[A_1 V A_1^T], shape (..., m, m).

    V_ab sum_dw T_ad T_bw V_dw (V_dw - row and column averages + average of both): with U = T V and W = T V T^T,
    V * (T V^2 T^T - U^2 T^T - T (U^2)^T + W^2), squares taken entry by entry.

    Source: noci-2023-shaped-transformer.
    """
    rows = T @ V
    means = rows @ T.mT
    cross = rows.square() @ T.mT
    return V * (T @ V.square() @ T.mT - cross - cross.mT + means.square())


def second_order(V: Tensor, T: Tensor) -> Tensor:
    """Return E[A_2], shape (..., m, m): T_ad V_aa (s_ad - sbar_a) / 2, s_ad = V_dd - 2 (T V)_ad + (T V T^T)_aa.

    Source: noci-2023-shaped-transformer.
    """
    rows = T @ V
    diagonal = V.diagonal(dim1=-2, dim2=-1)
    spread = diagonal[..., None, :] - 2 * rows  # what is the same along a row drops out below
    return 0.5 * diagonal[..., :, None] * T * (spread - (T * spread).sum(-1, keepdim=True))


def attention_drift(V: Tensor, T: Tensor | None = None) -> Tensor:
    """Return n E[A V A^T - V] as n goes to infinity: E[A_1 V A_1^T] + E[A_2] V + V E[A_2]^T.

    Args:
        V: covariances of tokens, shape (..., m, m).
        T: of `visible`; by default every token sees all.

    Valid when: one head or more, with any number of features; tau = 1.

    Source: noci-2023-shaped-transformer.

    Example:
        >>> attention_drift(torch.ones(2, 2, dtype=torch.float64)).abs().max()
        tensor(0., dtype=torch.float64)
    """
    T = visible(V.shape[-1]).to(V) if T is None else T
    pull = second_order(V, T) @ V
    return first_order_square(V, T) + pull + pull.mT


def attention_covariance(V: Tensor, T: Tensor | None = None) -> Tensor:
    """Return the covariance of the entries of A_1 V + V A_1^T for one head at tau = 1, shape (m, m, m, m).

    Args:
        V: one covariance, shape (m, m).
        T: of `visible`; by default every token sees all.

    Source: noci-2023-shaped-transformer.
    """
    T = visible(V.shape[-1]).to(V) if T is None else T
    rows = T @ V
    means = rows @ T.mT
    centred = V[None, :, None, :] - rows[:, None, None, :] - rows.mT[None, :, :, None] + means[:, None, :, None]
    one = T[:, :, None, None] * T[None, None] * V[:, None, :, None] * centred  # E[A_1^ak A_1^cl], axes a, k, c, l
    half = torch.einsum("kb,akcl,ld->abcd", V, one, V)
    half = half + half.transpose(0, 1)
    return half + half.transpose(2, 3)
