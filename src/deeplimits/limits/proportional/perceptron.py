"""Dense layers and shaped activations at large width n: what they do to a covariance, to first order in 1/n."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor


def angle_drift(V: Tensor) -> Tensor:
    """Return the drift of a ReLU with slopes 1 + c/sqrt(n), divided by (c_plus - c_minus)^2.

    sqrt(V_aa V_bb) (sqrt(1 - rho^2) - rho arccos rho) / (2 pi); zero on the diagonal. Near rho = 1 it is found from
    the angle, without cancellation.

    Args:
        V: covariances, shape (..., m, m).

    Source: li-nica-roy-2022.

    Example:
        >>> angle_drift(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))[0, 1] * 2 * pi
        tensor(1., dtype=torch.float64)
    """
    diagonal = V.diagonal(dim1=-2, dim2=-1)
    size = (diagonal[..., :, None] * diagonal[..., None, :]).clamp(min=0).sqrt()
    rho = torch.where(size > 0, V / torch.where(size > 0, size, 1.0), 1.0).clamp(-1.0, 1.0)
    angle = torch.arccos(rho)
    curve = torch.where(angle < 1e-3, angle**3 / 3, torch.sin(angle) - rho * angle)
    return size * curve / (2 * pi)


def dense_covariance(V: Tensor) -> Tensor:
    """Return n times the covariance of the entries of Z Z^T / n, rows of Z drawn from N(0, V) in n features.

    Sigma^(ab,cd) = V_ac V_bd + V_ad V_bc.

    Args:
        V: one covariance, shape (m, m).

    Returns:
        Shape (m, m, m, m).

    Source: definition (moments of the Wishart law).

    Example:
        >>> dense_covariance(torch.eye(1))
        tensor([[[[2.]]]])
    """
    return torch.einsum("ac,bd->abcd", V, V) + torch.einsum("ad,bc->abcd", V, V)
