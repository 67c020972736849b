"""E[h(u, v)] of any function of two correlated Gaussians, in polar coordinates: exact at kinks on u = 0 and v = 0.

u = sqrt(q1) r cos(phi - t/2), v = sqrt(q2) r cos(phi + t/2), t the angle between the inputs: u and v change sign at
four angles phi, between which Gauss-Legendre rules converge geometrically for functions smooth apart from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import pi, sqrt

import numpy as np
import torch
from torch import Tensor

ENTRIES = 2**16


@dataclass(frozen=True)
class Level:
    """Nodes on each of the four arcs, nodes along the radius, and the radius covered."""

    arc: int
    radial: int
    reach: float


LEVELS = (
    *(Level(12, 28, 9.5), Level(16, 40, 10.5), Level(24, 56, 11.5), Level(32, 80, 12.5)),
    *(Level(48, 112, 13.5), Level(72, 160, 14.5)),
)


@cache
def _rules(level: Level) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return nodes and weights on [0, 1], and radii with the weights of the radial density r exp(-r^2/2)."""
    x, w = np.polynomial.legendre.leggauss(level.arc)
    y, z = np.polynomial.legendre.leggauss(level.radial)
    radius = level.reach * (y + 1) / 2
    density = z * radius * np.exp(-(radius**2) / 2)
    parts = ((x + 1) / 2, w / 2, radius, density / density.sum())
    return tuple(torch.from_numpy(part) for part in parts)  # type: ignore[return-value]


def grid(angle: Tensor, q1: Tensor, q2: Tensor, level: Level) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nodes u and v and the weights, each (P, M), of pairs with given angles and variances, (P,) each."""
    place, share, radius, density = _rules(level)
    half = angle[:, None] / 2
    corners = torch.cat([-half - pi / 2, half - pi / 2, -half + pi / 2, half + pi / 2, 3 * pi / 2 - half], dim=1)
    lengths = corners.diff(dim=1)[:, :, None]
    phi = (corners[:, :4, None] + lengths * place).flatten(1)
    weights = (lengths * share / (2 * pi)).flatten(1)
    u, v = (torch.cos(phi + sign * half)[:, :, None] * radius for sign in (-1, 1))
    flat = (sqrt_of(q)[:, None] * values.flatten(1) for q, values in ((q1, u), (q2, v)))
    return *flat, (weights[:, :, None] * density).flatten(1)  # type: ignore[return-value]


def sqrt_of(q: Tensor) -> Tensor:
    """Return sqrt(max(q, 0))."""
    return q.clamp(min=0).sqrt()


class Average:
    """E[...] over the nodes of one grid, which also follows derivatives in the covariance k at fixed variances.

    By Price's theorem d/dk E[h(u, v)] = E[d^2 h / du dv]; averages inside averages are followed by the chain rule: what
    is returned carries the derivative as its gradient in `k`.
    """

    def __init__(self, u: Tensor, v: Tensor, weights: Tensor, slope: bool):
        self.u, self.v = u.requires_grad_(slope), v.requires_grad_(slope)
        self.weights, self.slope = weights, slope
        self.k = torch.zeros(len(u), 1, dtype=u.dtype, requires_grad=slope)

    def __call__(self, h: Tensor | float) -> Tensor:
        """Return the expectation, (P, 1)."""
        h = torch.as_tensor(h, dtype=self.weights.dtype)
        value = (h * self.weights).sum(-1, keepdim=True)
        if not (self.slope and h.requires_grad):
            return value
        once = _gradient(h.sum(), self.u, create=True)
        mixed = _gradient(once.sum(), self.v)
        inner = _gradient(value.sum(), self.k)
        slope = (mixed * self.weights).sum(-1, keepdim=True) + inner
        return value.detach() + self.k * slope.detach()

    def derivative(self, value: Tensor) -> Tensor:
        """Return dvalue/dk, (P, 1), of something made of these averages."""
        return _gradient(value.sum(), self.k)


def _gradient(total: Tensor, of: Tensor, create: bool = False) -> Tensor:
    if not total.requires_grad:
        return torch.zeros_like(of)
    found = torch.autograd.grad(total, of, create_graph=create, retain_graph=True, allow_unused=True)[0]
    return torch.zeros_like(of) if found is None else found


Covariance = Callable[[Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]


def expectation(
    covariance: Covariance, angle: Tensor, q1: Tensor, q2: Tensor, level: Level, slope: bool = True
) -> tuple[Tensor, Tensor]:
    """Return (C, dC/dk), (P,) each, of a function covariance(u, v, mean) with `mean` the Gaussian expectation.

    Args:
        covariance: written in averages of elementwise torch functions of u and v.
        angle: arccos of k / sqrt(q1 q2), shape (P,), float64.
        q1: variances of u, shape (P,).
        q2: variances of v, shape (P,).
        level: number of nodes.
        slope: whether dC/dk is wanted; zeros otherwise.

    Source: derived (Price's theorem).

    Example:
        >>> t = torch.tensor([1.0], dtype=torch.float64)
        >>> k, slope = expectation(lambda u, v, mean: mean(u.relu() * v.relu()), t, t, t, LEVELS[0])
        >>> exact = (torch.sin(t) + (pi - t) * torch.cos(t)) / (2 * pi)
        >>> bool(abs(k - exact) < 1e-13), bool(abs(slope - (pi - t) / (2 * pi)) < 1e-13)
        (True, True)
    """
    size = max(1, ENTRIES // (4 * level.arc * level.radial))
    values, slopes = [], []
    for start in range(0, len(angle), size):
        rows = slice(start, start + size)
        average = Average(*grid(angle[rows], q1[rows], q2[rows], level), slope=slope)
        with torch.set_grad_enabled(slope):
            value = torch.as_tensor(covariance(average.u, average.v, average), dtype=torch.float64)
            value = value.expand(len(average.k), 1)
            values.append(value.detach()[:, 0])
            slopes.append(average.derivative(value)[:, 0])
    return torch.cat(values), torch.cat(slopes)


def angle_of(gap: Tensor, span: Tensor) -> Tensor:
    """Return the angle with gap = s (1 - cos), span = s (1 + cos), accurate at both ends; pi/2 where both are 0."""
    least, most = (part.clamp(min=0).sqrt() for part in (gap, span))
    return torch.where(least + most > 0, 2 * torch.atan2(least, most), sqrt(pi) ** 2 / 2)
