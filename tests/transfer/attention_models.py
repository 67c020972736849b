"""Small transformers of several kinds of attention, whose logits can be read off after a forward pass."""

from __future__ import annotations

from torch import nn

from tests.transfer.models import Block


class Attention(nn.Module):
    """Softmax attention written by hand: `fused` query, key and value, norms of queries and keys, shared keys."""

    def __init__(self, width, heads, fused=False, norms=False, keys=None, number=True, softmax=None):
        super().__init__()
        self.softmax = softmax or (lambda x: x.softmax(-1))
        self.heads, self.keys, self.size = heads, keys or heads, width // heads
        self.fused, self.number = fused, number
        if number:
            self.scale = self.size**-0.5
        shared = self.keys * self.size
        if fused:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.query, self.both = nn.Linear(width, width), nn.Linear(width, 2 * shared)
        self.norms = nn.ModuleList([nn.LayerNorm(self.size) for _ in range(2)]) if norms else None
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1) if self.fused else (self.query(x), *self.both(x).chunk(2, -1))
        q, k, v = (y.unflatten(-1, (-1, self.size)).transpose(1, 2) for y in (q, k, v))
        k, v = (y.repeat_interleave(self.heads // self.keys, 1) for y in (k, v))
        if self.norms is not None:
            q, k = self.norms[0](q), self.norms[1](k)
        self.logits = q @ k.transpose(-1, -2) * (self.scale if self.number else self.size**-0.5)
        return self.mix((self.softmax(self.logits) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """h + attention(LN(h)), then a perceptron."""

    def __init__(self, width, attention):
        super().__init__()
        self.norm, self.attention, self.rest = nn.LayerNorm(width), attention, Block(width)

    def forward(self, h):
        return self.rest(h + self.attention(self.norm(h)))


class Transformer(nn.Module):
    """Embedding, layers, norm, readout; `attention` makes the attention of a width."""

    def __init__(self, width, depth, attention):
        super().__init__()
        self.words = nn.Embedding(17, width)
        self.layers = nn.ModuleList([Layer(width, attention(width)) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 17, bias=False)

    def forward(self, x):
        h = self.words(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


class Packed(nn.Module):
    """PyTorch's own multi-head attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


def build(heads=None, packed=False, **settings):
    """A build function: `heads` in number at every width, or heads of 8."""

    def attention(width):
        number = heads or width // 8
        return Packed(width, number) if packed else Attention(width, number, **settings)

    return lambda width, depth=4: Transformer(width, depth, attention)
