"""A perceptron as the march reads it: hidden layers with their variances and activations, and a readout."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.activation import Activation, Identity
from deeplimits.architecture.compose import Serial, expand
from deeplimits.architecture.dense import Dense, Gaussian
from deeplimits.architecture.layer import WIDTH, Layer, as_float
from deeplimits.errors import NoLimit, NoRule
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.training.mean_field.record import Array
from deeplimits.limits.training.mean_field.task import WHERE
from deeplimits.numerics.gaussian.linear import Linear


@dataclass(frozen=True)
class Hidden:
    """A dense layer and its activation.

    Attributes:
        weight: weight_std^2.
        bias: bias_std^2.
        function: phi and its derivative.
        first: whether it reads the inputs.
    """

    weight: float
    bias: float
    function: Any
    first: bool

    @property
    def linear(self) -> bool:
        """Whether phi(x) = x."""
        return isinstance(self.function, Linear)

    def value(self, h: Array) -> Array:
        """Return phi(h)."""
        return np.asarray(self.function.function(h))

    def slope(self, h: Array) -> Array:
        """Return phi'(h)."""
        return np.asarray(self.function.derivative(h))


@dataclass(frozen=True)
class Chain:
    """Hidden layers, then a readout of variances weight and bias."""

    hidden: tuple[Hidden, ...]
    weight: float
    bias: float


def read(net: Layer, depth: float) -> Chain:
    """Return a perceptron's layers.

    Raises:
        NoLimit: infinite depth.
        NoRule: a network that is not (Dense, activation) repeated and a Dense readout of fixed size, with Gaussian
            weights and one width.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> [layer.weight for layer in read(Mlp("relu"), 2).hidden]
        [2.0000000000000004, 2.0000000000000004]
    """
    if depth == inf:
        fix = "give a finite depth, or use dl.ResNet(...), whose branches are scaled by DEPTH**-0.5"
        raise NoLimit(WHERE, "a perceptron of infinite depth has no limit in which it trains", fix)
    expanded = expand(net, int(depth))
    layers = expanded.layers if isinstance(expanded, Serial) else (expanded,)
    denses, activations = _alternating(layers)
    hidden = tuple(
        Hidden(as_float(d.weight_std) ** 2, as_float(d.bias_std) ** 2, _function(a), i == 0)
        for i, (d, a) in enumerate(zip(denses[:-1], activations, strict=True))
    )
    last = denses[-1]
    return Chain(hidden, as_float(last.weight_std) ** 2, as_float(last.bias_std) ** 2)


def _alternating(layers: tuple[Layer, ...]) -> tuple[list[Dense], list[Activation]]:
    denses, activations = [], []
    for place, layer in enumerate(layers):
        if not isinstance(layer, Dense | Activation):
            raise _unread(type(layer).__name__, "it is neither a Dense layer nor an activation")
        if isinstance(layer, Dense) != (place % 2 == 0):
            raise _unread(type(layer).__name__, "dense layers and activations do not alternate")
        if isinstance(layer, Activation):
            activations.append(layer)
            continue
        if not isinstance(layer.weights, Gaussian):
            raise _unread(type(layer.weights).__name__, "weights that are trained must start independent and Gaussian")
        if place < len(layers) - 1 and layer.features != WIDTH:
            raise _unread("Dense", f"hidden layer {place // 2 + 1} has features={layer.features!r}, not WIDTH")
        denses.append(layer)
    if not activations or len(denses) == len(activations):
        raise _unread("network", "it has no hidden layer, or no Dense readout at its end")
    return denses, activations


def _function(layer: Activation) -> Any:
    return Linear() if isinstance(layer, Identity) else family(layer)


def _unread(name: str, why: str) -> NoRule:
    fix = "use dl.Mlp(...), dl.ResNet(...), or Dense and activations joined by >>"
    return NoRule(f"{WHERE}: {name}", why, fix)
