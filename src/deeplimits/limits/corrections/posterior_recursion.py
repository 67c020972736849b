"""Covariances of the feature kernels of a random network, contracted with a matrix, layer by layer, to order 1/width.

The features phi(h) of layer l have kernel K^l = phi^T phi / n_l, and given the layer below each unit's h is
N(0, weight K^{l-1} + bias): K^l has the noise of n_l units, and that of K^{l-1} through the layer's expectation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.corrections.four_point import FourPoint, four_point
from deeplimits.numerics.gaussian.family import Family

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of F_ij = E[phi(u_i) phi(u_j)] in k_ij, k_ii and k_jj, k the covariance of u; (P, P) each."""

    across: Array
    first: Array
    second: Array

    def push(self, change: Array) -> Array:
        """Return the change of F that a symmetric change of k makes, shape (P, P)."""
        own = change.diagonal()
        return self.across * change + self.first * own[:, None] + self.second * own[None, :]

    def pull(self, weights: Array) -> Array:
        """Return B' with sum B'_ij dk_ij = sum B_ij dF_ij, for symmetric B; the adjoint of `push`."""
        found = weights * self.across
        found[np.diag_indices_from(found)] += (weights * self.first).sum(1) + (weights * self.second).sum(0)
        return found


@dataclass(frozen=True, eq=False)
class Prior:
    """The feature kernels of a perceptron at infinite width, and their slopes.

    Attributes:
        family: the activation.
        weight, bias: variances of the hidden layers.
        inner: covariances of the preactivations h of each layer, L matrices (P, P).
        kernels: K of each layer, L matrices (P, P).
        slopes: of K in the covariance of h, layer by layer.
    """

    family: Family
    weight: float
    bias: float
    inner: list[Array]
    kernels: list[Array]
    slopes: list[Slopes]


def prior(family: Family, weight: float, bias: float, gram: Array, depth: int) -> Prior:
    """Return the kernels of `depth` hidden layers above inputs with Gram matrix `gram` = X X^T / d."""
    inner, kernels, slopes, k = [], [], [], gram
    for _ in range(depth):
        inner.append(weight * k + bias)
        k, slope = _expectation(family, inner[-1])
        kernels.append(k)
        slopes.append(slope)
    return Prior(family, weight, bias, inner, kernels, slopes)


def _expectation(family: Family, k: Array) -> tuple[Array, Slopes]:
    import torch

    own = torch.from_numpy(k.diagonal().copy())
    given = (torch.from_numpy(k.copy()), own[:, None].expand(k.shape).clone(), own[None, :].expand(k.shape).clone())
    for part in given:
        part.requires_grad_()
    value = family.pair(*given)[0]
    found = torch.autograd.grad(value.sum(), given, allow_unused=True) if value.requires_grad else (None,) * 3
    parts = [np.zeros_like(k) if part is None else part.numpy() for part in found]
    value = value.detach().numpy()
    np.fill_diagonal(value := (value + value.T) / 2, family.diagonal(k.diagonal())[0])
    return value, Slopes(*parts)


def covariances(given: Prior, weights: Array, samples: int, seed: int) -> tuple[Array, Array, list[FourPoint]]:
    """Return T[l, m] with Cov(K^l, sum of B_ij K^L_ij) = sum over m <= l of T[l, m] / n_m, to leading order.

    Args:
        given: the network at infinite width.
        weights: B, shape (P, P), symmetric.
        samples: of the four-point moments where they are sampled.
        seed: of those samples.

    Returns:
        T and its error, shape (L, L, P, P), and the four-point moments of every layer.

    Source: zavatone-veth-2021-finite-bnn (the covariance that enters); derived (the recursion).
    """
    depth, size = len(given.kernels), len(weights)
    found, error = np.zeros((2, depth, depth, size, size))
    moments: list[FourPoint] = []
    for layer in reversed(range(depth)):
        moment = four_point(given.family, given.inner[layer], weights, samples, seed, layer)
        moments.insert(0, moment)
        change, doubt = moment.value, moment.error
        for above in range(layer, depth):
            if above > layer:
                change = given.slopes[above].push(given.weight * change)
                doubt = _absolute(given.slopes[above]).push(given.weight * doubt)
            found[above, layer], error[above, layer] = change, doubt
        if layer:
            weights = given.weight * given.slopes[layer].pull(weights)
    return found, error, moments


def _absolute(slopes: Slopes) -> Slopes:
    return Slopes(np.abs(slopes.across), np.abs(slopes.first), np.abs(slopes.second))
