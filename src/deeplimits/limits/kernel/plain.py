"""The plain torch path: differentiable, on any device, reading the same tape as the tile engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deeplimits.limits.kernel.tape import Add, Affine, Collapse, Copy, Dual, Normalise, Step, Tape

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def run(tape: Tape, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (K, Theta), each of shape (N, M), in float64.

    Args:
        tape: the steps; their numbers may be tensors that require gradients.
        x1: shape (N, d), float64.
        x2: shape (M, d), float64.
    """
    d = x1.shape[1]
    k = x1 @ x2.T / d
    q1, q2 = (x1**2).sum(1, keepdim=True) / d, (x2**2).sum(1)[None, :] / d
    end = follow(tape.steps, tape.registers, (k, torch.zeros_like(k), q1, q2))
    return end[0], end[1]


def follow(steps: Sequence[Step], count: int, start: State) -> State:
    """Return the state in register 0 after the steps.

    Args:
        steps: in order; their numbers may be tensors that require gradients.
        count: number of registers.
        start: (k, theta, q1, q2): covariance and NTK of pairs, and the variances of either side, which broadcast.
    """
    registers: list[State] = [start] * count
    for step in steps:
        match step:
            case Affine(r, weight, bias, gain, shift):
                k, theta, q1, q2 = registers[r]
                moved = tuple(weight * q + bias for q in (q1, q2))
                registers[r] = (weight * k + bias, weight * theta + gain * k + shift, *moved)
            case Dual(r, family):
                registers[r] = _dual(registers[r], family)
            case Normalise(r, epsilon):
                k, theta, q1, q2 = registers[r]
                n1, n2 = (torch.where(q + epsilon > 0, q + epsilon, 1.0) for q in (q1, q2))
                scale = torch.sqrt(n1) * torch.sqrt(n2)
                registers[r] = (k / scale, theta / scale, q1 / n1, q2 / n2)
            case Copy(target, source):
                registers[target] = registers[source]
            case Add(target, source, factor):
                pairs = zip(registers[target], registers[source], strict=True)
                registers[target] = tuple(t + factor * o for t, o in pairs)  # type: ignore[assignment]
            case Collapse(r):
                _, theta, q1, q2 = registers[r]
                registers[r] = (torch.sqrt(q1 * q2), theta, q1, q2)
    return registers[0]


def _dual(state: State, family: Any) -> State:
    k, theta, q1, q2 = state
    q1, q2 = q1.clamp(min=0), q2.clamp(min=0)
    value, slope = family.pair(k, q1, q2)
    moved = tuple(family.pair(q, q, q)[0] for q in (q1, q2))
    return value, slope * theta, moved[0], moved[1]
