"""One short training for every example: AdamW, the rate rising over a few steps and falling to zero."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn

from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.examples.data import digits, images, windows
from deeplimits.transfer.steps.optimizer import of_torch

Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
STEPS, WARMUP, BATCH = 60, 5, 128
HELD_OUT = 999_983
BETAS = (0.9, 0.99)


def factor(step: int, steps: int = STEPS, warmup: int = WARMUP) -> float:
    """Return the learning rate at a step over its peak: linear warm-up, then linear decay to zero.

    Example:
        >>> [round(factor(step, 10, 2), 3) for step in (0, 1, 2, 9)]
        [0.5, 1.0, 1.0, 0.125]
    """
    return min(1.0, (step + 1) / warmup, (steps - step) / (steps - warmup))


def loss_of(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of class labels, over every place of a sequence, or the mean square error."""
    if labels.is_floating_point():
        return nn.functional.mse_loss(call(model, inputs), labels)
    return nn.functional.cross_entropy(call(model, inputs).flatten(0, -2), labels.flatten())


def train(
    model: nn.Module,
    groups: list[dict[str, Any]],
    batch: Batch,
    whole: tuple[torch.Tensor, torch.Tensor],
    steps: int = STEPS,
    name: str = "adamw",
) -> float:
    """Train a classifier on parameter groups of a plan, and return the loss on the whole data.

    Args:
        model: fresh, rescaled by the plan.
        groups: of the plan.
        batch: (inputs, labels) of a step.
        whole: (inputs, labels) that the loss is taken on at the end.
        steps: of training.
        name: of the optimizer in torch.optim.
    """
    kind = of_torch(name, "train")
    options = {"betas": BETAS} if "betas" in signature(kind).parameters else {}
    optimizer = kind(groups, **options)
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


def made(batch: Batch, name: str = "adamw", steps: int = STEPS) -> Callable[..., float]:
    """Return train(model, groups, seed) for batches of one's own; the final loss is that of a batch never trained on.

    Args:
        batch: (inputs, labels) of a seed.
        name: of the optimizer in torch.optim.
        steps: of training.
    """

    def trained(model: nn.Module, groups: list[dict[str, Any]], seed: int) -> float:
        return train(model, groups, lambda step: batch(1000 * seed + step), batch(HELD_OUT), steps, name)

    return trained


def bundled(model: nn.Module) -> Batch | None:
    """Return batches of the bundled data that a model takes, by its first layer; None where none fits.

    Example:
        >>> inputs, labels = bundled(nn.Linear(64, 10))(0)
        >>> inputs.shape, bundled(nn.Linear(63, 10)) is None
        (torch.Size([128, 64]), True)
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            return _characters(model, module.num_embeddings)
        if isinstance(module, nn.Linear | nn.Conv2d):
            return _labelled(model, digits() if isinstance(module, nn.Linear) else images())
    return None


def _labelled(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> Batch | None:
    return (lambda seed: shuffled(data, seed)(0)) if _classes(model, data[0][:2]) >= 10 else None


def _characters(model: nn.Module, kinds: int) -> Batch | None:
    classes = _classes(model, windows(1, 8, 0)[0] % kinds)

    def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, labels = windows(16, 32, seed)
        return inputs % kinds, labels % classes

    return batch if classes > 1 else None


def _classes(model: nn.Module, inputs: torch.Tensor) -> int:
    """Return how many classes a model tells apart; 0 where it does not take the inputs."""
    try:
        with torch.no_grad():
            return call(model, inputs).shape[-1]
    except (RuntimeError, TypeError, IndexError, AttributeError):
        return 0
