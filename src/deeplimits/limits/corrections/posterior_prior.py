"""How the width moves the mean feature kernels of a random network before any data, layer by layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.limits.corrections.pair_moments import Groups, moments
from deeplimits.numerics.gaussian.family import Family

Array = NDArray[np.float64]


def mean_shift(where: str, family: Family, weight: float, bias: float, gram: Array, depth: int) -> tuple[Array, float]:
    """Return T[l, m] with E K^l - limit = sum over m < l of T[l, m] / n_m, to leading order, and its relative error.

    With s_p = <phi phi>_p of a pair of inputs, J and S its first and second derivatives in the preactivations'
    covariances and V their covariance over networks, T' = weight J T + tr(S V) / 2 and V' = weight^2 J V J^T, to which
    layer m adds weight^2 Cov(phi phi, phi phi) as V of the next one.

    Args:
        where: named in errors.
        family: the activation.
        weight: variance of the hidden layers' weights.
        bias: variance of their biases.
        gram: X X^T / d, shape (P, P).
        depth: number of hidden layers L.

    Returns:
        Shape (L, L, P, P), and the largest relative error of the Gaussian expectations.

    Raises:
        InputError: a row whose first layer is zero, or proportional rows under an activation with a kink.

    Source: derived (as `deeplimits.limits.corrections.pair`, with a width for each layer).

    Example:
        >>> from deeplimits.numerics.gaussian.linear import Linear
        >>> found, error = mean_shift("prior", Linear(), 1.0, 0.0, np.eye(2), 2)
        >>> bool(np.abs(found).max() < 1e-12), error < 1e-12
        (True, True)
    """
    first, second = np.triu_indices(len(gram), 1)
    own = weight * gram.diagonal() + bias
    if (own == 0).any():
        why = f"the first layer's variance is 0 at row {int(np.flatnonzero(own == 0)[0])}"
        raise InputError(where, why, "drop such rows, or give the network biases (bias_std=0.1)")
    apart = np.stack([own, own, np.zeros_like(own)], axis=1)  # each input beside one that is orthogonal to it
    k = np.concatenate([apart, np.stack([own[first], own[second], weight * gram[first, second] + bias], axis=1)])
    groups, count, error = Groups.of(k), len(k), 0.0
    shift, noise = np.zeros((depth, count, 3)), np.zeros((depth, count, 3, 3))
    found = np.zeros((depth, depth, *gram.shape))
    for layer in range(depth):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = moments(family, k, groups)
        _refuse_kinks(where, layer, at.bend, len(gram), first, second)
        error = max(error, at.error)
        shift = weight * np.einsum("mpq,lmq->lmp", at.slope, shift) + np.einsum("mpqr,lmqr->lmp", at.bend, noise) / 2
        for source in range(layer):
            found[layer, source] = _matrix(shift[source], len(gram), first, second)
        noise = weight**2 * np.einsum("mpq,lmqr,msr->lmps", at.slope, noise, at.slope)
        noise[layer] = weight**2 * (at.joint[:, :3, :3] - at.s[:, :, None] * at.s[:, None, :])
        k = weight * at.s + bias
    return found, error


def _matrix(entries: Array, size: int, first: NDArray[np.intp], second: NDArray[np.intp]) -> Array:
    found = np.diag(entries[:size, 0])
    found[first, second] = found[second, first] = entries[size:, 2]
    return found


def _refuse_kinks(
    where: str, layer: int, bend: Array, size: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> None:
    bad = np.flatnonzero(~np.isfinite(bend[size:]).all((1, 2, 3)))
    if bad.size:
        one, two = int(first[bad[0]]), int(second[bad[0]])
        why = f"rows {one} and {two} are on one line in layer {layer + 1}, where the activation's kernel has a kink"
        raise InputError(where, why, "drop one of them, or give the network biases (bias_std=0.1)")
