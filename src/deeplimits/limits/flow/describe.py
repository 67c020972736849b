"""Which limit a network has, and why it exists, in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from deeplimits.architecture.layer import Layer
from deeplimits.architecture.size import whole
from deeplimits.limits.flow.note import Note
from deeplimits.limits.kernel.lowering import lower


@dataclass(frozen=True)
class Description:
    """Which limit was taken.

    Attributes:
        depth: the depth asked for.
        notes: one entry for each block repeated to infinite depth.
        nngp, ntk: whether each has finite values there.
    """

    depth: float
    notes: tuple[Note, ...]
    nngp: bool
    ntk: bool

    def __str__(self) -> str:
        if self.depth != inf:
            return f"width infinity first, at depth {self.depth}: a deterministic kernel, by the layer recursion."
        if not self.notes:
            return "width infinity; the network does not depend on DEPTH, so depth infinity is the network itself."
        head = "width infinity first, then depth infinity: "
        return head + "; ".join(note.text for note in self.notes) + "."


def describe(net: Layer, depth: float = inf, probe: Any = None) -> Description:
    """Say which limit a network has at infinite width and the given depth, why, and how fast it is reached.

    Args:
        net: the description.
        depth: a whole number, or infinity.
        probe: values of |x|^2/d at which the limit is examined; (0.5, 1, 2) by default.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp, ResNet
        >>> describe(ResNet("relu")).ntk, describe(Mlp("relu")).ntk
        (True, False)
    """
    depth = whole("describe", "depth", depth, infinite=True)
    state = lower(net, depth, 1, probe=probe)
    return summarise(depth, state.limits)


def summarise(depth: float, notes: list[Note]) -> Description:
    """Return the description of a lowered network."""
    return Description(depth, tuple(notes), all(n.nngp for n in notes), all(n.ntk for n in notes))
