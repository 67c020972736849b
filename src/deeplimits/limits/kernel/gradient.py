"""Derivatives of kernels in hyperparameters, block by block: the memory does not grow with the number of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimits.architecture.layer import Layer, as_float
from deeplimits.limits.kernel.ask import tape_of
from deeplimits.limits.kernel.tape import Tape
from deeplimits.limits.kernel.tile import univariate
from deeplimits.numerics.arrays import check, is_tensor, squares

if TYPE_CHECKING:
    import torch

BYTES = 300_000_000  # of what the backward pass of one block of entries remembers
REMEMBERED = 6  # numbers that a step remembers of each entry, on average


def pullback(
    net: Layer, X: Any, weights: np.ndarray, at: Mapping[str, float], depth: float | None = None, get: str = "nngp"
) -> dict[str, float]:
    """Return {path: d/d(path) of sum over i, j of weights[i, j] k(x_i, x_j)} by automatic differentiation.

    A homogeneous network needs one backward pass over the nodes of its function of the angle, at any number of inputs
    and any depth; any other network one pass over each block of entries.

    Args:
        net: the description.
        X: inputs, shape (N, d).
        weights: symmetric, shape (N, N), float64.
        at: {path: value} of the hyperparameters to differentiate in.
        depth: what DEPTH stands for: a whole number or infinity.
        get: "nngp" or "ntk".

    Returns:
        {path: gradient}; 0.0 where the kernel does not depend on the path.

    Valid when: as for `kernel`.

    Raises:
        DescriptionError: a path that is no hyperparameter.

    Source: derived (chain rule).

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> found = pullback(Mlp("relu"), np.ones((1, 4)), np.ones((1, 1)), {"weight_std": 1.0}, depth=1)
        >>> round(found["weight_std"], 12)
        1.0
    """
    import torch

    leaves = {path: torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for path, value in at.items()}
    inputs = check("kernel", X, None, np.float64)
    tape, _ = tape_of(net.replace(leaves), inputs, depth)
    cut, numbers, copies = _cut(tape)
    if not copies:
        return dict.fromkeys(at, 0.0)
    rows = np.asarray(inputs.numpy()[0], dtype=np.float64)
    plan = univariate.plan(numbers, np.float64)
    if plan is None:
        _blocks(cut, rows, weights, get)
    else:
        _angles(cut, rows, weights, get, plan.fit)
    touched = [(given, leaf.grad) for given, leaf in copies if leaf.grad is not None]
    torch.autograd.backward([given for given, _ in touched], [gradient for _, gradient in touched])
    return {path: 0.0 if leaf.grad is None else float(leaf.grad) for path, leaf in leaves.items()}


def derivatives(
    net: Layer, X: Any, at: Mapping[str, float], depth: float | None = None, get: str = "nngp"
) -> np.ndarray:
    """Return the derivative of every entry of a kernel in hyperparameters by automatic differentiation.

    Args:
        net: the description.
        X: inputs, shape (N, d).
        at: {path: value} of the P hyperparameters to differentiate in.
        depth: what DEPTH stands for: a whole number or infinity.
        get: "nngp" or "ntk".

    Returns:
        shape (N, N, P), float64.

    Valid when: as for `kernel`.

    Raises:
        DescriptionError: a path that is no hyperparameter.

    Source: derived (chain rule).

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> derivatives(Mlp("relu"), np.ones((2, 4)), {"weight_std": 1.0}, depth=1).round(12)[..., 0]
        array([[1., 1.],
               [1., 1.]])
    """
    import torch

    from deeplimits.limits.kernel.plain import run

    leaves = {path: torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for path, value in at.items()}
    inputs = check("kernel", X, None, np.float64)
    tape, _ = tape_of(net.replace(leaves), inputs, depth)
    x = np.asarray(inputs.numpy()[0], dtype=np.float64)
    plan = univariate.plan(_cut(tape)[1], np.float64)
    if plan is not None:
        value, series = _nodes(tape, get, plan.fit)
        return _spread(x, series @ _tangents(value, list(leaves.values())), plan.fit.map)
    rows = torch.from_numpy(x)
    result, side = np.empty((len(rows), len(rows), len(leaves))), _side(tape, 3 + len(leaves))
    for top in range(0, len(rows), side):
        for left in range(top, len(rows), side):
            part = slice(top, top + side), slice(left, left + side)
            value = run(tape, rows[part[0]], rows[part[1]])[0 if get == "nngp" else 1]
            result[part] = _tangents(value, list(leaves.values()))
            result[part[1], part[0]] = result[part].transpose(1, 0, 2)
    return result


def _tangents(value: torch.Tensor, leaves: list[torch.Tensor]) -> np.ndarray:
    """Return d value / d leaf, last axis over leaves: the gradient is linear in what it is weighted with."""
    import torch

    if not value.requires_grad:
        return np.zeros((*value.shape, len(leaves)))
    weights = torch.zeros_like(value, requires_grad=True)
    options: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    gradients = torch.autograd.grad(value, leaves, weights, create_graph=True, **options)
    tangents = [
        torch.autograd.grad(gradient, weights, retain_graph=True, **options)[0]
        if gradient.requires_grad
        else torch.zeros_like(value)
        for gradient in gradients
    ]
    return torch.stack(tangents, dim=-1).detach().numpy()


def _side(tape: Tape, passes: int = 1) -> int:
    """Return how many rows and columns a block has."""
    return max(1, int((BYTES / (8 * REMEMBERED * passes * (len(tape.steps) + 1))) ** 0.5))


def _cut(tape: Tape) -> tuple[Tape, Tape, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return the tape on leaf tensors, the tape on floats, and the pairs (tensor of the tape, its leaf)."""
    leaves: dict[int, tuple[Any, Any]] = {}
    cut, numbers = [], []
    for step in tape.steps:
        tensors = {field.name: getattr(step, field.name) for field in fields(step)}
        tensors = {name: value for name, value in tensors.items() if is_tensor(value)}
        for value in tensors.values():
            if value.requires_grad and id(value) not in leaves:
                leaves[id(value)] = value, value.detach().clone().requires_grad_()
        leaf = {name: leaves[id(value)][1] if value.requires_grad else value for name, value in tensors.items()}
        cut.append(replace(step, **leaf))
        numbers.append(replace(step, **{name: as_float(value) for name, value in tensors.items()}))
    return Tape(tuple(cut), tape.registers), Tape(tuple(numbers), tape.registers), list(leaves.values())


def _blocks(tape: Tape, x: np.ndarray, weights: np.ndarray, get: str) -> None:
    """Add the gradient to the leaves block by block, each entry above the diagonal once."""
    import torch

    from deeplimits.limits.kernel.plain import run

    given, count, side = torch.from_numpy(x), len(x), _side(tape)
    for top in range(0, count, side):
        for left in range(top, count, side):
            part = weights[top : top + side, left : left + side]
            twice = torch.from_numpy(part if left == top else 2 * part)
            value = run(tape, given[top : top + side], given[left : left + side])[0 if get == "nngp" else 1]
            (value * twice).sum().backward()


def _angles(tape: Tape, x: np.ndarray, weights: np.ndarray, get: str, fit: univariate.Fit) -> None:
    """Add the gradient to the leaves through the nodes of the function of the angle."""
    import torch

    value, series = _nodes(tape, get, fit)
    moments, rows = np.zeros(len(series)), max(1, 65_536 // len(x))
    for start in range(0, len(x), rows):
        points, scale = _points(x, slice(start, start + rows), fit.map)
        scale *= weights[start : start + rows]
        before, now = np.ones_like(points), points
        for k in range(len(series)):
            moments[k] += np.vdot(scale, before)
            before, now = now, 2 * points * now - before
    (value * torch.from_numpy(moments @ series)).sum().backward()


def _spread(x: np.ndarray, coefficients: np.ndarray, place: univariate.Map) -> np.ndarray:
    """Return |x_i| |x_j| / d times the P Chebyshev series (n, P) at every angle, shape (N, N, P)."""
    result, rows = np.empty((len(x), len(x), coefficients.shape[1])), max(1, 65_536 // len(x))
    for start in range(0, len(x), rows):
        points, scale = _points(x, slice(start, start + rows), place)
        values = np.polynomial.chebyshev.chebval(points, coefficients)
        result[start : start + rows] = np.moveaxis(scale * values, 0, -1)
    return result


def _nodes(tape: Tape, get: str, fit: univariate.Fit) -> tuple[torch.Tensor, np.ndarray]:
    """Return the function of the angle at n nodes of the fit's map, and the matrix from values to coefficients."""
    import torch

    from deeplimits.limits.kernel.plain import run

    size = 2 * max(len(fit.nngp), 16)  # a derivative's series is somewhat longer than the function's
    places = (np.arange(size) + 0.5) * np.pi / size
    angles = fit.map.angles(np.cos(places.astype(np.longdouble))).astype(np.float64)
    series = np.cos(np.outer(np.arange(size), places)) * 2 / size
    series[0] /= 2
    around = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    both = run(tape, torch.tensor([[np.sqrt(2), 0.0]], dtype=torch.float64), torch.from_numpy(around))
    return both[0 if get == "nngp" else 1][0], series


def _points(x: np.ndarray, part: slice, place: univariate.Map) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of the angles between some rows and all, and the products |x_i| |x_j| / d."""
    root = np.sqrt(squares(x))
    unit = x / np.where(root > 0, root, 1.0)[:, None] / np.sqrt(x.shape[1])
    angles = np.arccos(np.clip(unit[part] @ unit.T, -1.0, 1.0))
    front, slope, *bottom, shift = place.numbers(np.pi)
    points = ((front + slope * angles) / (bottom[0] + angles * (bottom[1] + angles * bottom[2])) + shift) / 2
    return points, root[part, None] * root
