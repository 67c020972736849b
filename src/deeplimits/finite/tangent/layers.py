"""The part of the tangent kernel that one layer contributes, from its traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional

from deeplimits.finite.build.dense import Dense, LowRankDense
from deeplimits.finite.tangent.traces import Trace, trained

SLICE_BYTES = 128 * 2**20


def contribution(layer: nn.Module, one: Trace, two: Trace, full: bool) -> Tensor:
    """Return the layer's share of the kernel: (N1, N2) summed over outputs, or (N1, O, N2, O) where `full`."""
    kind = type(layer)
    if kind in SEPARABLE and one.input.ndim == 2:
        return SEPARABLE[kind](layer, one, two, full)
    if kind in UNROLLED and UNROLLED[kind](layer, one.input[:1]) is not None:
        return _tokens(layer, UNROLLED[kind], one, two, full)
    return _local(layer, one, two, full)


def inner(a: Tensor, b: Tensor, full: bool) -> Tensor:
    """Return <a, b> of gradients (N, O, ...): (N1, N2) summed over outputs, or (N1, O, N2, O)."""
    if full:
        flat = a.flatten(2).flatten(0, 1) @ b.flatten(2).flatten(0, 1).mT
        return flat.reshape(*a.shape[:2], *b.shape[:2])
    return a.flatten(1) @ b.flatten(1).mT


def _spread(gram: Tensor, full: bool) -> Tensor:
    return gram[:, None, :, None] if full else gram


def _separable(
    own: Any, one: Trace, two: Trace, full: bool, weight: float, bias: float, basis: Tensor | None
) -> Tensor:
    share = inner(one.gradient, two.gradient, full)
    total = bias**2 * share if "bias" in own else torch.zeros_like(share)
    if "weight" in own:
        if basis is not None:
            share = inner(one.gradient @ basis, two.gradient @ basis, full)
        total += weight**2 * share * _spread(one.input @ two.input.mT, full)
    return total


def _linear(layer: nn.Linear, one: Trace, two: Trace, full: bool) -> Tensor:
    return _separable(trained(layer), one, two, full, 1.0, 1.0, None)


def _dense(layer: Dense, one: Trace, two: Trace, full: bool) -> Tensor:
    basis = layer.basis if isinstance(layer, LowRankDense) else None
    return _separable(trained(layer), one, two, full, layer.weight_scale, layer.bias_scale, basis)


SEPARABLE: dict[type, Callable[[Any, Trace, Trace, bool], Tensor]] = {
    nn.Linear: _linear,
    Dense: _dense,
    LowRankDense: _dense,
}


def _places(layer: nn.Linear, y: Tensor) -> Tensor:
    del layer
    return y.flatten(1, -2)


def _patches(layer: nn.Conv2d, y: Tensor) -> Tensor | None:
    """Return the patches (N, places, in * kernel) that a convolution multiplies, or None where unfold cannot."""
    if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return None
    columns = functional.unfold(y, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
    return columns.mT


UNROLLED: dict[type, Callable[[Any, Tensor], Tensor | None]] = {nn.Linear: _places, nn.Conv2d: _patches}


def _tokens(layer: nn.Module, unroll: Callable[[Any, Tensor], Any], one: Trace, two: Trace, full: bool) -> Tensor:
    """Layers that apply one matrix at many places: gradients of a slice of its rows at a time, memory bounded."""
    own, convolution = trained(layer), isinstance(layer, nn.Conv2d)
    sides = []
    for trace in (one,) if two is one else (one, two):
        g = trace.gradient.flatten(3) if convolution else trace.gradient.flatten(2, -2).mT
        sides.append((unroll(layer, trace.input), g))  # (N, places, in) and (N, O, out, places)
    total: Any = 0.0
    if "bias" in own:
        sums = [g.sum(-1) for _, g in sides]
        total = inner(sums[0], sums[-1], full)
    if "weight" in own:
        per_row = max(g.shape[0] * g.shape[1] * y.shape[-1] * g.element_size() for y, g in sides)
        step = max(1, SLICE_BYTES // per_row)
        for first in range(0, sides[0][1].shape[2], step):
            rows = [_rows(g[:, :, first : first + step], y) for y, g in sides]
            total = total + inner(rows[0], rows[-1], full)
    return total


def _rows(g: Tensor, y: Tensor) -> Tensor:
    """Return the gradients (N, O, rows, in) of a slice of the matrix's rows."""
    return (g.flatten(1, 2) @ y).reshape(*g.shape[:3], y.shape[-1])


def _local(layer: nn.Module, one: Trace, two: Trace, full: bool) -> Tensor:
    """Any other layer: gradients of its own parameters input by input, in blocks of inputs."""
    count = sum(p.numel() for p in trained(layer).values())
    size = max(1, SLICE_BYTES // (one.gradient.shape[1] * count * one.gradient.element_size()))
    shape = (one.gradient.shape[:2] + two.gradient.shape[:2]) if full else (len(one), len(two))
    total = one.gradient.new_zeros(shape)
    for rows in _blocks(len(one), size):
        left = _gradients(layer, one[rows])
        for columns in _blocks(len(two), size):
            right = left if two is one and rows == columns else _gradients(layer, two[columns])
            block = inner(left, right, full)
            if full:
                total[rows, :, columns] = block
            else:
                total[rows, columns] = block
    return total


def _gradients(layer: nn.Module, trace: Trace) -> Tensor:
    """Return the gradients (N, O, P) of each output at each input in the layer's own trained parameters."""
    own = {name: p.detach() for name, p in trained(layer).items()}

    def single(y: Tensor, g: Tensor) -> Tensor:
        pull = vjp(lambda parameters: functional_call(layer, parameters, (y[None],)), own)[1]
        return torch.cat([vmap(pull)(g[:, None])[0][name].flatten(1) for name in own], dim=1)

    try:
        with torch.no_grad():
            return vmap(single)(trace.input, trace.gradient)
    except RuntimeError:  # the layer does what torch.func cannot batch
        return torch.stack([_pulled(layer, y, g) for y, g in zip(trace.input, trace.gradient, strict=True)])


def _pulled(layer: nn.Module, y: Tensor, gradients: Tensor) -> Tensor:
    own = list(trained(layer).values())
    with torch.enable_grad():
        output = layer.forward(y[None])
    rows = [torch.autograd.grad(output, own, g[None], retain_graph=True) for g in gradients]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def _blocks(count: int, size: int) -> Iterator[slice]:
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def bytes_per_input(found: dict[nn.Module, Trace]) -> int:
    """Return how many bytes the traces of one input take."""
    return sum(
        (prod(t.input.shape[1:]) + prod(t.gradient.shape[1:])) * t.gradient.element_size() for t in found.values()
    )
