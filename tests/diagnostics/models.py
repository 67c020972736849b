"""Residual networks whose use of depth is known."""

import torch
from torch import nn


class Residual(nn.Module):
    """h + gain F(LN(h)), F a ReLU perceptron at its critical initialization."""

    def __init__(self, width, gain=1.0):
        super().__init__()
        self.norm, self.gain = nn.LayerNorm(width), gain
        self.up, self.down = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        nn.init.normal_(self.up.weight, std=width**-0.5)
        nn.init.normal_(self.down.weight, std=(2 / width) ** 0.5)

    def forward(self, h):
        return h + self.gain * self.down(torch.relu(self.up(self.norm(h))))


class Add(nn.Module):
    """h + a fixed vector, so that updates do not depend on the stream."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)

    def forward(self, h):
        return h + self.value


class Mean(nn.Module):
    """h + the mean over places up to one's own: the simplest block that carries from place to place."""

    def __init__(self, gain=1.0):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, h):
        count = torch.arange(1, h.shape[-2] + 1)[:, None]
        return h + self.gain * h.cumsum(-2) / count
