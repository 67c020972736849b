"""One input of a residual network: how its kernel at width n differs from its limit, to first order in 1/n.

Every neuron is a martingale x_{l+1} = x_l + alpha_l (W phi(x_l) + b), whose variance grows by the same amount
alpha_l^2 (C m_l + bias), m_l the average of phi(x_l)^2 over neurons. At infinite width neurons are independent
Gaussian paths with E[x_k x_l] = K_min(k, l); at width n their common clock fluctuates, and each neuron is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.corrections.layer import DenseLayer
from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.products import Pairs, products

Array = NDArray[np.float64]
SQUARE, FOURTH = (2, 0), (4, 0)
BLOCK = 2048  # pairs of layers at a time


@dataclass(frozen=True, eq=False)
class ResidualState:
    """What one input gives in every layer l = 0..L of a residual network.

    Attributes:
        k: K_l = lim E x_l^2, shape (L + 1,).
        k_shift: n (E x_l^2 - K_l), shape (L + 1,).
        k_variance: n Var(|x_l|^2 / n) over networks, shape (L + 1,).
        s: lim E phi(x_l)^2, shape (L + 1,).
        s_shift: n (E phi(x_l)^2 - s_l), shape (L + 1,).
        s_variance: n Var(|phi(x_l)|^2 / n) over networks, shape (L + 1,).
        v: n Cov(x_l,1^2, x_l,2^2) of two neurons, shape (L + 1,).
        error: largest relative error of the Gaussian expectations.
    """

    k: Array
    k_shift: Array
    k_variance: Array
    s: Array
    s_shift: Array
    s_variance: Array
    v: Array
    error: float


@dataclass(frozen=True, eq=False)
class Paths:
    """Gaussian expectations along the limit's paths.

    Attributes:
        k, s: as of ResidualState.
        slope, bend: <phi^2>' and <phi^2>'' in K, shape (L + 1,).
        noise: Cov(phi(x_k)^2, phi(x_l)^2), shape (L + 1, L + 1).
        curved: Cov(phi(x_k)^2, (phi^2)''(x_l)) for k < l, index (k, l), shape (L + 1, L + 1).
        error: largest relative error.
    """

    k: Array
    s: Array
    slope: Array
    bend: Array
    noise: Array
    curved: Array
    error: float


def paths(family: Family, branch: DenseLayer, alphas: Sequence[float], start: float) -> Paths:
    """Return the expectations along the paths of a residual network whose first state has variance `start`."""
    rows = []
    k = start
    for alpha in (*alphas, 0.0):
        one = products(family, Pairs(np.array([k]), np.array([0]), np.array([0]), np.zeros(1)))
        given = [one.of(SQUARE), one.of(SQUARE, a=2) / 2, one.of(SQUARE, a=4) / 4, one.of(FOURTH)]
        rows.append([k, *(float(value[0]) for value in given), one.error()])
        k = k + alpha**2 * (branch.weight * rows[-1][1] + branch.bias)
    k, s, slope, bend, fourth, errors = np.array(rows).T
    noise, curved, error = np.diag(fourth - s**2), np.zeros((len(k), len(k))), float(errors.max())
    later, earlier = np.tril_indices(len(k), -1)
    for block in (slice(at, at + BLOCK) for at in range(0, len(later), BLOCK)):
        l, e = later[block], earlier[block]
        two = products(family, Pairs(k, l, e, k[e]))
        noise[l, e] = noise[e, l] = two.of(SQUARE, SQUARE) - s[l] * s[e]
        curved[e, l] = two.of(SQUARE, SQUARE, a=2) - 2 * slope[l] * s[e]
        error = max(error, two.error())
    return Paths(k, s, slope, bend, noise, curved, error)


def residual(family: Family, branch: DenseLayer, alphas: Sequence[float], start: float) -> ResidualState:
    """Return what one input gives, layer by layer, to first order in 1/n.

    With a_l = alpha_l^2 C, ' = d/dK, noise xi_l of |phi(x_l)|^2/n around its mean given the clock, and the clock's
    deviation delta_{l+1} = (1 + a_l s'_l) delta_l + a_l xi_l, delta_0 = 0 (both times sqrt(n)):

    n Var(|phi(x_l)|^2/n) = W_l = Var(xi_l + s'_l delta_l),
    n Var(|x_l|^2/n) = 2 K_l^2 + 2 Cov(x_l^2, delta_l) + Var delta_l,
    and for any f, with h = E[f''(x_l) | x_m] the curvature that the clock's step at m meets, and g that of phi^2,
    n (E f(x_l) - <f>) = sum over m < l of a_m (g_m <f''> + Cov(xi_m + s'_m delta_m, h + <f''''> delta_m / 2)) / 2
    + a_m^2 W_m <f''''> / 8.

    Args:
        family: the activation phi.
        branch: the branch's dense layer; Gaussian weights.
        alphas: the scales of the branches, L numbers.
        start: variance of the first state, positive.

    Valid when: one dense layer a branch, Gaussian weights, a Gaussian first layer.

    Source: derived (the martingale above); hayou-yang-2023-commute (the family).

    Example:
        >>> from deeplimits.numerics.gaussian.linear import Linear
        >>> found = residual(Linear(), DenseLayer(1.0), [0.5], 1.0)
        >>> float(found.k[1]), round(float(found.k_variance[1]), 12)
        (1.25, 4.25)
    """
    at = paths(family, branch, alphas, start)
    a = np.array([alpha**2 * branch.weight for alpha in alphas])
    depth = len(a)
    response = np.zeros((depth + 1, depth + 1))
    for layer in range(depth):
        response[layer + 1] = (1 + a[layer] * at.slope[layer]) * response[layer]
        response[layer + 1, layer] = a[layer]
    with_noise = response @ at.noise
    clock = np.einsum("lk,lk->l", with_noise, response)
    own = with_noise.diagonal()
    wander = at.noise.diagonal() + 2 * at.slope * own + at.slope**2 * clock
    s_shift = np.zeros(depth + 1)
    for layer in range(1, depth + 1):
        past, curvature, fourth = slice(0, layer), 2 * at.slope[layer], 4 * at.bend[layer]
        met = at.curved[past, layer] + at.slope[past] * (response[past, past] @ at.curved[past, layer])
        met = met + fourth / 2 * (own[past] + at.slope[past] * clock[past])
        steps = a[past] * (s_shift[past] * curvature + met) / 2 + a[past] ** 2 * wander[past] * fourth / 8
        s_shift[layer] = steps.sum()
    k_shift = np.concatenate([[0.0], np.cumsum(a * s_shift[:-1])])
    shared = 2 * (response @ (2 * at.k**2 * at.slope))
    return ResidualState(
        k=at.k,
        k_shift=k_shift,
        k_variance=2 * at.k**2 + shared + clock,
        s=at.s,
        s_shift=s_shift,
        s_variance=wander,
        v=shared + clock,
        error=at.error,
    )
