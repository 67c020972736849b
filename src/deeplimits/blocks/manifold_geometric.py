"""The block of the Manifold-Geometric Transformer, as far as its source tells."""

from __future__ import annotations

from math import atanh
from typing import Literal

from torch import Tensor, nn

from deeplimits.errors import InputError

Projection = Literal["state", "direction"]


class ManifoldGeometric(nn.Module):
    """A gated update that also erases: the gate bends its direction, a signed scalar gives its size and its sign.

    x' = x + beta (v - alpha Proj(x)), with v = F(x) * sigmoid(LN(W x)) and beta = tanh(b x + c) in (-1, 1).
    (..., width) to (..., width). The source calls the gate "mHC"; it is not Sinkhorn's (`HyperConnections`).

    Args:
        branch: F, any module that keeps (..., width).
        width: features.
        gated: whether F passes the gate.
        alpha: how much is erased; 0 writes only.
        projection: the source leaves Proj open. "direction": x on v, so that with u = v/|v| the delta rule
            u^T x' = (1 - alpha beta) u^T x + beta |v| holds; "state": x itself, read literally, a moving average.
        beta: at the start where b x = 0.

    Valid when: its source reports no experiment; how alpha, beta and Proj are parametrised is not told there, and is
    a choice here.

    Raises:
        InputError: another projection, or beta outside (-1, 1).

    Source: su-you-2026-mgt; open choices: definition.

    Example:
        >>> import torch
        >>> block = ManifoldGeometric(nn.Linear(16, 16), width=16)
        >>> block(torch.randn(2, 5, 16)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        branch: nn.Module,
        width: int,
        gated: bool = True,
        alpha: float = 1.0,
        projection: Projection = "direction",
        beta: float = 0.5,
    ):
        super().__init__()
        if projection not in ("state", "direction"):
            raise InputError("ManifoldGeometric", f"projection={projection!r}", "use 'direction' or 'state'")
        if not -1 < beta < 1:
            raise InputError("ManifoldGeometric", f"beta={beta!r}", "start it between -1 and 1, both excluded")
        self.branch, self.alpha, self.projection = branch, float(alpha), projection
        self.gate = nn.Sequential(nn.Linear(width, width, bias=False), nn.LayerNorm(width)) if gated else None
        self.size = nn.Linear(width, 1)
        nn.init.constant_(self.size.bias, atanh(beta))

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return v (..., width) and beta (..., 1) at x."""
        v = self.branch(x)
        if self.gate is not None:
            v = v * self.gate(x).sigmoid()
        return v, self.size(x).tanh()

    def erased(self, x: Tensor, v: Tensor) -> Tensor:
        """Return Proj(x), (..., width)."""
        if self.projection == "state":
            return x
        u = nn.functional.normalize(v, dim=-1)
        return u * (u * x).sum(-1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        v, beta = self.parts(x)
        return x + beta * (v - self.alpha * self.erased(x, v))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, projection={self.projection!r}"
