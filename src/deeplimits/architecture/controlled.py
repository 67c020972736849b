"""Residual networks whose layers are driven by a path."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

from deeplimits.architecture.activation import activation
from deeplimits.architecture.layer import number
from deeplimits.architecture.zoo import Network
from deeplimits.errors import DescriptionError


@dataclass(frozen=True)
class ControlledResNet(Network):
    """A residual network with one layer for each step of a path x, each weighted by the step.

    S_0 = a, S_(i+1) = S_i + sum_j (A_j phi(S_i) + b_j) (x^j_(i+1) - x^j_i), output <psi, S>; a ~ N(0, initial_std^2),
    A_j ~ N(0, weight_std^2 / width), b_j ~ N(0, bias_std^2), psi ~ N(0, 1 / width). Depth counts steps: at depth L a
    path is looked at in L + 1 places, spread evenly over its points; at depth infinity it is followed exactly, straight
    between its points.

    Homogeneous: all layers share A and b; the limit does not change when a path is run through at another speed.
    Inhomogeneous: each layer has its own, and steps are divided by sqrt(dt), time going from 0 to 1 evenly over the
    points, or as `clock` says; the limit depends on the speed.

    Args:
        activation: a name or an object of `dl.act`.
        homogeneous: whether layers share their weights.
        initial_std: of the initial state.
        weight_std, bias_std: of the layers.
        time: whether to add the time as a last channel of every path.
        clock: the channel that holds the time of each point, which must rise; it is counted from 0 at a path's first
            point to 1 at its last. None: points are evenly spread. The channel stays one of the path's.

    Source: cirone-2023-neural-signature-kernels.

    Example:
        >>> ControlledResNet("relu", weight_std=0.7).homogeneous
        True
    """

    activation: Any = "relu"
    homogeneous: bool = True
    initial_std: Any = 1.0
    weight_std: Any = 1.0
    bias_std: Any = 0.0
    time: bool = False
    clock: int | None = None

    tunable: ClassVar[tuple[str, ...]] = ("initial_std", "weight_std", "bias_std")

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation(self.activation))
        for name in ("homogeneous", "time"):
            if not isinstance(getattr(self, name), bool):
                raise DescriptionError("ControlledResNet", f"{name}={getattr(self, name)!r}", "give True or False")
        if self.clock is not None and (isinstance(self.clock, bool) or not isinstance(self.clock, Integral)):
            raise DescriptionError("ControlledResNet", f"clock={self.clock!r} is no channel", "give its index, or None")
        if self.time and self.clock is not None:
            why = f"time=True beside clock={self.clock}: the paths hold their times already"
            raise DescriptionError("ControlledResNet", why, "leave time out")
        for name in self.tunable:
            number("ControlledResNet", name, getattr(self, name), minimum=0.0)

    def children(self) -> Any:
        """Yield nothing: the hyperparameters are the fields themselves."""
        return iter(())
