"""The kernel question: rules write a network's steps on a tape, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from deeplimits.architecture.layer import WIDTH, Layer
from deeplimits.architecture.question import Question
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.tape import Step, Tape

kernel = Question("kernel", otherwise="sample it instead with dl.sample(net, X, width=..., depth=..., networks=...)")


@dataclass
class Lowering:
    """The tape being written, and what is known of the value in the current register.

    Attributes:
        depth: what DEPTH stands for, or infinity.
        features: number of features of the value, or WIDTH.
        standard: whether the parametrization is the standard one.
        widths: widths of the layers whose features are WIDTH (standard parametrization).
        gaussian: whether the features are Gaussian in the limit, independent, with zero mean.
        carried: whether the value still holds the branch's own input.
        centred: whether the value, not Gaussian, has zero mean and, by fresh weights, no covariance with its input.
        holds: what the value is, in words, where it is not Gaussian.
        probe: values of |x|^2/d at which limits of infinite depth are examined.
    """

    depth: float
    features: Any
    standard: bool = False
    widths: Sequence[int] | int | None = None
    gaussian: bool = False
    carried: bool = True
    centred: bool = False
    holds: str = "the raw input"
    register: int = 0
    steps: list[Step] = field(default_factory=list)
    used: int = 1
    free: list[int] = field(default_factory=list)
    index: int | None = None
    repeats: int | None = None
    limits: list[Any] = field(default_factory=list)
    dense_layers: int = 0
    probe: Any = (0.5, 1.0, 2.0)

    def fork(self) -> Lowering:
        """Return an empty tape that starts at this value."""
        return replace(self, register=0, steps=[], used=1, free=[], limits=[])

    def add(self, step: Step) -> None:
        """Write a step."""
        self.steps.append(step)

    def tape(self) -> Tape:
        """Return what was written."""
        return Tape(tuple(self.steps), self.used)

    @contextmanager
    def branch(self) -> Iterator[int]:
        """Give a register to a branch; the value's own state is restored afterwards, the register stays held."""
        if self.free:
            fresh = self.free.pop()
        else:
            fresh, self.used = self.used, self.used + 1
        kept = (self.register, self.features, self.gaussian, self.carried, self.centred, self.holds)
        self.register, self.carried, self.centred = fresh, True, False
        yield fresh
        self.register, self.features, self.gaussian, self.carried, self.centred, self.holds = kept

    def release(self, registers: Iterable[int]) -> None:
        """Take registers back that nobody reads any more."""
        self.free.extend(registers)

    def fan_in(self, where: str) -> float:
        """Return the number of features of the current value, for the standard parametrization."""
        if self.features is WIDTH or self.features == WIDTH:
            why = "the standard parametrization multiplies the NTK of each layer by its number of inputs, which is open"
            raise DescriptionError(where, why, "pass widths= or give the layers numeric features")
        return float(self.features)

    def outputs(self, features: Any) -> Any:
        """Return the number of features of the next Dense layer, looked up in `widths` where it is WIDTH."""
        if features != WIDTH:
            return features
        place, self.dense_layers = self.dense_layers, self.dense_layers + 1
        if self.widths is None:
            return WIDTH
        if isinstance(self.widths, int):
            return self.widths
        if place >= len(self.widths):
            why = f"widths has {len(self.widths)} entries, the network has more layers of open width"
            raise DescriptionError("kernel(widths=...)", why, "give one whole number, or one entry a layer")
        return self.widths[place]


def lower(
    net: Layer, depth: float, inputs: int, parametrization: str = "ntk", widths: Any = None, probe: Any = None
) -> Lowering:
    """Return the tape of a network, with what is known of its output.

    Args:
        net: the description.
        depth: a whole number, or infinity.
        inputs: number of input features.
        parametrization: "ntk" or "standard".
        widths: widths of the layers whose features are open (standard parametrization only).
        probe: values of |x|^2/d at which limits of infinite depth are examined.
    """
    if parametrization not in ("ntk", "standard"):
        raise DescriptionError("kernel", f"parametrization={parametrization!r}", "use 'ntk' or 'standard'")
    state = Lowering(depth, inputs, parametrization == "standard", _widths(widths))
    if probe is not None:
        state.probe = probe
    kernel(net, state)
    if isinstance(state.widths, tuple) and state.dense_layers != len(state.widths) and depth != inf:
        why = f"widths has {len(state.widths)} entries, the network {state.dense_layers} layers of open width"
        raise DescriptionError("kernel(widths=...)", why, "give one whole number, or one entry a layer")
    return state


def _widths(widths: Any) -> Any:
    if widths is None:
        return None
    if hasattr(widths, "__len__"):
        return tuple(whole("kernel", "widths", width) for width in widths)
    return whole("kernel", "widths", widths)
