"""Models of sizes, written in plain torch, that transfer is tried on."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """h + scale * W2 relu(W1 LN(h))."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale = scale

    def forward(self, h):
        return h + self.scale * self.down(torch.relu(self.up(self.norm(h))))


class Mlp(nn.Module):
    """A pre-norm residual network; `scale` multiplies branches and `readout` the output."""

    def __init__(self, width, depth, scale=1.0, readout=1.0, block=Block):
        super().__init__()
        self.read_in = nn.Linear(12, width)
        self.blocks = nn.ModuleList([block(width, scale) for _ in range(depth)])
        self.norm, self.head, self.readout = nn.LayerNorm(width), nn.Linear(width, 3), readout

    def forward(self, x):
        h = self.read_in(x)
        for block in self.blocks:
            h = block(h)
        return self.readout * self.head(self.norm(h))


class PostNorm(nn.Module):
    """LN(h + W h): the stream passes a norm."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, h):
        return self.norm(h + self.layer(torch.relu(h)))


class Twisted(nn.Module):
    """h + tanh(W h): the branch is not linear in what ends it."""

    def __init__(self, width, scale=1.0):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, h):
        return h + torch.tanh(self.layer(self.norm(h)))


class Gpt(nn.Module):
    """A small causal transformer, tied or not, with positions, grouped key-value heads and a router over experts."""

    def __init__(self, width, depth, tied=False, heads=4, words=17):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(1, 8, width))
        self.layers = nn.ModuleList([GptBlock(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, x):
        h = self.words(x) + self.places[:, : x.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


class GptBlock(nn.Module):
    def __init__(self, width, heads, experts=2):
        super().__init__()
        self.size, self.heads = width // heads, heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, width)
        self.mix, self.router = nn.Linear(width, width), nn.Linear(width, experts, bias=False)
        self.rise = nn.Parameter(torch.randn(experts, width, 3 * width) * width**-0.5)
        self.fall = nn.Parameter(torch.randn(experts, 3 * width, width) * (3 * width) ** -0.5)

    def forward(self, h):
        x = self.before(h)
        key, value = self.both(x).chunk(2, -1)
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (y.unflatten(-1, (self.heads // 2, -1)).transpose(1, 2).repeat_interleave(2, 1) for y in (key, value))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.mix(seen.transpose(1, 2).flatten(2))
        x = self.between(h)
        gate = self.router(x).softmax(-1)
        inner = torch.relu(torch.einsum("btd,edf->btef", x, self.rise))
        return h + torch.einsum("bte,btef,efd->btd", gate, inner, self.fall)


class ConvNet(nn.Module):
    """A convolutional network whose readout is a 1x1 convolution."""

    def __init__(self, width, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(depth)])
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        for layer in self.body:
            h = h + layer(torch.relu(h))
        return self.head(h).mean((2, 3))
