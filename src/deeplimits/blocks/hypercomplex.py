"""Hypercomplex layers: a dense matrix as a sum of Kronecker products, with about 1/n of its parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deeplimits.errors import InputError

QUATERNION = (
    ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    ((0, -1, 0, 0), (1, 0, 0, 0), (0, 0, 0, -1), (0, 0, 1, 0)),
    ((0, 0, -1, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, -1, 0, 0)),
    ((0, 0, 0, -1), (0, 0, -1, 0), (0, 1, 0, 0), (1, 0, 0, 0)),
)
"""Left multiplication by 1, i, j and k on (1, i, j, k)."""


class Hypercomplex(nn.Module):
    """A dense layer whose matrix is a sum of n Kronecker products.

    y = W x + b, W = sum_i A_i (x) S_i, A_i (n, n) and S_i (outputs/n, inputs/n): n^3 + inputs outputs / n parameters in
    W. With the A_i of the quaternions, W x is the Hamilton product of n = 4 parts with the quaternion of the S_i.
    Entries of W start with mean 0 and variance 1/inputs, as a dense layer's that keeps the variance.

    Args:
        inputs: features, a multiple of n.
        outputs: features, a multiple of n.
        parts: n.
        quaternion: fix the A_i to those of the quaternions, with n = 4; else they are learned.
        bias: whether to add b.

    Raises:
        InputError: sizes that n does not divide, or quaternions with another n than 4.

    Source: zhang-2021-phm; the variance: derived.

    Example:
        >>> layer = Hypercomplex(512, 512, parts=4, bias=False)
        >>> layer(torch.randn(2, 512)).shape, sum(p.numel() for p in layer.parameters())
        (torch.Size([2, 512]), 65600)
    """

    def __init__(self, inputs: int, outputs: int, parts: int = 4, quaternion: bool = False, bias: bool = True):
        super().__init__()
        if not isinstance(parts, int) or parts < 1 or inputs % parts or outputs % parts or min(inputs, outputs) < 1:
            why = f"{inputs} inputs and {outputs} outputs in parts={parts!r}"
            raise InputError("Hypercomplex", why, "give sizes that are multiples of parts")
        if quaternion and parts != 4:
            raise InputError("Hypercomplex", f"quaternions with parts={parts}", "use parts=4")
        self.parts = parts
        if quaternion:
            self.register_buffer("rules", torch.tensor(QUATERNION, dtype=torch.get_default_dtype()))
        else:
            self.rules = nn.Parameter(torch.randn(parts, parts, parts) / parts**0.5)
        self.blocks = nn.Parameter(torch.randn(parts, outputs // parts, inputs // parts) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def matrix(self) -> Tensor:
        """Return W, (outputs, inputs)."""
        found = torch.einsum("ipa,iqb->pqab", self.rules, self.blocks)
        return found.flatten(2).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.matrix(), self.bias)

    def extra_repr(self) -> str:
        outputs, inputs = (self.parts * size for size in self.blocks.shape[1:])
        return f"inputs={inputs}, outputs={outputs}, parts={self.parts}"
