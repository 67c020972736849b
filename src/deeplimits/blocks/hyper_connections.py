"""Manifold-constrained hyper-connections: several residual streams whose mixing is doubly stochastic."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor, nn

from deeplimits.blocks.sinkhorn import doubly_stochastic
from deeplimits.errors import InputError


class HyperConnections(nn.Module):
    """n residual streams around one branch, mixed by maps that depend on them.

    X' = H_res X + H_post^T F(H_pre X), for X of shape (..., n, width), with
    [H_pre, H_post, H_res] = gates * (RMSNorm(vec X) phi) + biases, passed through a sigmoid, twice a sigmoid, and
    Sinkhorn-Knopp of the exponential. H_res is doubly stochastic, so it keeps the mean of the streams, its spectral
    norm is 1, and so is that of any product of such maps: depth neither explodes nor kills what the skips carry. Other
    than H_res = 1, products approach the uniform matrix: streams become equal.

    Args:
        branch: F, any module that keeps (..., width).
        width: features of a stream.
        streams: n; 1 gives an ordinary residual block whose branch is weighted.
        iterations: of Sinkhorn-Knopp.
        gate: start of the three factors of what depends on X.
        diagonal: start of H_res's logits on the diagonal, others 0: streams keep apart. The source's value could not
            be read; 0 makes all streams equal at the first block.

    Raises:
        InputError: X of another shape, or fewer than one stream.

    Source: xie-2025-mhc.

    Example:
        >>> block = HyperConnections(nn.Linear(16, 16), width=16, streams=4)
        >>> X = HyperConnections.expand(torch.randn(2, 16), streams=4)
        >>> block(X).shape, HyperConnections.merge(block(X)).shape
        (torch.Size([2, 4, 16]), torch.Size([2, 16]))
        >>> pre, post, mixing = block.maps(X)
        >>> bool(torch.allclose(mixing.sum(-2), torch.ones(2, 4), atol=1e-3))
        True
    """

    def __init__(
        self,
        branch: nn.Module,
        width: int,
        streams: int = 4,
        iterations: int = 20,
        gate: float = 0.01,
        diagonal: float = 8.0,
    ):
        super().__init__()
        if not isinstance(streams, int) or streams < 1:
            raise InputError("HyperConnections", f"streams={streams!r}", "give 1 or more")
        self.branch, self.width, self.streams, self.iterations = branch, width, streams, iterations
        self.norm = nn.RMSNorm(streams * width, elementwise_affine=False)
        self.sizes = (streams, streams, streams * streams)
        self.logits = nn.Linear(streams * width, sum(self.sizes), bias=False)
        self.gates = nn.Parameter(torch.full((3,), float(gate)))
        start = torch.cat([torch.zeros(2 * streams), diagonal * torch.eye(streams).flatten()])
        self.biases = nn.Parameter(start)

    @staticmethod
    def expand(x: Tensor, streams: int) -> Tensor:
        """Return (..., n, width): x in every stream."""
        return x.unsqueeze(-2).expand(*x.shape[:-1], streams, x.shape[-1])

    @staticmethod
    def merge(X: Tensor) -> Tensor:
        """Return (..., width): the mean of the streams."""
        return X.mean(-2)

    def maps(self, X: Tensor, tolerance: float = 1e-3) -> tuple[Tensor, Tensor, Tensor]:
        """Return H_pre (..., n), H_post (..., n) and H_res (..., n, n) at X; `tolerance` as of `doubly_stochastic`."""
        if X.dim() < 2 or tuple(X.shape[-2:]) != (self.streams, self.width):
            why = f"X has shape {tuple(X.shape)}, and the block {self.streams} streams of width {self.width}"
            raise InputError("HyperConnections", why, "expand the input with HyperConnections.expand(x, streams)")
        found = self.logits(self.norm(X.flatten(-2))).split(self.sizes, -1)
        biases = self.biases.split(self.sizes)
        pre, post, mixing = (gate * one + bias for gate, one, bias in zip(self.gates, found, biases, strict=True))
        square = mixing.unflatten(-1, (self.streams, self.streams))
        return pre.sigmoid(), 2 * post.sigmoid(), doubly_stochastic(square, self.iterations, tolerance)

    def forward(self, X: Tensor) -> Tensor:
        pre, post, mixing = self.maps(X, tolerance=inf)
        read = (pre.unsqueeze(-2) @ X).squeeze(-2)
        return mixing @ X + post.unsqueeze(-1) * self.branch(read).unsqueeze(-2)

    def extra_repr(self) -> str:
        return f"streams={self.streams}, iterations={self.iterations}"
