"""What training starts from: at infinite width a basis, at a finite one drawn weights; all else is one code.

U (R, n, r) and V (R, n, c) hold R networks of n neurons. Whatever gradients do to a linear network, [U, V] stays
[U_0, V_0] M, and outputs depend on [U, V]^T [U, V] / n alone, whose start tends to the identity: so infinitely many
neurons are the r + c neurons U_0 = [I; 0], V_0 = [0; I], counted with weight 1 in place of 1/n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from deeplimits.numerics.seeds import generator, sequence

Array = NDArray[np.float64]
BITS = 30


@dataclass(frozen=True, eq=False)
class Neurons:
    """R networks of n neurons: U (R, n, r) into them, V (R, n, c) out of them, and the weight of one in a sum."""

    U: Array
    V: Array
    weight: float

    @property
    def gram(self) -> Array:
        """weight [U, V]^T [U, V], shape (R, r + c, r + c): all that outputs of a linear network depend on."""
        both = np.concatenate([self.U, self.V], axis=-1)
        return self.weight * both.swapaxes(-1, -2) @ both


def basis(features: int, outputs: int, zero: bool = False) -> Neurons:
    """Return the linear network of infinite width: U = [I; 0], V = [0; I] and weight 1.

    Args:
        features: r.
        outputs: c.
        zero: whether V starts at zero; r neurons are then enough.

    Source: yang-hu-2020-tp4 (the limit); this form of it is derived.

    Example:
        >>> basis(2, 1).gram[0]
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    if zero:
        return Neurons(np.eye(features)[None], np.zeros((1, features, outputs)), 1.0)
    both = np.eye(features + outputs)[None]
    return Neurons(both[..., :features].copy(), both[..., features:].copy(), 1.0)


def drawn(width: int, features: int, outputs: int, networks: int, seed: int, zero: bool = False) -> Neurons:
    """Return networks of finite width, standard normal weights; network k is the same for any number of them."""
    columns = features if zero else features + outputs
    both = np.stack([generator(seed, "network", k).standard_normal((width, columns)) for k in range(networks)])
    return _split(both, features, outputs, 1 / width)


def linear_drawn(width: int, features: int, outputs: int, networks: int, seed: int, zero: bool = False) -> Neurons:
    """Return linear networks of finite width at the price of infinite width.

    [U_0, V_0] = Q R with orthonormal Q that no output depends on: R is drawn itself, chi variates of width,
    width - 1, ... degrees of freedom on its diagonal and standard normal numbers above it.

    Source: bartlett-1933.
    """
    columns = features if zero else features + outputs
    if width <= columns:
        return drawn(width, features, outputs, networks, seed, zero)
    both = np.zeros((networks, columns, columns))
    for k in range(networks):
        random = generator(seed, "root", k)
        both[k] = np.triu(random.standard_normal((columns, columns)), 1)
        both[k] += np.diag(np.sqrt(random.chisquare(width - np.arange(columns))))
    return _split(both, features, outputs, 1 / width)


def particles(
    count: int, replicates: int, features: int, outputs: int, seed: int, sampling: str, zero: bool = False
) -> Neurons:
    """Return `count` particles in independent replicates, in pairs (u, v), (u, -v) so that outputs start at zero.

    Args:
        count: particles over all replicates.
        replicates: how many.
        features: r.
        outputs: c.
        seed: of all.
        sampling: "sobol" (scrambled Sobol points in each replicate) or "plain".
        zero: whether V starts at zero; there are then no pairs.
    """
    columns = features if zero else features + outputs
    points = count // replicates // (1 if zero else 2)
    both = np.stack([_points(points, columns, seed, k, sampling) for k in range(replicates)])
    if not zero:
        signs = np.repeat([1.0, -1.0], [features, outputs])
        both = np.concatenate([both, both * signs], axis=1)
    return _split(both, features, outputs, replicates / count)


def together(replicates: Neurons) -> Neurons:
    """Return one network of the neurons of all."""
    U, V = (np.concatenate(w)[None] for w in (replicates.U, replicates.V))
    return Neurons(U, V, replicates.weight / len(replicates.U))


def _points(count: int, columns: int, seed: int, replicate: int, sampling: str) -> Array:
    if sampling == "plain" or columns == 0:
        return generator(seed, "particles", replicate).standard_normal((count, columns))
    seeds = np.random.default_rng(sequence(seed, "sobol", replicate))
    cube = qmc.Sobol(columns, scramble=True, bits=BITS, rng=seeds).random(count)
    return ndtri(cube + 2.0 ** -(BITS + 1))


def _split(both: Array, features: int, outputs: int, weight: float) -> Neurons:
    U, V = both[..., :features], both[..., features:]
    if V.shape[-1] == 0:
        V = np.zeros((*both.shape[:2], outputs))
    return Neurons(U.copy(), V.copy(), weight)
