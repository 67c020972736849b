"""Parameters of unknown structure: Jacobians by torch.func, a bounded block at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from deeplimits.finite.tangent.layers import inner
from deeplimits.finite.tangent.traces import outputs_of

JACOBIAN_BYTES = 256 * 2**20


def groups(parameters: dict[str, Tensor], outputs: int) -> Iterator[dict[str, Tensor]]:
    """Yield the parameters in groups whose Jacobian at one input fits the bound (a single larger one goes alone)."""
    group: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        group_bytes = sum(p.numel() for p in [*group.values(), parameter]) * outputs * parameter.element_size()
        if group and group_bytes > JACOBIAN_BYTES:
            yield group
            group = {}
        group[name] = parameter
    if group:
        yield group


def jacobian(module: nn.Module, parameters: dict[str, Tensor], X: Tensor) -> Tensor:
    """Return (N, O, P): the Jacobian of every output at every input in the given parameters."""
    held = {name: p.detach() for name, p in parameters.items()}

    def single(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(module, own, (x[None],)).reshape(-1)

    try:
        with torch.no_grad(), warnings.catch_warnings():  # outside jacrev: the parameters left out are constants
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            found = vmap(jacrev(single), in_dims=(None, 0))(held, X)
        return torch.cat([found[name].flatten(2) for name in held], dim=2)
    except RuntimeError:  # data-dependent control flow, or an operation torch.func cannot batch
        return torch.stack([_one(module, list(parameters.values()), x) for x in X])


def _one(module: nn.Module, parameters: list[Tensor], x: Tensor) -> Tensor:
    with torch.enable_grad():
        outputs = outputs_of(module, x[None])[0].unbind()
    rows = []
    for index, output in enumerate(outputs):
        more = index + 1 < len(outputs)
        found = torch.autograd.grad(output, parameters, retain_graph=more, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([gradient.flatten() for gradient in found]))
    return torch.stack(rows)


def rest(module: nn.Module, parameters: dict[str, Tensor], X1: Tensor, X2: Tensor, full: bool, outputs: int) -> Tensor:
    """Return the kernel's part from the given parameters: (N1, N2) summed over outputs, or (N1, O, N2, O)."""
    shape = (len(X1), outputs, len(X2), outputs) if full else (len(X1), len(X2))
    total = next(iter(parameters.values())).new_zeros(shape)
    for group in groups(parameters, outputs):
        per_input = sum(p.numel() * p.element_size() for p in group.values()) * outputs
        size = max(1, JACOBIAN_BYTES // per_input)
        for row in range(0, len(X1), size):
            left = jacobian(module, group, X1[row : row + size])
            for column in range(0, len(X2), size):
                same = X2 is X1 and row == column
                right = left if same else jacobian(module, group, X2[column : column + size])
                block = inner(left, right, full)
                if full:
                    total[row : row + size, :, column : column + size] += block
                else:
                    total[row : row + size, column : column + size] += block
    return total
