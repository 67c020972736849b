"""A pre-norm residual perceptron on scikit-learn's digits: h + down(relu(up(norm(h)))).

Inputs have norm 1, so the read-in starts from weights of variance 1, and the hidden layers from 2/width. Readout and
ends of branches start from zero: the change of the logits is then not mixed with their initial size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deeplimits.transfer.examples import training
from deeplimits.transfer.examples.data import digits


class Block(nn.Module):
    """One residual block; its branch ends in zeros at first."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, width)
        self.down = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.up.weight, std=(2 / width) ** 0.5)
        for start in (self.up.bias, self.down.weight):
            nn.init.zeros_(start)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.down(torch.relu(self.up(self.norm(h))))


class Mlp(nn.Module):
    """Read in, residual blocks, norm, readout."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.read_in = nn.Linear(64, width, bias=False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, 10)
        nn.init.normal_(self.read_in.weight)
        for start in (self.readout.weight, self.readout.bias):
            nn.init.zeros_(start)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.read_in(x)
        for block in self.blocks:
            h = block(h)
        return self.readout(self.norm(h))


def build(width: int, depth: int) -> nn.Module:
    """Return the model at a width and a depth."""
    return Mlp(width, depth)


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels to try a model on."""
    return training.shuffled(digits(), seed)(0)


def train(model: nn.Module, groups: list[dict[str, Any]], seed: int) -> float:
    """Train for 60 steps and return the loss on all digits.

    Example:
        >>> from deeplimits.transfer.steps.optimizer import base_groups
        >>> _ = torch.manual_seed(0)
        >>> model = build(16, 2)
        >>> train(model, base_groups(model, 0.02), seed=0) < 1.0
        True
    """
    return training.train(model, groups, training.shuffled(digits(), seed), digits())
