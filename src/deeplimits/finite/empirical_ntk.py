"""The tangent kernel of one real network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.errors import InputError
from deeplimits.finite.tangent.jacobian import rest
from deeplimits.finite.tangent.layers import bytes_per_input, contribution
from deeplimits.finite.tangent.traces import Trace, faithful, outputs_of, traces, trained
from deeplimits.numerics.arrays import check_memory

WHERE = "empirical_ntk"
TRACE_BYTES = 512 * 2**20
PROBE = 3


def empirical_ntk(module: nn.Module, X1: Any, X2: Any = None, outputs: str = "trace") -> Any:
    """Return the neural tangent kernel of any torch module at its present parameters.

    full: Theta[i, j, a, b] = sum over trained parameters p of df_a(x_i)/dp df_b(x_j)/dp; trace: the mean over outputs,
    (1/O) sum_a Theta[i, j, a, a], which is what `kernel` predicts.

    Dense and convolutional layers are contracted from their inputs and output gradients, without Jacobians; other leaf
    modules by gradients of their own parameters; parameters used in any other way (shared, used twice, read from
    outside their module) by Jacobians. Which way a layer goes is decided by comparing its gradients with autograd's.

    Args:
        module: any module from (N, ...) to (N, outputs...); parameters with requires_grad=False do not count. It is
            left as it was: same mode, no gradients, no hooks.
        X1: (N1, ...) inputs, torch or numpy; cast to the module's dtype and device where they are of floating point.
        X2: (N2, ...) inputs, by default X1.
        outputs: "trace" or "full".

    Returns:
        (N1, N2), or (N1, N2, O, O) for "full", torch or numpy as X1, in the module's dtype.

    Raises:
        InputError: bad inputs; layers that mix the inputs of a batch or are random (batch norm or dropout in training).
        MemoryNeeded: the result does not fit this machine.

    Source: novak-2022-fast-finite-width, section 3 (structured derivatives); jacot-2018-ntk, section 4.

    Example:
        >>> import torch
        >>> empirical_ntk(torch.nn.Linear(2, 3), torch.eye(2)).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """
    if not isinstance(module, nn.Module):
        raise InputError(
            WHERE, f"{type(module).__name__} is not a torch module", "give an nn.Module, e.g. dl.build(...)"
        )
    if outputs not in ("trace", "full"):
        raise InputError(WHERE, f"outputs={outputs!r} is unknown", "use 'trace' (mean over outputs) or 'full'")
    _check_modes(module)
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    one = _inputs("X1", X1, like)
    two = one if X2 is None else _inputs("X2", X2, like)
    if one.shape[1:] != two.shape[1:]:
        why = f"inputs of X1 have shape {tuple(one.shape[1:])} and those of X2 {tuple(two.shape[1:])}"
        raise InputError(WHERE, why, "give inputs of the same shape")
    total = _kernel(module, one, two, outputs == "full")
    return total if isinstance(X1, Tensor) else total.cpu().numpy()


def _kernel(module: nn.Module, one: Tensor, two: Tensor, full: bool) -> Tensor:
    with torch.no_grad():
        values = module(one[:PROBE])
    _check_outputs(module, values, one)
    count = values[0].numel()
    needed = 2 * len(one) * len(two) * (count if full else 1) ** 2 * values.element_size()
    fix = "use outputs='trace', ask for blocks of rows (X1[a:b], X2), or use fewer inputs"
    check_memory(WHERE, needed, "the result and its copy", fix)
    layers = faithful(module, one[:PROBE])
    done = {id(p) for layer in layers for p in trained(layer).values()}
    others: dict[str, Tensor] = {
        name: p for name, p in module.named_parameters() if p.requires_grad and id(p) not in done
    }
    shape = (len(one), count, len(two), count) if full else (len(one), len(two))
    total = values.new_zeros(shape)
    if layers:
        _structured(module, layers, one, two, full, total)
    if others:
        total += rest(module, others, one, two, full, count)
    if full:
        total = total.permute(0, 2, 1, 3).contiguous()
    else:
        total /= count
    if two is one:
        total = (total + (total.permute(1, 0, 3, 2) if full else total.mT)) / 2
    return total


def _structured(
    module: nn.Module, layers: list[nn.Module], one: Tensor, two: Tensor, full: bool, total: Tensor
) -> None:
    size = max(1, TRACE_BYTES // bytes_per_input(traces(module, layers, one[:1])))
    if two is not one or size < len(one):
        size = max(1, size // 2)
    for row in range(0, len(one), size):
        left = traces(module, layers, one[row : row + size])
        for column in range(row if two is one else 0, len(two), size):
            same = two is one and row == column
            right = left if same else traces(module, layers, two[column : column + size])
            block = _sum(layers, left, right, full)
            _add(total, row, column, block, full)
            if two is one and not same:
                _add(total, column, row, block.permute(2, 3, 0, 1) if full else block.mT, full)


def _add(total: Tensor, row: int, column: int, block: Tensor, full: bool) -> None:
    if full:
        total[row : row + block.shape[0], :, column : column + block.shape[2]] += block
    else:
        total[row : row + block.shape[0], column : column + block.shape[1]] += block


def _sum(layers: list[nn.Module], one: dict[nn.Module, Trace], two: dict[nn.Module, Trace], full: bool) -> Tensor:
    with torch.no_grad():
        total = contribution(layers[0], one[layers[0]], two[layers[0]], full)
        for layer in layers[1:]:
            total += contribution(layer, one[layer], two[layer], full)
    return total


def _inputs(name: str, X: Any, like: Tensor) -> Tensor:
    try:
        tensor = X.detach() if isinstance(X, Tensor) else torch.as_tensor(X)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(WHERE, f"{name} is not numeric ({error})", "give a tensor or an array of numbers") from None
    if tensor.ndim < 1 or tensor.numel() == 0:
        raise InputError(WHERE, f"{name} of shape {tuple(tensor.shape)} is empty", "give at least one input")
    if not tensor.is_floating_point():
        return tensor.to(like.device)
    bad = torch.nonzero(~torch.isfinite(tensor))
    if len(bad):
        at = tuple(bad[0].tolist())
        raise InputError(WHERE, f"{name} has {tensor[at].item()} at index {at}", "drop or impute that input")
    return tensor.to(device=like.device, dtype=like.dtype)


def _check_modes(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        coupled = isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training
        random = isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0
        if coupled or random:
            effect = "mixes the batch" if coupled else "is random"
            why = f"{name} ({type(layer).__name__}) is in training mode and {effect}"
            raise InputError(WHERE, why, "call module.eval() first")


def _check_outputs(module: nn.Module, values: Any, X: Tensor) -> None:
    if not isinstance(values, Tensor) or values.ndim < 1 or len(values) != min(PROBE, len(X)):
        found = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        why = f"the module returned {found} for {min(PROBE, len(X))} inputs"
        raise InputError(WHERE, why, "wrap it so that it returns one tensor (N, outputs)")
    with torch.no_grad():
        alone = outputs_of(module, X[:1])[0]
    together = values[0].reshape(-1)
    if not torch.allclose(alone, together, rtol=1e-3, atol=1e-3 * float(together.abs().max())):
        why = "the output for an input changes with the other inputs of the batch, or from call to call"
        fix = "call module.eval(), or remove what mixes the batch; tokens of one sequence are one input: X[None]"
        raise InputError(WHERE, why, fix)
