"""A pre-activation convolutional ResNet on scikit-learn's digits, with one norm over channels and places."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deeplimits.transfer.examples import training
from deeplimits.transfer.examples.data import images

STEPS = 30


class Block(nn.Module):
    """h + conv(relu(norm(conv(relu(norm(h))))))."""

    def __init__(self, width: int):
        super().__init__()
        self.before, self.first = nn.GroupNorm(1, width), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.between, self.second = nn.GroupNorm(1, width), nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        inner = self.first(torch.relu(self.before(h)))
        return h + self.second(torch.relu(self.between(inner)))


class ResNet(nn.Module):
    """Stem, residual blocks at one resolution of 4 x 4, norm, readout."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.readout = nn.GroupNorm(1, width), nn.Linear(16 * width, 10)
        nn.init.zeros_(self.readout.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.readout(torch.relu(self.norm(h)).flatten(1))


def build(width: int, depth: int) -> nn.Module:
    """Return the model at a number of channels and of blocks."""
    return ResNet(width, depth)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels to try a model on."""
    return training.shuffled(images(), seed, 32)(0)


def train(model: nn.Module, groups: list[dict[str, Any]], seed: int) -> float:
    """Train for 30 steps and return the loss on a quarter of the digits."""
    return training.train(model, groups, training.shuffled(images(), seed, 64), images(every=4), STEPS)
