"""Normalisation over the features of one input."""

from __future__ import annotations

from dataclasses import dataclass

from deeplimits.architecture.layer import Layer, number


@dataclass(frozen=True)
class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) over the features, without trained gain or bias.

    Valid when: in kernels, the input is Gaussian (after a Dense layer), so that its mean over features vanishes.

    Example:
        >>> LayerNorm().epsilon
        0.0
    """

    epsilon: float = 0.0

    def __post_init__(self) -> None:
        number(type(self).__name__, "epsilon", self.epsilon)


@dataclass(frozen=True)
class RMSNorm(Layer):
    """x / sqrt(mean of squares + epsilon) over the features, without trained gain.

    Example:
        >>> RMSNorm(epsilon=1e-6).epsilon
        1e-06
    """

    epsilon: float = 0.0

    def __post_init__(self) -> None:
        number(type(self).__name__, "epsilon", self.epsilon)
