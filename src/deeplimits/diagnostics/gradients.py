"""Which blocks an answer is due to: gradients integrated while all blocks are turned on together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimits.diagnostics.record import depth_score
from deeplimits.diagnostics.stack import Rule, Stack, found
from deeplimits.errors import InputError


@dataclass(frozen=True)
class Attribution:
    """What blocks add to the log-probability of the answers.

    Attributes:
        names: of the blocks.
        values: (L, ...), by block and by place of its output; summed over the answers.
        total: log-probability of the answers with all blocks, less that without any.
        gap: what values miss of the total, from the quadrature.
    """

    names: tuple[str, ...]
    values: Tensor
    total: float
    gap: float

    @property
    def blocks(self) -> tuple[float, ...]:
        """Attribution of each block, over all places."""
        return tuple(float(one.sum()) for one in self.values)

    @property
    def score(self) -> float:
        """Mean block weighted by the absolute attributions of its places, 0 the first."""
        return depth_score([float(one.abs().sum()) for one in self.values])


def integrated_gradients(
    model: nn.Module,
    inputs: Any,
    targets: Tensor | None = None,
    blocks: str | Sequence[str | nn.Module] | None = None,
    points: int = 16,
    features: int = -1,
) -> Attribution:
    """Attribute the log-probability of answers to the outputs of blocks.

    Blocks give h + g u(h), g from 0 to 1 for all of them at once: A_l = int_0^1 d log p / d g_l dg. Attributions sum
    to the whole change of log p (completeness). Gauss-Legendre quadrature.

    Args:
        model: any module with logits over the last dimension; run in evaluation mode and left as it was.
        inputs: as of `depth_use`.
        targets: answers, of the shape of the output without its last dimension; -100 where none is asked; None for
            the likeliest outputs of the model itself.
        blocks: as of `depth_use`.
        points: of the quadrature; each costs a forward and a backward pass.
        features: dimension of the stream that holds features.

    Returns:
        an `Attribution`.

    Raises:
        InputError: targets of another shape or beyond the outputs, fewer than one point, or as `depth_use`.

    Source: csordas-2025-depth-use; the path and its completeness: derived.

    Example:
        >>> from torch import nn
        >>> class Residual(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.branch = nn.Linear(8, 8)
        ...     def forward(self, x):
        ...         return x + torch.tanh(self.branch(x))
        >>> model = nn.Sequential(Residual(), Residual(), Residual(), nn.Linear(8, 4))
        >>> due = integrated_gradients(model, torch.randn(5, 8))
        >>> due.values.shape, abs(due.gap) < 1e-4 * abs(due.total) + 1e-4
        (torch.Size([3, 5]), True)
    """
    if not isinstance(points, int) or points < 1:
        raise InputError("integrated_gradients", f"points={points!r}", "give 1 or more; 16 is usual")
    stack = Stack(model, inputs, found(model, inputs, blocks), features)
    targets = _targets(stack, targets)
    places, weights = np.polynomial.legendre.leggauss(points)
    values = torch.zeros(len(stack), *stack.streams[0].shape[:-1], dtype=torch.float64)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        values += weight * _gradients(stack, float(place), targets)
    with torch.no_grad():
        none = stack.run({i: _scaled(torch.zeros(()), features) for i in range(len(stack))})[1]
        total = float(_answer(stack.output, targets) - _answer(none, targets))
    return Attribution(stack.names, values, total, float(values.sum()) - total)


def _targets(stack: Stack, targets: Tensor | None) -> Tensor:
    output = stack.output
    if targets is None:
        return output.argmax(-1)
    if targets.shape != output.shape[:-1]:
        why = f"targets of shape {tuple(targets.shape)}, and outputs of {tuple(output.shape)}"
        raise InputError("integrated_gradients", why, f"give class numbers of shape {tuple(output.shape[:-1])}")
    beyond = (targets >= output.shape[-1]) | ((targets < 0) & (targets != -100))
    if bool(beyond.any()):
        place = tuple(int(i) for i in beyond.nonzero()[0])
        why = f"target {int(targets[place])} at {place}, and {output.shape[-1]} outputs"
        raise InputError("integrated_gradients", why, "give class numbers, or -100 where no answer is asked")
    return targets


def _answer(output: Tensor, targets: Tensor) -> Tensor:
    return -nn.functional.cross_entropy(output.double().flatten(0, -2), targets.flatten(), reduction="sum")


def _gradients(stack: Stack, place: float, targets: Tensor) -> Tensor:
    """Return the derivative of the answers' log-probability by every block's gate, (L, ...)."""
    like = stack.streams[0][..., :1]
    gates = [torch.full_like(like, place, requires_grad=True) for _ in stack.blocks]
    with torch.enable_grad():
        output = stack.run({i: _scaled(gate, stack.features) for i, gate in enumerate(gates)})[1]
        found = torch.autograd.grad(_answer(output, targets), gates)
    return torch.stack(found).squeeze(-1).double().cpu()


def _scaled(gate: Tensor, features: int) -> Rule:
    """Return the rule of a block whose update is multiplied, a factor a place; features are last in the gate."""
    factor = gate.movedim(-1, features) if gate.dim() else gate

    def rule(h: Tensor, run: Any) -> Tensor:
        before = h.clone()
        return before + factor.to(h.dtype) * (run() - before)

    return rule
