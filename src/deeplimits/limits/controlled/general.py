"""The equation d2K/dsdt = (a V(K) + b) <x', y'> for any activation, through its Gaussian expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deeplimits.numerics.gaussian.family import Family

CHUNK = 1 << 21  # covariances on an antidiagonal held at once
ROUNDS, ENOUGH = 200, 1e-12


@dataclass(frozen=True)
class Equation:
    """What stands in the equation and in its scheme.

    Attributes:
        family: V(K) = E[phi(u) phi(v)].
        weight, bias: a and b.
        start: K where either path starts.
        scheme: weights of the growth at the first corner of a cell, of that at each of the two beside it, and of its
            change within the cell; as in `kink`.
    """

    family: Family
    weight: float
    bias: float
    start: float
    scheme: tuple[float, float, float]

    def growth(self, k: Tensor, q1: Tensor, q2: Tensor) -> tuple[Tensor, Tensor]:
        """Return G = a V + b and dG/dk."""
        bound = (q1.clamp(min=0) * q2.clamp(min=0)).sqrt()
        value, slope = self.family.pair(torch.minimum(torch.maximum(k, -bound), bound), q1, q2)
        return self.weight * value + self.bias, self.weight * slope


def own(x: Tensor, equation: Equation) -> Tensor:
    """Return K(s, s) along each of N paths, shape (N, n + 1).

    The equation of a path against itself holds its own variances ahead of time: it is solved with those of the last
    round until they stay, which they do as fast as a series of exponential kind.

    Args:
        x: increments, shape (N, n, d).
        equation: what is solved.
    """
    count, steps, _ = x.shape
    variances = x.new_full((count, steps + 1), equation.start)
    for _ in range(ROUNDS):
        found = variances.clone()

        def product(i: Tensor, j: Tensor) -> Tensor:
            return (x[:, i] * x[:, j]).sum(-1)

        def along(i: Tensor, j: Tensor, q: Tensor = variances) -> tuple[Tensor, Tensor]:
            return q[:, i], q[:, j]

        for place, low, k in _antidiagonals(
            (steps, steps), x.new_full((count,), equation.start), product, along, equation
        ):
            if place % 2 == 0:
                found[:, place // 2] = k[:, place // 2 - low]
        moved = (found - variances).abs() / found.abs().clamp(min=equation.start + 1e-300)
        variances = found
        if not bool((moved > ENOUGH).any()):
            break
    return variances


def pairs(x: Tensor, y: Tensor, variances: tuple[Tensor, Tensor], equation: Equation) -> Tensor:
    """Return K at the ends of N and M paths, shape (N, M).

    Args:
        x: increments, shape (N, n, d).
        y: likewise, shape (M, m, d).
        variances: of both, from `own`, shapes (N, n + 1) and (M, m + 1).
        equation: what is solved.
    """
    rows = max(1, CHUNK // (len(y) * (x.shape[1] + 1)))
    return torch.cat(
        [
            _end(x[at : at + rows], y, (variances[0][at : at + rows], variances[1]), equation)
            for at in range(0, len(x), rows)
        ]
    )


def _end(x: Tensor, y: Tensor, variances: tuple[Tensor, Tensor], equation: Equation) -> Tensor:
    def product(i: Tensor, j: Tensor) -> Tensor:
        return torch.einsum("nkd,mkd->nmk", x[:, i], y[:, j])

    def along(i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        return variances[0][:, None, i], variances[1][None, :, j]

    start = x.new_full((len(x), len(y)), equation.start)
    *_, (_, _, k) = _antidiagonals((x.shape[1], y.shape[1]), start, product, along, equation)
    return k[..., 0]


Places = Callable[[Tensor, Tensor], Any]


def _antidiagonals(
    size: tuple[int, int], start: Tensor, product: Places, along: Places, equation: Equation
) -> Iterator[tuple[int, int, Tensor]]:
    """Yield (i + j, lowest i, K(i, j) for all i from there on as the last dimension), one antidiagonal after another.

    Args:
        size: cells (n, m).
        start: K where either path starts, of the shape of the pairs.
        product: <x_i, y_j> in cells, pairs first.
        along: both variances at corners, pairs first.
        equation: what is solved.
    """
    (n, m), zero = size, torch.zeros(1, dtype=torch.long)
    before = before_g = here = start[..., None]
    here_g, here_h = equation.growth(here, *along(zero, zero))
    low, last_low, (first, sides, bend) = 0, 0, equation.scheme
    for place in range(1, n + m + 1):
        corner_low, last_low, low, high = last_low, low, max(0, place - m), min(n, place)
        i = torch.arange(low, high + 1)
        new = start[..., None].repeat(*[1] * start.dim(), len(i))
        inner = i[(i > 0) & (i < place)]
        if len(inner):
            left, corner = inner - last_low - 1, inner - 1 - corner_low
            z, beside = product(inner - 1, place - inner - 1), here_g[..., left] + here_g[..., left + 1]
            moved = first * before_g[..., corner] + sides * beside
            slopes = here_h[..., left] + here_h[..., left + 1]
            moved = moved + bend * z * slopes * (beside + before_g[..., corner])
            new[..., inner - low] = here[..., left] + here[..., left + 1] - before[..., corner] + moved * z
        before, before_g, here = here, here_g, new
        here_g, here_h = equation.growth(here, *along(i, place - i))
        yield place, low, here
