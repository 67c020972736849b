"""A small causal transformer on the characters of Python's help topics."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deeplimits.transfer.examples import training
from deeplimits.transfer.examples.data import text, windows
from deeplimits.transfer.examples.transformer import Block

LENGTH, SEQUENCES, STEPS = 32, 16, 60


class Gpt(nn.Module):
    """Characters, positions, blocks, norm, readout."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        kinds = text()[1]
        self.characters, self.places = nn.Embedding(kinds, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, causal=True) for _ in range(depth))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, kinds, bias=False)
        for table in (self.characters, self.places):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.readout.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.characters(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return self.readout(self.norm(h))


def build(width: int, depth: int) -> nn.Module:
    """Return the model at a width, a multiple of 16, and a depth."""
    return Gpt(width, depth)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pieces of text and, for each of their characters, the next one."""
    return windows(SEQUENCES // 2, LENGTH, seed)


def train(model: nn.Module, groups: list[dict[str, Any]], seed: int) -> float:
    """Train for 60 steps and return the loss on pieces of text that are always the same."""
    batches = lambda step: windows(SEQUENCES, LENGTH, 1000 * seed + step)
    return training.train(model, groups, batches, windows(4 * SEQUENCES, LENGTH, -1), STEPS)
