"""A dense layer as the corrections see it: two variances, and whether its weights are orthogonal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DenseLayer:
    """z' = W phi(z) + b with n Var(W_ij) = weight and Var(b_i) = bias, in the NTK parametrization.

    Attributes:
        weight: n Var(W_ij), also the rate of the weights in the NTK.
        bias: variance of the biases, also their rate.
        orthogonal: W is sqrt(weight) times a Haar-distributed orthogonal matrix, else Gaussian.
    """

    weight: float
    bias: float = 0.0
    orthogonal: bool = False
