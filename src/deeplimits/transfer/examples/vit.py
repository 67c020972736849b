"""A small vision transformer on scikit-learn's digits: sixteen patches of 2 x 2 pixels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deeplimits.transfer.examples import training
from deeplimits.transfer.examples.data import images
from deeplimits.transfer.examples.transformer import Block

STEPS = 30


class ViT(nn.Module):
    """Patches, positions, blocks, norm, readout of all places."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.places = nn.Parameter(0.5 * torch.randn(1, 16, width))
        self.blocks = nn.ModuleList(Block(width, causal=False) for _ in range(depth))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(16 * width, 10)
        nn.init.zeros_(self.readout.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            h = block(h)
        return self.readout(self.norm(h).flatten(1))


def build(width: int, depth: int) -> nn.Module:
    """Return the model at a width, a multiple of 16, and a depth."""
    return ViT(width, depth)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels to try a model on."""
    return training.shuffled(images(), seed, 32)(0)


def train(model: nn.Module, groups: list[dict[str, Any]], seed: int) -> float:
    """Train for 30 steps and return the loss on a quarter of the digits."""
    return training.train(model, groups, training.shuffled(images(), seed, 64), images(every=4), STEPS)
