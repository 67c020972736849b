"""The short list of steps that a network is lowered to; every executor of kernels reads the same list.

A register holds a pair (k, theta): the covariance and the NTK of two inputs at one place of the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Affine:
    """theta <- weight*theta + gain*k + shift; k <- weight*k + bias.

    In the NTK parametrization gain = weight and shift = bias; in the standard one gain = fan_in and shift = 1.
    """

    register: int
    weight: Any
    bias: Any
    gain: Any
    shift: Any


@dataclass(frozen=True)
class Dual:
    """(k, theta) <- (E[phi(u) phi(v)], E[phi'(u) phi'(v)] theta)."""

    register: int
    family: Any


@dataclass(frozen=True)
class Normalise:
    """k and theta divided by sqrt((q1 + epsilon) (q2 + epsilon)); an input of norm zero stays zero."""

    register: int
    epsilon: float


@dataclass(frozen=True)
class Copy:
    """target <- source."""

    target: int
    source: int


@dataclass(frozen=True)
class Add:
    """target <- target + factor * source."""

    target: int
    source: int
    factor: Any


@dataclass(frozen=True)
class Collapse:
    """k <- sqrt(q1 q2): the limit of a map that brings all angles to zero."""

    register: int


Step = Affine | Dual | Normalise | Copy | Add | Collapse


@dataclass(frozen=True)
class Tape:
    """The steps in order; the input and the result stand in register 0."""

    steps: tuple[Step, ...]
    registers: int

    def needs(self) -> tuple[int, ...]:
        """Return the indices of the steps that need the diagonal q of their register."""
        return tuple(i for i, step in enumerate(self.steps) if isinstance(step, Dual | Normalise))
