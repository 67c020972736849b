"""Optimizers of torch by name, and parameter groups of a model that was not rescaled."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError


def of_torch(name: str, where: str) -> Any:
    """Return the class of torch.optim with a name, whatever its capitals.

    Raises:
        InputError: there is none.

    Example:
        >>> of_torch("adamw", "here").__name__
        'AdamW'
    """
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind.__name__.lower() == name.lower():
            return kind
    fix = "use adamw, adam, sgd, muon or another name of torch.optim, or plan.param_groups with your own"
    raise InputError(where, f"torch.optim has no optimizer {name!r}", fix)


def name_of(optimizer: torch.optim.Optimizer) -> str:
    """Return the name of an optimizer as plans call it; of torch's Muon with its mode.

    Example:
        >>> name_of(torch.optim.AdamW([torch.nn.Parameter(torch.zeros(2))]))
        'adamw'
    """
    name = "muon" if isinstance(optimizer, torch.optim.Muon) else type(optimizer).__name__.lower()
    mode = optimizer.param_groups[0].get("adjust_lr_fn") if optimizer.param_groups else None
    return f"{name}:{mode}" if name == "muon" and mode else name


def usable(where: str, lr: Any = 1.0, weight_decay: Any = 0.0) -> None:
    """Refuse numbers of the base that no optimizer can use.

    Raises:
        InputError: a learning rate that is not above zero, or a weight decay below zero.

    Example:
        >>> usable("here", lr=1e-3, weight_decay=0.1)
        >>> usable("here", lr=-1.0)
        Traceback (most recent call last):
        ...
        deeplimits.errors.InputError: here: lr=-1.0. Fix: give the base's learning rate, a number above zero.
    """
    number = Real | torch.Tensor
    if not (isinstance(lr, number) and 0 < float(lr) < inf):
        raise InputError(where, f"lr={lr!r}", "give the base's learning rate, a number above zero")
    if not (isinstance(weight_decay, number) and 0 <= float(weight_decay) < inf):
        raise InputError(where, f"weight_decay={weight_decay!r}", "give the base's weight decay, a number from zero on")


def base_groups(model: nn.Module, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
    """Return the groups of the base itself: one learning rate, and no decay of gains and biases."""
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == big] for big in (True, False))
    groups = [
        {"params": held, "lr": lr, "weight_decay": decay} for held, decay in ((matrices, weight_decay), (vectors, 0.0))
    ]
    return [group for group in groups if group["params"]]
