"""The exponents of `depth_class`, measured on small residual networks, and the diversity of their features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deeplimits.errors import InputError
from deeplimits.numerics.fit import Slope, slope
from deeplimits.transfer.exponents.depth import DepthClass

INPUTS, SAMPLES = 16, 8


@dataclass(frozen=True)
class DepthExponents:
    """What was measured beside a `DepthClass`.

    Attributes:
        predicted: the class.
        depths: of the networks.
        seeds: number of networks of each depth.
        initial, layer, learned, variation: exponents of the depth, each with its interval.
        diversity: exponent of |h_{s + e} - h_s| in e, of the deepest network; between the start's 1/2 and its limit.
    """

    predicted: DepthClass
    depths: tuple[int, ...]
    seeds: int
    initial: Slope
    layer: Slope
    learned: Slope
    variation: Slope
    diversity: Slope

    def __str__(self) -> str:
        lines = [str(self.predicted)]
        for name in ("initial", "layer", "learned", "variation", "diversity"):
            found, expected = getattr(self, name), getattr(self.predicted, name)
            words = "none" if expected is None else f"{expected:+.2f}"
            lines.append(f"  {name:10} {found.value:+.2f} +- {found.standard_error:.2f}, predicted {words}")
        return "\n".join(lines)


def measure(
    predicted: DepthClass,
    depths: Sequence[int] = (8, 16, 32, 64),
    width: int = 64,
    seeds: int = 8,
    steps: int = 4,
    lr: float = 0.5,
    activation: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
) -> DepthExponents:
    """Train h_l = h_{l-1} + L^-alpha W_l phi(h_{l-1}) on random labels and fit how its parts scale with the depth.

    `initial`, `layer` and `learned` belong to the first step, `variation` and `diversity` to the end of training.

    Args:
        predicted: the powers, and the optimizer's family (entrywise: steps of signs; spectral: orthogonal steps).
        depths: three or more.
        width: of the networks.
        seeds: number of networks of each depth; standard errors are over them.
        steps: of training.
        lr: at depth 1, in units in which a block's output moves by about that much.
        activation: phi.

    Raises:
        InputError: fewer than three depths, or fewer than two seeds.
    """
    depths = tuple(sorted(set(depths)))
    if len(depths) < 3 or seeds < 2:
        why = f"depths={list(depths)}, seeds={seeds}"
        raise InputError("depth_class", why, "give three or more depths and two or more seeds")
    parts: dict[str, list[list[float]]] = {"initial": [], "layer": [], "learned": [], "variation": []}
    states = []
    for depth in depths:
        runs = [Stack(predicted, depth, width, activation, seed) for seed in range(seeds)]
        found = [list(run.first_step(lr)) for run in runs]
        for run in runs:
            for _ in range(steps - 1):
                run.weights = run.weights + run.change(lr)
        states = [run.states() for run in runs]
        found = [[*first, depth * _size(h[1:] - h[:-1]) ** 2] for first, h in zip(found, states, strict=True)]
        for place, name in enumerate(parts):
            parts[name].append([values[place] for values in found])
    fits = {name: _fitted(depths, values) for name, values in parts.items()}
    return DepthExponents(predicted, depths, seeds, **fits, diversity=feature_diversity(states))


def feature_diversity(states: Sequence[torch.Tensor]) -> Slope:
    """Fit the exponent d of |h_{s + e} - h_s| ~ e^d, root mean square over s, samples and features.

    1/2 where every block brings features of its own, as in Brownian motion; 1 where the hidden state is a smooth curve
    of the depth, so that half the blocks, each twice as strong, would do.

    Args:
        states: for each network the hidden states before, between and after its blocks, shape (blocks + 1, ..., width).

    Raises:
        InputError: fewer than 8 blocks.

    Source: yang-2023-tp6-depth-mup.

    Example:
        >>> line = torch.linspace(0, 1, 33)[:, None] * torch.ones(5)
        >>> round(feature_diversity([line, 2 * line]).value, 6)
        1.0
    """
    blocks = min(len(h) for h in states) - 1
    if blocks < 8:
        raise InputError("feature_diversity", f"{blocks} blocks", "give the hidden states of 8 blocks or more")
    gaps = [2**k for k in range(blocks.bit_length()) if 2**k <= blocks // 4]
    sizes = [[float((h[gap:] - h[:-gap]).double().square().mean().sqrt()) for h in states] for gap in gaps]
    return _fitted([gap / blocks for gap in gaps], sizes)


class Stack:
    """A residual network of one-layer blocks, whose blocks alone are trained."""

    def __init__(self, powers: DepthClass, depth: int, width: int, activation: Any, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.powers, self.depth, self.activation = powers, depth, activation
        x = torch.randn(SAMPLES, INPUTS, generator=draw, dtype=torch.float64)
        self.start = x @ torch.randn(INPUTS, width, generator=draw, dtype=torch.float64) / INPUTS**0.5
        self.labels = torch.randn(SAMPLES, generator=draw, dtype=torch.float64).sign()
        self.readout = torch.randn(width, generator=draw, dtype=torch.float64)
        self.weights = torch.randn(depth, width, width, generator=draw, dtype=torch.float64) / width**0.5

    def states(self, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Return the hidden states before, between and after the blocks, shape (depth + 1, samples, width)."""
        found = [self.start]
        for w in self.weights if weights is None else weights:
            found.append(found[-1] + self.depth**-self.powers.alpha * self.activation(found[-1]) @ w.T)
        return torch.stack(found)

    def change(self, lr: float) -> torch.Tensor:
        """Return what a step adds to the weights."""
        weights = self.weights.clone().requires_grad_()
        width = len(self.readout)
        output = self.states(weights)[-1] @ self.readout / width
        (gradient,) = torch.autograd.grad(0.5 * (output - self.labels).square().sum(), weights)
        if self.powers.family == "entrywise":
            gradient = gradient.sign() / width
        elif self.powers.family == "spectral":
            u, s, v = torch.linalg.svd(gradient, full_matrices=False)
            kept = (s > 1e-10 * s.amax(-1, keepdim=True)).to(s.dtype)
            gradient = (u * kept[..., None, :]) @ v
        return -lr * self.depth**-self.powers.gamma * gradient

    def first_step(self, lr: float) -> tuple[float, float, float]:
        """Take a step; return the sizes of what blocks gave before it, of their own change, and of all they changed."""
        before, change = self.states(), self.change(lr)
        own = torch.einsum("lbi,lji->lbj", self.activation(before[:-1]), change)
        self.weights = self.weights + change
        return _size(before[-1] - before[0]), _size(own), _size(self.states()[-1] - before[-1])


def _size(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())


def _fitted(at: Sequence[float], values: list[list[float]]) -> Slope:
    found = np.array(values)
    means, errors = found.mean(1), found.std(1, ddof=1) / found.shape[1] ** 0.5
    return slope(np.asarray(at, dtype=float), means, np.maximum(errors, 1e-3 * means))
