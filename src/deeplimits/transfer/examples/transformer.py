"""The block that the transformers among the examples share."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

HEAD = 16


class Block(nn.Module):
    """Pre-norm attention and perceptron. Heads keep their size, and their number grows with the width.

    Args:
        width: of the stream, a multiple of 16.
        causal: whether a place sees only those before it.
    """

    def __init__(self, width: int, causal: bool):
        super().__init__()
        self.causal = causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.mix = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h + self.mix(self.attention(self.before(h)))
        return h + self.down(F.gelu(self.up(self.between(h))))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each place reads from the others, (batch, places, width)."""
        heads = (layer(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(*heads, is_causal=self.causal).transpose(1, 2).flatten(2)
