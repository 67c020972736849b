"""A hidden layer inside a module: linear, activation, linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.diagnostics.calls import call
from deeplimits.diagnostics.stack import evaluating
from deeplimits.errors import InputError

WHERE = "channels"


def hidden_layer(
    model: nn.Module, activation: Callable[[Tensor], Tensor] | None, layers: tuple[str, str] | None
) -> tuple[nn.Linear, nn.Linear, Callable[[Tensor], Tensor]]:
    """Return the two linear layers and what stands between them: those named, or the last such pair.

    Raises:
        InputError: names that are not there or not linear, sizes that do not follow each other, no such pair, or no
            activation.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        >>> hidden_layer(model, None, None)[2]
        Tanh()
    """
    chains = [list(one.children()) for one in model.modules() if isinstance(one, nn.Sequential)]
    triples = [chain[k : k + 3] for chain in chains for k in range(len(chain) - 2)]
    triples = [one for one in triples if isinstance(one[0], nn.Linear) and isinstance(one[2], nn.Linear)]
    if layers is not None:
        modules = dict(model.named_modules())
        if not isinstance(layers, list | tuple) or len(layers) != 2:
            raise InputError(WHERE, f"layers={layers!r}", "give the names of two linear layers")
        missing = next((one for one in layers if not isinstance(modules.get(one), nn.Linear)), None)
        if missing is not None:
            raise InputError(WHERE, f"no linear layer {missing!r}", "take names from model.named_modules()")
        first, second = (modules[one] for one in layers)
        triples = [one for one in triples if one[0] is first and one[2] is second] or [[first, None, second]]
    if not triples:
        why = f"no linear layer, activation and linear layer in a row in the {type(model).__name__}"
        raise InputError(WHERE, why, "name them: layers=('hidden', 'readout'), activation=torch.tanh")
    first, between, second = triples[-1]
    if first.out_features != second.in_features:  # type: ignore[union-attr]
        why = f"{first.out_features} neurons and a layer that reads {second.in_features}"  # type: ignore[union-attr]
        raise InputError(WHERE, why, "name two layers that follow each other")
    if activation is None and between is None:
        raise InputError(
            WHERE, "no activation between the two layers is known", "give activation=torch.tanh, or another"
        )
    return first, second, activation or between  # type: ignore[return-value]


def read_by(model: nn.Module, layer: nn.Linear, inputs: Any) -> Tensor:
    """Return what a layer reads in a pass in evaluation mode, one row a place.

    Raises:
        InputError: the layer is not called once.
    """
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    try:
        with torch.no_grad(), evaluating(model):
            call(model, inputs)
    finally:
        handle.remove()
    if len(seen) != 1:
        raise InputError(
            WHERE, f"the hidden layer is called {len(seen)} times", "name one that is called once: layers="
        )
    return seen[0].reshape(-1, seen[0].shape[-1])
