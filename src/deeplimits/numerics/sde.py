"""Steppers of stochastic differential equations, and the factor of a covariance that drives them."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

Normals = Callable[..., Tensor]
"""(*shape) -> independent standard normals; each step asks for the same shapes in the same order."""

Move = Callable[[Tensor, float, Normals], Tensor]
"""(state, length of the step, normals) -> state after the step."""

ROUNDING = 1e-13
INDEFINITE = 1e-8


def euler_maruyama(drift: Callable[[Tensor], Tensor] | None, noise: Callable[[Tensor, Normals], Tensor]) -> Move:
    """Return the step x + drift(x) dt + sqrt(dt) noise(x, normals), of weak order 1.

    Args:
        drift: x -> drift, or None.
        noise: (x, normals) -> g(x) times the normals it asks for, of the shape of x.

    Source: Kloeden, Platen, Numerical Solution of Stochastic Differential Equations, sec. 10.2 and 14.1.

    Example:
        >>> move = euler_maruyama(lambda x: -x, lambda x, normals: 0 * x)
        >>> move(torch.ones(1), 0.5, torch.zeros)
        tensor([0.5000])
    """

    def move(x: Tensor, length: float, normals: Normals) -> Tensor:
        moved = x + sqrt(length) * noise(x, normals)
        return moved if drift is None else moved + length * drift(x)

    return move


def run(
    move: Move,
    x: Tensor,
    time: float,
    steps: int,
    normals: Callable[[int], Normals],
    watch: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """Return the state after `steps` equal steps that take `time` in all.

    Args:
        move: one step.
        x: the state at the start.
        time: length of the whole way.
        steps: number of steps.
        normals: the source of normals of each step, counted from 0.
        watch: called with (steps done, state) at the start and after every step.
    """
    if watch is not None:
        watch(0, x)
    for index in range(steps):
        x = move(x, time / steps, normals(index))
        if watch is not None:
            watch(index + 1, x)
    return x


def halved(normals: Callable[[int], Normals]) -> Callable[[int], Normals]:
    """Return the normals of steps twice as long on the same Brownian path: (first + second) / sqrt(2).

    Example:
        >>> half = halved(lambda index: lambda *shape: torch.full(shape, float(index)))
        >>> round(float(half(1)(1)), 6) == round((2 + 3) / 2**0.5, 6)
        True
    """

    def coarse(index: int) -> Normals:
        first, second = normals(2 * index), normals(2 * index + 1)
        return lambda *shape: (first(*shape) + second(*shape)) / sqrt(2)

    return coarse


def factor(covariance: Tensor) -> tuple[Tensor, float]:
    """Return L with L L^T = covariance, lower triangular, and the worst pivot relative to its diagonal entry.

    Pivots below rounding, of inputs that coincide or nearly do, count as zero, and so does their column: nothing is
    added to the diagonal. Row i of L depends on the first i inputs alone.

    Args:
        covariance: symmetric, shape (..., k, k).

    Returns:
        L, and the smallest pivot / diagonal; below -1e-8 the matrix is not positive semi-definite.

    Example:
        >>> factor(torch.ones(2, 2, dtype=torch.float64))[0].tolist()
        [[1.0, 0.0], [1.0, 0.0]]
    """
    size = covariance.shape[-1]
    root = torch.zeros_like(covariance)
    worst = 0.0
    for j in range(size):
        left = covariance[..., j:, j] - (root[..., j:, :j] * root[..., j : j + 1, :j]).sum(-1)
        pivot, diagonal = left[..., 0], covariance[..., j, j]
        relative = pivot / torch.where(diagonal.abs() > 0, diagonal.abs(), 1.0)
        worst = min(worst, float(relative.min()))
        kept = relative > size * ROUNDING
        scale = torch.where(kept, torch.where(kept, pivot, 1.0).rsqrt(), 0.0)
        root[..., j:, j] = left * scale[..., None]
    return root, worst
