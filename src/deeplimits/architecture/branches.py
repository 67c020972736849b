"""Residual networks whose blocks add a mean over units: two-layer branches scaled by 1/(depth x inner width)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

from deeplimits.architecture.activation import activation
from deeplimits.architecture.layer import number
from deeplimits.errors import DescriptionError

READOUTS = ("fixed", "trained")
LARGEST = 1e6
"""Finite scales beyond this, or below its inverse, would be lost to rounding: units move by 1/scale."""


@dataclass(frozen=True)
class MeanResNet:
    """A residual network on states of a fixed dimension D, each block a mean over M units divided by the depth L.

    h^{l+1} = h^l + scale/(L M) sum_{j=1}^M v_lj phi(u_lj . h^l / sqrt(D)),   u_lj ~ N(0, inner_std^2 I), v_lj ~ N(0,
    outer_std^2 I), between an embedding h^0 = E x, which is fixed, and a readout. The fixed readout is linear, f = w .
    h^L; the trained one is a mean over units, f = readout_scale/M' sum_i a_i phi(b_i . h^L / sqrt(D)), whose a_i and
    b_i start like v_lj and u_lj. A unit of the branches moves by rate L M / scale^2 times minus the gradient of the
    loss sum (f - y)^2 / 2, and one of the readout by rate M' / readout_scale^2 times it, so that the first step moves
    f by the same amount at every depth, width and scale.

    Args:
        activation: phi, a name or an object of `dl.act`.
        scale: alpha > 0, of the branches. Infinity is the limit in which units hardly move (limits only).
        inner_std, outer_std: of the entries of u and v.
        readout: "fixed" or "trained".
        readout_scale: beta > 0, of a trained readout.

    Raises:
        DescriptionError: options that cannot be.

    Source: chizat-2025-hidden-width; chen-2024-scaled-resnet-mean-field (the trained readout).

    Example:
        >>> MeanResNet("tanh").scale
        1.0
    """

    activation: Any = "tanh"
    scale: float = 1.0
    inner_std: float = 1.0
    outer_std: float = 1.0
    readout: str = "fixed"
    readout_scale: float = 1.0

    def __post_init__(self) -> None:
        where = type(self).__name__
        object.__setattr__(self, "activation", activation(self.activation))
        for name in ("scale", "readout_scale"):
            value = getattr(self, name)
            real = isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0
            if not real or not (isfinite(value) or name == "scale"):
                raise DescriptionError(where, f"{name}={value!r}", f"give a positive number, e.g. {name}=1.0")
            if LARGEST < float(value) < inf or float(value) < 1 / LARGEST:
                fix = f"give {1 / LARGEST:g} to {LARGEST:g}" + (
                    ", or scale=inf for the limit" if name == "scale" else ""
                )
                raise DescriptionError(where, f"{name}={value!r} is lost to rounding", fix)
        for name in ("inner_std", "outer_std"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise DescriptionError(where, f"{name}={value!r} is not a number", f"give {name} as a float")
            number(where, name, value)
        if self.readout not in READOUTS:
            raise DescriptionError(where, f"readout={self.readout!r}", "use 'fixed' or 'trained'")
        if self.readout == "fixed" and self.readout_scale != 1.0:
            why = f"readout_scale={self.readout_scale!r} has no effect on a fixed readout"
            raise DescriptionError(where, why, "use readout='trained', or scale the unembedding")

    @property
    def lazy(self) -> bool:
        """Whether the scale is infinite."""
        return self.scale == inf
