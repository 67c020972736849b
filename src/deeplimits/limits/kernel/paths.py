"""The two ways of running a tape on two sets of inputs: the tile engine, and plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from deeplimits.architecture.layer import as_float
from deeplimits.limits.kernel import diagonal, near
from deeplimits.limits.kernel.tape import Affine, Dual, Tape
from deeplimits.numerics.arrays import Inputs, is_tensor, squares
from deeplimits.numerics.gaussian.gelu import Gelu
from deeplimits.numerics.gaussian.rectified import RectifiedPower

NEAR = 1e-3
FLOAT32_LAYERS, FLOAT32_KINKS = 13, 3  # measured: the NTK of kinks is steep near angle 0
FEW, ROUNDING = 12, 2e-12
LARGE = 16.0  # from such a variance GELU looks like a kink
_CHUNK_ENTRIES = 4_000_000
_CHUNK_PAIRS = 65_536
_ROWS = 256


def differentiable(tape: Tape, inputs: Inputs) -> bool:
    """Say whether the plain path is needed: gradients are wanted, or the inputs are not on the CPU."""
    tensors = [x for x in (inputs.x1, inputs.x2) if is_tensor(x)]
    tensors += [v for step in tape.steps for v in vars(step).values() if is_tensor(v)]
    return any(t.requires_grad or t.device.type != "cpu" for t in tensors)


def near_pairs(tape: Tape, x1: np.ndarray, x2: np.ndarray) -> Callable[[np.ndarray, np.ndarray], tuple]:
    """Return the function (rows of x1, rows of x2) -> (k, theta) for pairs near angle 0 or pi, indices (P,) -> (P,)."""

    def evaluate(i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = near.run(tape, near.from_vectors(x1[i], x2[j]))
        return end.k, end.theta

    return evaluate


def fast(tape: Tape, inputs: Inputs, kinds: tuple[str, ...]) -> list[Any]:
    """Run the tile engine on CPU arrays; returns arrays of the inputs' kind."""
    x1, x2 = inputs.numpy()
    assert x1 is not None
    if inputs.dtype == np.float64 and _rounding_shows(tape, x1, x2):
        arrays = _every_pair(tape, x1, x2, kinds)
    else:
        arrays = _tiles(tape, x1, x2, inputs.dtype, kinds)
    if not inputs.torch:
        return arrays
    import torch

    return [torch.from_numpy(array) for array in arrays]


def _tiles(tape: Tape, given1: np.ndarray, given2: np.ndarray | None, dtype: Any, kinds: tuple[str, ...]) -> list[Any]:
    from deeplimits.limits.kernel.tile import engine, univariate

    x1, x2 = (None if x is None else np.ascontiguousarray(x, dtype=dtype) for x in (given1, given2))
    assert x1 is not None
    along = diagonal.scaled if univariate.homogeneous(tape) else diagonal.run
    first = along(tape, squares(given1))
    second = None if given2 is None else along(tape, squares(given2))
    request = engine.Request(
        tape=tape,
        x1=x1,
        x2=x2,
        before1=first.before,
        before2=None if second is None else second.before,
        near=near_pairs(tape, given1, given1 if given2 is None else given2),
        diagonal=(first.k, first.theta),
        nngp="nngp" in kinds,
        ntk="ntk" in kinds,
        wide=dtype == np.float32 and not float32_suffices(tape, first),
    )
    found = engine.evaluate(request)
    return [found[kind] for kind in kinds]


def _rounding_shows(tape: Tape, x1: np.ndarray, x2: np.ndarray | None) -> bool:
    """Say whether kinks meet angles so small that the tiles, which carry covariances, lose them; tried on a few rows.

    Biases bring all inputs together, and the slope of a kink at a small angle t is uncertain by 1e-16 / t.
    """
    biased = any(isinstance(step, Affine) and as_float(step.bias) != 0 for step in tape.steps)
    if not biased or not any(isinstance(step, Dual) and isinstance(step.family, RectifiedPower) for step in tape.steps):
        return False
    few1, few2 = _spread(x1), None if x2 is None else _spread(x2)
    found = _tiles(tape, few1, few2, np.float64, ("nngp", "ntk"))
    exact = _every_pair(tape, few1, few2, ("nngp", "ntk"))
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = zip(found, exact, strict=True)
        return any(bool(np.abs(a - b).max() > ROUNDING * np.abs(b).max()) for a, b in pairs)


def _spread(x: np.ndarray) -> np.ndarray:
    """Return a few rows, from the smallest norm to the largest."""
    order = np.argsort(squares(x), kind="stable")
    return x[order[np.unique(np.linspace(0, len(x) - 1, FEW).round().astype(int))]]


def _every_pair(tape: Tape, x1: np.ndarray, x2: np.ndarray | None, kinds: tuple[str, ...]) -> list[np.ndarray]:
    """Run every pair by its angle, not its covariance: slower, and exact however close inputs come to each other."""
    from deeplimits.limits.kernel.tile import gap

    quick = gap.supports(tape)
    k, theta = gap.evaluate(tape, x1, x2) if quick else np.empty((2, len(x1), len(x1 if x2 is None else x2)))
    other = x1 if x2 is None else x2
    evaluate, lengths = near_pairs(tape, x1, other), [np.sqrt(squares(x) * x.shape[1]) for x in (x1, other)]
    for start in range(0, len(x1), _ROWS):
        rows = slice(start, start + _ROWS)
        wanted = np.abs(x1[rows] @ other.T) >= (1 - NEAR) * np.multiply.outer(lengths[0][rows], lengths[1])
        wanted |= not quick
        i, j = wanted.nonzero() if x2 is not None else np.tril(wanted, start - 1).nonzero()
        for piece in _pieces(len(i)):
            at = i[piece] + start, j[piece]
            k[at], theta[at] = evaluate(*at)
            if x2 is None:
                k[at[::-1]], theta[at[::-1]] = k[at], theta[at]
    if x2 is None:
        exact = diagonal.run(tape, squares(x1))
        np.fill_diagonal(k, exact.k)
        np.fill_diagonal(theta, exact.theta)
    return [k if kind == "nngp" else theta for kind in kinds]


def float32_suffices(tape: Tape, exact: diagonal.Diagonal) -> bool:
    """Say whether the layers may run in float32: whether rounding, amplified by them, stays below the tolerance."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        growth = np.nanmax(exact.gain * exact.start / exact.k, initial=1.0)
    kinks = any(
        isinstance(step.family, RectifiedPower) or (isinstance(step.family, Gelu) and exact.before[index].max() > LARGE)
        for index, step in enumerate(tape.steps)
        if isinstance(step, Dual)
    )
    return bool(len(tape.needs()) * max(growth, 1.0) <= (FLOAT32_KINKS if kinks else FLOAT32_LAYERS))


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
    k, theta = (torch.cat(parts) for parts in zip(*pieces, strict=True))
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
            flagged |= torch.arange(start, start + len(k), device=k.device)[:, None] == torch.arange(
                len(x2), device=k.device
            )
        rows, columns = (index.cpu().numpy() for index in flagged.nonzero(as_tuple=True))
        a, b = part.detach().cpu().numpy(), x2.detach().cpu().numpy()
        values = [np.empty(len(rows)), np.empty(len(rows))]
        evaluate = near_pairs(tape, a, b)
        for piece in _pieces(len(rows)):
            values[0][piece], values[1][piece] = evaluate(rows[piece], columns[piece])
        if symmetric:
            exact = diagonal.run(tape, squares(a))
            same = rows + start == columns
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
