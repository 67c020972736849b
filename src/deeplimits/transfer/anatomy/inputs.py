"""Inputs that a forward pass can be tried on."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError

_KERNEL = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}


def example(model: nn.Module, given: Any = None) -> Any:
    """Return inputs for a forward pass: those given, those a Hugging Face model names, or made for its first layer.

    Raises:
        InputError: the first layer does not tell what the model takes.
    """
    if given is not None:
        return given
    vocabulary = getattr(getattr(model, "config", None), "vocab_size", None)
    if vocabulary:
        return {"input_ids": torch.arange(12).reshape(2, 6) % vocabulary}
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            return torch.arange(12).reshape(2, 6) % module.num_embeddings
        if isinstance(module, nn.Linear):
            return torch.linspace(-1, 1, 3 * module.in_features).reshape(3, module.in_features)
        if type(module) in _KERNEL:
            size = [2, int(module.in_channels), *[32] * _KERNEL[type(module)]]  # type: ignore[arg-type]
            return torch.linspace(-1, 1, prod(size)).reshape(size)
    raise InputError(
        "transfer", "the model's first layer does not tell what it takes", "pass inputs=, as for model(inputs)"
    )


def call(model: nn.Module, inputs: Any) -> torch.Tensor:
    """Return the main output of a model: the tensor itself, the first of several, or the logits or hidden state."""
    like = next(model.parameters())
    if isinstance(inputs, dict):
        result = model(**{name: _moved(value, like) for name, value in inputs.items()})
    else:
        result = model(*(_moved(x, like) for x in (inputs if isinstance(inputs, tuple | list) else [inputs])))
    return main_output(result)


def main_output(result: Any) -> torch.Tensor:
    """Return the tensor itself, the first of several, or the logits or hidden state of a Hugging Face output."""
    for name in ("logits", "last_hidden_state"):
        if hasattr(result, name):
            return getattr(result, name)
    return result[0] if isinstance(result, tuple | list) else result


def _moved(value: Any, like: torch.Tensor) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(like.device, like.dtype if value.is_floating_point() else value.dtype)
