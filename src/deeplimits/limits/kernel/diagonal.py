"""The one-dimensional recursion: the diagonal of a kernel, exact and cheap, one input at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from deeplimits.architecture.layer import as_float
from deeplimits.limits.kernel.tape import Add, Affine, Collapse, Copy, Dual, Normalise, Tape


@dataclass(frozen=True)
class Diagonal:
    """The diagonal along a tape.

    Attributes:
        start: |x|^2 / d, shape (N,).
        before: {step: q of shape (N,)} for the steps that need it (`Tape.needs`), before the step acts.
        k: K(x, x), shape (N,).
        theta: NTK(x, x), shape (N,).
        gain: dK(x, x')/dK_0(x, x') at x' = x, shape (N,): how much an error of the Gram matrix grows.
    """

    start: np.ndarray
    before: Mapping[int, np.ndarray]
    k: np.ndarray
    theta: np.ndarray
    gain: np.ndarray


def run(tape: Tape, q0: np.ndarray, theta0: np.ndarray | None = None) -> Diagonal:
    """Run a tape on the diagonal.

    Args:
        tape: the steps.
        q0: |x|^2 / d, shape (N,), float64.
        theta0: NTK at the start, zero by default.
    """
    zero = np.zeros_like(q0)
    k, theta, gain = ([zero] * tape.registers for _ in range(3))
    k[0], theta[0], gain[0] = q0, zero if theta0 is None else theta0, np.ones_like(q0)
    before: dict[int, np.ndarray] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for index, step in enumerate(tape.steps):
            match step:
                case Affine(r, weight, bias, up, shift):
                    weight, bias, up, shift = (as_float(v) for v in (weight, bias, up, shift))
                    theta[r] = weight * theta[r] + up * k[r] + shift
                    k[r], gain[r] = weight * k[r] + bias, weight * gain[r]
                case Dual(r, family):
                    before[index] = k[r] = np.maximum(k[r], 0)
                    k[r], slope = family.diagonal(k[r])
                    theta[r], gain[r] = slope * theta[r], slope * gain[r]
                case Normalise(r, epsilon):
                    before[index] = k[r]
                    scale = np.where(k[r] + epsilon > 0, k[r] + epsilon, 1.0)
                    k[r], theta[r], gain[r] = k[r] / scale, theta[r] / scale, gain[r] / scale
                case Copy(target, source):
                    k[target], theta[target], gain[target] = k[source], theta[source], gain[source]
                case Add(target, source, factor):
                    factor = as_float(factor)
                    k[target] = k[target] + factor * k[source]
                    theta[target] = theta[target] + factor * theta[source]
                    gain[target] = gain[target] + factor * gain[source]
                case Collapse():
                    pass
    return Diagonal(q0, before, k[0], theta[0], gain[0])


def scaled(tape: Tape, q0: np.ndarray) -> Diagonal:
    """Run a homogeneous tape, whose kernels are proportional to q0, on one input and scale it."""
    one = run(tape, np.ones(1))
    return Diagonal(q0, _Scaled(one.before, q0), one.k * q0, one.theta * q0, np.broadcast_to(one.gain, q0.shape))


@dataclass(frozen=True)
class _Scaled(Mapping):
    """Variances before each step, multiplied out when asked for: a flow has hundreds of steps."""

    one: Mapping[int, np.ndarray]
    q0: np.ndarray

    def __getitem__(self, step: int) -> np.ndarray:
        return self.one[step] * self.q0

    def __iter__(self) -> Iterator[int]:
        return iter(self.one)

    def __len__(self) -> int:
        return len(self.one)
