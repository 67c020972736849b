"""One short training for every example: AdamW, the rate rising over a few steps and falling to zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
STEPS, WARMUP, BATCH = 60, 5, 128
BETAS = (0.9, 0.99)


def factor(step: int, steps: int = STEPS, warmup: int = WARMUP) -> float:
    """Return the learning rate at a step over its peak: linear warm-up, then linear decay to zero.

    Example:
        >>> [round(factor(step, 10, 2), 3) for step in (0, 1, 2, 9)]
        [0.5, 1.0, 1.0, 0.125]
    """
    return min(1.0, (step + 1) / warmup, (steps - step) / (steps - warmup))


def loss_of(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the labels, over every place of a sequence."""
    return nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten())


def train(
    model: nn.Module,
    groups: list[dict[str, Any]],
    batch: Batch,
    whole: tuple[torch.Tensor, torch.Tensor],
    steps: int = STEPS,
) -> float:
    """Train a classifier with AdamW on parameter groups of a plan, and return the loss on the whole data.

    Args:
        model: fresh, rescaled by the plan.
        groups: of the plan.
        batch: (inputs, labels) of a step.
        whole: (inputs, labels) that the loss is taken on at the end.
        steps: of training.
    """
    optimizer = torch.optim.AdamW(groups, betas=BETAS)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, steps))
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, *batch(step)).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float(loss_of(model, *whole))


def shuffled(data: tuple[torch.Tensor, torch.Tensor], seed: int, size: int = BATCH) -> Batch:
    """Return a function that takes random rows of the data, the same ones for the same seed and step."""
    inputs, labels = data

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(len(labels), (size,), generator=torch.Generator().manual_seed(1000 * seed + step))
        return inputs[rows], labels[rows]

    return batch
