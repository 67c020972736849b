"""A residual network as a mean-field march reads it: variances of its layers, the activation, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.dense import Gaussian
from deeplimits.architecture.layer import DEPTH, Power, as_float
from deeplimits.architecture.scale import alpha
from deeplimits.architecture.zoo import ResNet
from deeplimits.errors import DescriptionError, NoLimit
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.training.mean_field.record import Array
from deeplimits.limits.training.mean_field.task import WHERE, Task
from deeplimits.numerics.gaussian.linear import Linear


@dataclass(frozen=True)
class Blocks:
    """h^0 = u, h^{l+1} = h^l + a_l (s_w W phi(h^l) + s_b b), f = s_o w . h^L / (gamma N): every weight N(0, 1/fan-in).

    Attributes:
        family: the activation.
        scales: a_l, L of them.
        weight, bias: s_w^2 and s_b^2.
        readin, readin_bias: variances of the read-in.
        readout, readout_bias: s_o^2, and the variance of the readout's bias.
    """

    family: Any
    scales: tuple[float, ...]
    weight: float
    bias: float
    readin: float
    readin_bias: float
    readout: float
    readout_bias: float

    @property
    def linear(self) -> bool:
        """Whether the activation is the identity."""
        return isinstance(self.family, Linear)

    def first(self, x: Array, others: Array) -> Array:
        """Return the covariance of the read-in."""
        return self.readin * (x @ others.T) / x.shape[1] + self.readin_bias

    def noise(self, features: Array) -> Array:
        """Return the covariance of a block's Gaussian field, before its scale: s_w^2 Phi + s_b^2."""
        return self.weight * features + self.bias


def blocks(net: ResNet, layers: int) -> Blocks:
    """Return a description at `layers` blocks."""
    scales = tuple(as_float(alpha(net.scale, index, layers, layers)) for index in range(1, layers + 1))
    names = ("weight_std", "bias_std", "readin_std", "readin_bias_std", "readout_std", "readout_bias_std")
    return Blocks(family(net.activation), scales, *(as_float(getattr(net, name)) ** 2 for name in names))


def refuse(task: Task) -> None:
    """Refuse what no march of residual networks answers.

    Raises:
        DescriptionError: an option of the network that is not covered, by name.
        NoLimit: branch scales without a limit at infinite depth.
    """
    net = task.net
    assert isinstance(net, ResNet)
    if net.branch_layers == 2:
        fix = "use branch_layers=1"
        if net.scale == 1 / DEPTH:
            fix += "; two-layer branches scaled 1/DEPTH have another limit, dl.training.mean_ode"
        raise DescriptionError(WHERE, "branch_layers=2 is not covered", fix)
    if net.final_activation is not None:
        raise DescriptionError(WHERE, f"final_activation={net.final_activation!r} is not covered", "leave it out")
    if not isinstance(net.weights, Gaussian):
        raise DescriptionError(WHERE, f"weights={net.weights!r} are not covered", "use Gaussian weights")
    if task.depth == inf and not (isinstance(net.scale, Power) and net.scale.exponent == -0.5):
        why = f"scale={net.scale!r} at infinite depth: branches that move features without exploding have 1/sqrt(DEPTH)"
        fix = "use scale=dl.DEPTH**-0.5 (or a multiple), or a finite depth"
        if isinstance(net.scale, Power) and net.scale.exponent == -1:
            fix += "; branches of two layers scaled 1/DEPTH have the limit dl.training.mean_ode"
        raise NoLimit(WHERE, why, fix)


def spread(values: Array, outputs: int) -> Array:
    """Return columns over (time, input) repeated over outputs: those over (time, input, output)."""
    return np.repeat(values, outputs, axis=-1)


__all__ = ["Blocks", "blocks", "refuse", "spread"]
