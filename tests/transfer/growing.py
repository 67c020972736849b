"""Models that are widened, and how the small ones come about."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from deeplimits.transfer.anatomy.initial import materialised
from tests.transfer.models import ConvNet, Gpt, Mlp

PERCEPTRON = "perceptron"


def perceptron(width):
    return nn.Sequential(
        nn.Linear(12, width), nn.GELU(), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 3)
    )


class Batched(nn.Module):
    """Convolutions with batch norm, a depthwise one among them, flattened into a linear readout."""

    def __init__(self, width):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.up, self.head = nn.ConvTranspose2d(width, width, 2), nn.Linear(width * 25, 5)

    def forward(self, x):
        h = torch.relu(self.norm(self.stem(x)))
        return self.head(self.up(torch.relu(self.depthwise(h))).flatten(1))


class Encoder(nn.Module):
    """Torch's own attention, and heads that grow in number; embedding norms without a mean."""

    def __init__(self, width):
        super().__init__()
        self.words, self.norm = nn.Embedding(11, width), nn.RMSNorm(width)
        self.layer = nn.TransformerEncoderLayer(width, width // 8, 3 * width, batch_first=True, dropout=0.0)
        self.head = nn.Linear(width, 7)

    def forward(self, x):
        return self.head(self.layer(self.norm(self.words(x))).mean(1))


class Fused(nn.Module):
    """Queries, keys and values in one matrix, after another; a gated layer in one."""

    def __init__(self, width):
        super().__init__()
        self.size, self.norm, self.all = 8, nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.words, self.mix = nn.Embedding(11, width), nn.Linear(width, width)
        self.gate_up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 7)

    def forward(self, x):
        h = self.words(x)
        q, k, v = (y.unflatten(-1, (-1, self.size)).transpose(1, 2) for y in self.all(self.norm(h)).chunk(3, -1))
        h = h + self.mix(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        gate, up = self.gate_up(h).chunk(2, -1)
        return self.head(h + self.down(F.silu(gate) * up))


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer, self.head = nn.LSTM(6, width, batch_first=True), nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0])


def attention_sizes(width):
    return Gpt(width, 2, heads=width // 8)


WORDS = torch.arange(14).reshape(2, 7) % 11
FAMILIES = {
    PERCEPTRON: (perceptron, None, {}),
    "residual": (lambda width: Mlp(width, 3), None, {}),
    "convolutional": (ConvNet, torch.linspace(-1, 1, 2 * 3 * 36).reshape(2, 3, 6, 6), {}),
    "batch norm": (Batched, torch.linspace(-1, 1, 2 * 3 * 16).reshape(2, 3, 4, 4).sin(), {}),
    "transformer": (attention_sizes, WORDS, {}),
    "tied transformer": (lambda width: Gpt(width, 2, tied=True, heads=width // 8), WORDS, {}),
    "torch's attention": (Encoder, WORDS, {}),
    "fused": (Fused, WORDS, {"parts": {"gate_up": 2}}),
    "recurrent": (Recurrent, torch.linspace(-1, 1, 2 * 5 * 6).reshape(2, 5, 6), {}),
}


def trained(build, inputs, width=32, steps=3):
    """A small model that has left its initial values, and its optimizer."""
    model = materialised(build, {"width": width}, 0)
    inputs = torch.linspace(-1, 1, 36).reshape(3, 12) if inputs is None else inputs
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = model(inputs)
        F.mse_loss(outputs, torch.linspace(-1, 1, outputs.numel()).reshape(outputs.shape)).backward()
        optimizer.step()
    return model, optimizer, inputs
