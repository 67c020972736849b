"""The two ways of running a tape on two sets of inputs: the tile engine, and plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from deeplimits.limits.kernel import diagonal, near
from deeplimits.limits.kernel.tape import Tape
from deeplimits.numerics.arrays import Inputs, is_tensor

NEAR = 1e-3
_CHUNK_ENTRIES = 4_000_000
_CHUNK_PAIRS = 65_536


def differentiable(tape: Tape, inputs: Inputs) -> bool:
    """Say whether the plain path is needed: gradients are wanted, or the inputs are not on the CPU."""
    tensors = [x for x in (inputs.x1, inputs.x2) if is_tensor(x)]
    tensors += [v for step in tape.steps for v in vars(step).values() if is_tensor(v)]
    return any(t.requires_grad or t.device.type != "cpu" for t in tensors)


def near_pairs(tape: Tape) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the function (rows of X1, rows of X2) -> (k, theta) of pairs near angle 0 or pi, shapes (P, d) -> (P,)."""

    def evaluate(x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = near.run(tape, near.from_vectors(x1, x2))
        return end.k, end.theta

    return evaluate


def fast(tape: Tape, inputs: Inputs, kinds: tuple[str, ...]) -> list[Any]:
    """Run the tile engine on CPU arrays; returns arrays of the inputs' kind."""
    from deeplimits.limits.kernel.tile import engine

    x1, x2 = inputs.numpy()
    found = engine.evaluate(tape, x1, x2, near=near_pairs(tape), want=kinds, dtype=inputs.dtype)
    arrays = [found[kind] for kind in kinds]
    if not inputs.torch:
        return arrays
    import torch

    return [torch.from_numpy(array) for array in arrays]


def plain(tape: Tape, inputs: Inputs, kinds: tuple[str, ...]) -> list[Any]:
    """Run the plain torch path in float64, on the inputs' device; differentiable."""
    import torch

    from deeplimits.limits.kernel import plain as torch_path

    x1 = torch.as_tensor(inputs.x1).to(torch.float64)
    x2 = x1 if inputs.x2 is None else torch.as_tensor(inputs.x2).to(torch.float64)
    grad = differentiable(tape, inputs) and torch.is_grad_enabled()
    rows = len(x1) if grad else max(1, _CHUNK_ENTRIES // len(x2))
    pieces = []
    for start in range(0, len(x1), rows):
        k, theta = torch_path.run(tape, x1[start : start + rows], x2)
        pieces.append(_correct(tape, k, theta, x1, x2, start, inputs.x2 is None))
    k, theta = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*pieces, strict=True))
    if inputs.x2 is None:
        k, theta = ((value + value.T) / 2 for value in (k, theta))
    result = []
    for kind in kinds:
        value = (k if kind == "nngp" else theta).to(torch.float32 if inputs.dtype == np.float32 else torch.float64)
        result.append(value if inputs.torch or value.requires_grad else value.numpy())
    return result


def _correct(tape: Tape, k: Any, theta: Any, x1: Any, x2: Any, start: int, symmetric: bool) -> tuple[Any, Any]:
    """Put in the accurate values of pairs near angle 0 or pi, and of the diagonal; gradients stay as they are."""
    import torch

    with torch.no_grad():
        part = x1[start : start + len(k)]
        n1, n2 = part.norm(dim=1), x2.norm(dim=1)
        gram = part @ x2.T
        flagged = gram.abs() > (1 - NEAR) * n1[:, None] * n2[None, :]
        if symmetric:
            flagged |= torch.arange(start, start + len(k), device=k.device)[:, None] == torch.arange(len(x2), device=k.device)
        rows, columns = (index.cpu() for index in flagged.nonzero(as_tuple=True))
        a, b = part.detach().cpu().numpy(), x2.detach().cpu().numpy()
        values = [np.empty(len(rows)), np.empty(len(rows))]
        evaluate = near_pairs(tape)
        for piece in _pieces(len(rows)):
            values[0][piece], values[1][piece] = evaluate(a[rows[piece]], b[columns[piece]])
        if symmetric:
            q = np.einsum("nd,nd->n", a, a) / a.shape[1]
            exact = diagonal.run(tape, q)
            same = (rows + start == columns).numpy()
            values[0][same], values[1][same] = exact.k, exact.theta
        shifts = []
        for value, target in zip((k, theta), values, strict=True):
            shift = torch.zeros_like(value)
            new = torch.from_numpy(target).to(value.device)
            shift[rows, columns] = new - value[rows, columns]
            shifts.append(shift)
    return k + shifts[0], theta + shifts[1]


def _pieces(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK_PAIRS):
        yield slice(start, start + _CHUNK_PAIRS)
