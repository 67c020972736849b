"""How a parameter of a small model becomes that of a wider one with the same function: by copies that share sums."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch

from deeplimits.errors import InputError

POWERS = {
    **dict.fromkeys(("exp_avg", "momentum_buffer", "grad_avg"), 1),
    **dict.fromkeys(("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum"), 2),
}
"""{state of an optimizer: power of the gradient that it averages}."""


@dataclass(frozen=True)
class Widening:
    """A parameter that is copied along the dimensions that grow.

    Every channel of width d becomes channels j, j + d, ..., with the same activation. What sums over them divides its
    weights among the copies, so that sums, and root mean squares of activations, stay as they were.

    Attributes:
        name: without wrappers.
        old, new: shapes.
        summed: dimensions that are summed over.
        parts: equal parts of the outputs that are copied one by one, as queries, keys and values in one matrix.
        factor: of its values besides, where it stands before a readout that is tied to the embedding.
        shift: 1 for gains that a norm reads as 1 + w; else 0.
    """

    name: str
    old: tuple[int, ...]
    new: tuple[int, ...]
    summed: tuple[int, ...] = ()
    parts: int = 1
    factor: float = 1.0
    shift: float = 0.0

    def checked(self) -> Widening:
        """Return itself.

        Raises:
            InputError: a dimension does not grow by a whole factor, or has no such parts.
        """
        odd = next(((o, n) for o, n in zip(self.old, self.new, strict=True) if n < o or n % max(o, 1)), None)
        if odd is not None:
            why = f"{self.name} goes from {odd[0]} to {odd[1]}, which is no whole multiple"
            raise InputError("grow", why, "widen every dimension by a whole factor: uneven copies change a norm's mean")
        outputs = 0 if self.outer is None else self.old[self.outer]
        if self.parts < 1 or outputs % self.parts:
            why = f"{self.name} has {outputs} outputs, not {self.parts} equal parts"
            raise InputError("grow", why, "give another number")
        return self

    @property
    def ratios(self) -> tuple[int, ...]:
        """Return how often each dimension is copied."""
        return tuple(n // o if o else 1 for o, n in zip(self.old, self.new, strict=True))

    @property
    def outer(self) -> int | None:
        """Return the dimension of the outputs that grow; None where none does."""
        return next((n for n, ratio in enumerate(self.ratios) if ratio > 1 and n not in self.summed), None)

    def parts_of(self, axis: int) -> int:
        """Return how many equal parts a dimension has."""
        return self.parts if axis == self.outer else 1

    @property
    def gradient(self) -> float:
        """Return the gradient of a copy over that of the original: 1 over what the copies multiply it with in all."""
        return 1 / (prod(self.ratios) * self.factor / prod(self.ratios[axis] for axis in self.summed))

    def copies(self, value: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the old shape copied to the new one."""
        for axis, ratio in enumerate(self.ratios):
            if ratio > 1:
                parts = self.parts_of(axis)
                value = value.unflatten(axis, (parts, value.shape[axis] // parts))
                value = torch.cat([value] * ratio, axis + 1).flatten(axis, axis + 1)
        return value

    def values(self, value: torch.Tensor, split: float = 0.0, seed: int = 0) -> torch.Tensor:
        """Return the values of the wide parameter.

        Args:
            value: of the small one.
            split: how unequal the shares of the copies are in each sum, 0 to 1/2.
            seed: of the shares.
        """
        found = self.copies(value)
        stream = torch.Generator().manual_seed(seed + zlib.crc32(self.name.encode()))
        for axis in (axis for axis in self.summed if self.ratios[axis] > 1):
            ratio = self.ratios[axis]
            uneven = 2 * torch.rand(ratio, self.old[axis], generator=stream, dtype=torch.float64) - 1
            shares = (1 + split * (uneven - uneven.mean(0))) / ratio
            shape = [-1 if n == axis else 1 for n in range(len(self.new))]
            found = found * shares.to(found).flatten().reshape(shape)
        return (found + self.shift) * self.factor - self.shift

    def fresh(self) -> torch.Tensor:
        """Return which entries are new: those of the second copy and later, along any dimension; booleans."""
        found = torch.zeros(self.new, dtype=torch.bool)
        for axis, ratio in enumerate(self.ratios):
            parts = self.parts_of(axis)
            own = self.old[axis] // parts
            late = (torch.arange(ratio * own) >= own).repeat(parts)
            found |= late.reshape([-1 if n == axis else 1 for n in range(len(self.new))])
        return found

    def state(self, kept: Mapping[str, object], reset: str) -> dict[str, object]:
        """Return the state of an optimizer for the wide parameter.

        Args:
            kept: the state of the small one.
            reset: "new": new entries start from zero; "none": they take what the old ones have.

        Raises:
            InputError: a state that is not known here.
        """
        found: dict[str, object] = {}
        for key, value in kept.items():
            if not isinstance(value, torch.Tensor) or value.dim() == 0:
                found[key] = value.clone() if isinstance(value, torch.Tensor) else value
                continue
            if key not in POWERS or tuple(value.shape) != self.old:
                why = f"{key!r} of {self.name} is no average of gradients or of their squares that is known here"
                raise InputError("grow", why, "pass reset='all', and let the optimizer begin anew")
            moved = self.copies(value) * self.gradient ** POWERS[key]
            found[key] = moved.masked_fill(self.fresh().to(moved.device), 0.0) if reset == "new" else moved
        return found

    def twins(self, value: torch.Tensor) -> torch.Tensor | None:
        """Return the cosines between the weights of the first two copies of every channel; None where there are none.

        Args:
            value: of the wide parameter.
        """
        axis = self.outer
        if axis is None or len(self.new) < 2:
            return None
        own = value.detach().double().movedim(axis, 0).flatten(1)
        first, second = own.unflatten(0, (self.parts, self.ratios[axis], -1))[:, :2].unbind(1)
        return torch.cosine_similarity(first.flatten(0, 1), second.flatten(0, 1), dim=1)
