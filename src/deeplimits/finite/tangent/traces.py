"""What a backward pass leaves at each layer: its inputs, and the gradients of the network at its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Trace:
    """One layer on N inputs: its input (N, ...), and gradients (N, O, ...) of the O outputs at its own output."""

    input: Tensor
    gradient: Tensor

    def __getitem__(self, rows: slice) -> Trace:
        return Trace(self.input[rows], self.gradient[rows])

    def __len__(self) -> int:
        return len(self.input)


@contextmanager
def watched(layers: list[nn.Module]) -> Iterator[dict[nn.Module, list[tuple[Tensor, Tensor]]]]:
    """Record (input, output) of every call of the layers; outputs are cloned so that in-place changes miss them."""
    calls: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in layers}

    def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        plain = len(args) == 1 and not kwargs and isinstance(args[0], Tensor) and isinstance(output, Tensor)
        calls[layer].append((args[0].detach(), output) if plain else (torch.empty(0), torch.empty(0)))
        return output.clone() if plain else None

    handles = [layer.register_forward_hook(hook, with_kwargs=True) for layer in layers]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def outputs_of(module: nn.Module, X: Tensor) -> Tensor:
    """Return the module's outputs as (N, O)."""
    return module(X).reshape(len(X), -1)


def traces(module: nn.Module, layers: list[nn.Module], X: Tensor) -> dict[nn.Module, Trace]:
    """Return the trace of every layer on X; a layer that no output depends on has gradient zero."""
    with torch.enable_grad(), watched(layers) as calls:
        outputs = outputs_of(module, X)
        totals = outputs.sum(0).unbind()
    held = [calls[layer][0] for layer in layers]
    after = [output for _, output in held]
    gradients = [output.new_empty(len(X), outputs.shape[1], *output.shape[1:]) for output in after]
    for index, total in enumerate(totals):
        more = index + 1 < len(totals)
        found = torch.autograd.grad(total, after, retain_graph=more, allow_unused=True, materialize_grads=True)
        for gradient, value in zip(gradients, found, strict=True):
            gradient[:, index] = value
    return {layer: Trace(y, g) for layer, (y, _), g in zip(layers, held, gradients, strict=True)}


def trained(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Return the layer's own parameters that are trained, by name."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad}


def faithful(module: nn.Module, X: Tensor) -> list[nn.Module]:
    """Return the layers whose parameters act through one plain call and nowhere else.

    The gradient that autograd gives each parameter is compared with the one recomputed from the layer's recorded input
    and output gradient; a layer that is called twice, shares a parameter, or is read from outside fails.
    """
    candidates = [layer for layer in module.modules() if trained(layer) and not any(True for _ in layer.children())]
    with torch.enable_grad():
        with watched(candidates) as calls:
            outputs = outputs_of(module, X)
        layers = [layer for layer in candidates if _plain(calls[layer], len(X))]
        if not layers or not outputs.requires_grad:
            return []
        noise = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
        parameters = [p for layer in layers for p in trained(layer).values()]
        after = [calls[layer][0][1] for layer in layers]
        found = torch.autograd.grad(
            outputs, [*after, *parameters], grad_outputs=noise, allow_unused=True, materialize_grads=True
        )
        expected, good = iter(found[len(after) :]), []
        for layer, gradient in zip(layers, found, strict=False):
            own = list(trained(layer).values())
            local = torch.autograd.grad(layer.forward(calls[layer][0][0]), own, gradient)
            close = [_close(a, next(expected)) for a in local]
            if all(close):
                good.append(layer)
    return good


def _plain(calls: list[tuple[Tensor, Tensor]], count: int) -> bool:
    if len(calls) != 1:
        return False
    y, output = calls[0]
    return y.ndim >= 2 and output.ndim >= 2 and len(y) == len(output) == count and output.requires_grad


def _close(a: Tensor, b: Tensor) -> bool:
    scale = max(float(a.abs().max()), float(b.abs().max()))
    return float((a - b).abs().max()) <= 1e4 * torch.finfo(a.dtype).eps * scale
