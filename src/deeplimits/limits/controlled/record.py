"""What is said of a limit of networks driven by paths."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.limits.flow.describe import Description


@dataclass(frozen=True)
class Driven(Description):
    """Which limit was taken of a network driven by paths."""

    text: str = ""

    def __str__(self) -> str:
        return self.text


def driven(net: ControlledResNet, depth: float) -> Driven:
    """Return the description of a limit at infinite width.

    Example:
        >>> print(driven(ControlledResNet("relu"), 12))
        width infinity first, at depth 12: a deterministic kernel of two paths, by Euler's scheme, layer by layer.
    """
    first = "width infinity first"
    if depth != inf:
        text = f"{first}, at depth {depth}: a deterministic kernel of two paths, by Euler's scheme, layer by layer."
    elif net.homogeneous:
        text = (
            f"{first}, then depth infinity: the neural signature kernel, from a partial differential equation in the "
        )
        text += "times of both paths; their speeds do not matter."
    else:
        text = (
            f"{first}, then depth infinity, each layer with weights of its own: a differential equation in the common "
        )
        text += "time; speeds matter."
    return Driven(depth, (), True, False, text)
