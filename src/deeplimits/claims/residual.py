"""Residual networks on digits, and the learning rates that are best for them: what two claims sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np
import torch
from torch import nn

from deeplimits.claims import agreement
from deeplimits.claims.claim import Curve
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate
from deeplimits.transfer.evidence.optimum import minimum
from deeplimits.transfer.evidence.side_by_side import Runs, Training, side_by_side
from deeplimits.transfer.examples.data import digits
from deeplimits.transfer.make import transfer
from deeplimits.transfer.rule import Rule

CLASSES = 10
CHANCE = log(CLASSES)
Size = tuple[int, int]
Build = Callable[..., nn.Module]


class Block(nn.Module):
    """h + m(phi(W h)), with a second matrix h + V phi(W h); m subtracts the mean over the features."""

    def __init__(self, width: int, activation: Callable[[torch.Tensor], torch.Tensor], layers: int):
        super().__init__()
        self.first, self.activation = nn.Linear(width, width, bias=False), activation
        self.second = nn.Linear(width, width, bias=False) if layers == 2 else None
        for matrix, gain in ((self.first, 1.0 if activation is torch.abs else 2.0), (self.second, 1.0)):
            if matrix is not None:
                nn.init.normal_(matrix.weight, std=(gain / width) ** 0.5)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Return the next hidden state."""
        branch = self.activation(self.first(h))
        return h + (branch - branch.mean(-1, keepdim=True) if self.second is None else self.second(branch))


class Residual(nn.Module):
    """Read in, residual blocks, a norm if wanted, and a readout that starts from zero."""

    def __init__(self, width: int, blocks: Sequence[nn.Module], norm: bool):
        super().__init__()
        self.read_in, self.blocks = nn.Linear(64, width, bias=False), nn.ModuleList(blocks)
        self.norm, self.readout = nn.LayerNorm(width) if norm else nn.Identity(), nn.Linear(width, CLASSES)
        nn.init.normal_(self.read_in.weight)
        nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def states(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return the hidden states before, between and after the blocks."""
        found = [self.read_in(x)]
        for block in self.blocks:
            found.append(block(found[-1]))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.readout(self.norm(self.states(x)[-1]))


def build(activation: Callable[[torch.Tensor], torch.Tensor] = torch.relu, layers: int = 1, norm: bool = True) -> Build:
    """Return a function of width and depth that builds residual networks with blocks of one or two layers.

    Example:
        >>> build()(width=32, depth=4)(torch.zeros(3, 64)).shape
        torch.Size([3, 10])
    """
    return lambda width, depth: Residual(width, [Block(width, activation, layers) for _ in range(depth)], norm)


def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy."""
    return nn.functional.cross_entropy(model(x), y)


@one_thread()
def trained(
    build: Build, base: Size, size: Size, rule: str | Rule, log2_lrs: Sequence[float], seeds: Sequence[int],
    training: Training,
) -> Runs:  # fmt: skip
    """Train networks of a (width, depth) side by side with the base's learning rates, as a rule's plan says."""
    small, large = _named(base), _named(size)
    plan = None if size == base else transfer(build, small, large, rule, training.optimizer)
    return side_by_side(build, large, plan, [2.0**k for k in log2_lrs], seeds, loss, digits(), training)


@dataclass(frozen=True)
class Sweep:
    """What training found at one size.

    Attributes:
        size: width and depth.
        log2_lrs: base-2 logarithms of the base's learning rates.
        losses: on all digits, shape (learning rates, seeds); a run is never worse than chance, log 10.
        best: base-2 logarithm of each seed's best learning rate, shape (seeds,).
        lowest: each seed's loss there, shape (seeds,).
        at_edge: whether the smallest mean lies at an end of the learning rates.
    """

    size: Size
    log2_lrs: tuple[float, ...]
    losses: np.ndarray
    best: np.ndarray
    lowest: np.ndarray
    at_edge: bool

    def curve(self, name: str) -> Curve:
        """Return the mean loss against the learning rate."""
        means = [agreement.average(at) for at in self.losses]
        return Curve(name, list(self.log2_lrs), [m.value for m in means], [m.error for m in means])


def swept(runs: Runs, size: Size, log2_lrs: Sequence[float]) -> Sweep:
    """Find each seed's best learning rate: the parabola through three points around its smallest log loss."""
    losses = np.minimum(runs.losses(loss, *digits()), CHANCE)
    grid = np.asarray(log2_lrs, dtype=float)
    found = [minimum(grid, losses[:, [seed]]) for seed in range(losses.shape[1])]
    best, lowest = np.array([at for at, _, _ in found]), np.array([value for _, value, _ in found])
    return Sweep(size, tuple(grid.tolist()), losses, best, lowest, minimum(grid, losses)[2])


def sweep(
    build: Build, base: Size, size: Size, rule: str | Rule, log2_lrs: Sequence[float], seeds: Sequence[int],
    training: Training,
) -> Sweep:  # fmt: skip
    """Train one size at every learning rate and seed, and return what was best."""
    return swept(trained(build, base, size, rule, log2_lrs, seeds, training), size, log2_lrs)


def drift(first: Sweep, last: Sweep) -> Estimate:
    """Return by how many octaves the best learning rate moves, over seeds; of no weight where one lies at an edge."""
    found = agreement.average(last.best - first.best)
    return Estimate(found.value, inf) if first.at_edge or last.at_edge else found


def best_curve(name: str, sweeps: Sequence[Sweep]) -> Curve:
    """Return the best learning rates, as powers of two, against the depth."""
    means = [agreement.average(found.best) for found in sweeps]
    return Curve(name, [float(found.size[1]) for found in sweeps], [m.value for m in means], [m.error for m in means])


def _named(size: Size) -> Mapping[str, int]:
    return {"width": size[0], "depth": size[1]}
