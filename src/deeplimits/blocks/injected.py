"""A block for equilibrium layers."""

from __future__ import annotations

from torch import Tensor, nn

from deeplimits.architecture.size import whole


class Injected(nn.Module):
    """phi(A z + B x + b): a layer that sees its input x again at every application.

    Args:
        features_in: of x.
        features: of z.
        activation: phi, a module.

    Valid when: for tanh, |A|_2 < 1 makes it a contraction in z; torch's own initialisation has |A|_2 near 1.15 and
    a spectral radius near 0.58 at large widths, where the steady state exists as well.

    Raises:
        InputError: a number of features that is not a whole number of at least 1.

    Source: bai-2019-deq.

    Example:
        >>> import torch
        >>> Injected(3, 8)(torch.zeros(5, 8), torch.ones(5, 3)).shape
        torch.Size([5, 8])
    """

    def __init__(self, features_in: int, features: int, activation: nn.Module | None = None):
        super().__init__()
        columns, rows = whole("Injected", "features_in", features_in), whole("Injected", "features", features)
        self.state, self.input = nn.Linear(rows, rows, bias=False), nn.Linear(columns, rows)
        self.activation = nn.Tanh() if activation is None else activation

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        """Return phi(A z + B x + b), (batch, features)."""
        return self.activation(self.state(z) + self.input(x))
