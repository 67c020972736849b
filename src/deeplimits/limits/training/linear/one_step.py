"""The best learning rate of one step of a linear network, exactly: the loss is a polynomial of the rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.linear.gaussian_matrix import Revealed, Whole

Array = NDArray[np.float64]

REAL = 1e-9  # imaginary part of a root, as a share of it, that is rounding


def one_step_rates(
    x: Array, y: Array, width: int, hidden: int, readout_std: float, networks: int, unit: float,
    random: np.random.Generator,
) -> Array:  # fmt: skip
    """Return the rate that minimises the loss after one step in every network, shape (S,).

    f(x) = V W_L ... W_1 W_0 x; W_l moves by -rate A_l B_l', A_l = W_(l+1)' ... W_L' V', B_l = H_(l-1) (f - y)/P.

    Args:
        x: inputs over sqrt(d), (P, d).
        y: targets, (P, C).
        width: n.
        hidden: L, the number of trained matrices.
        readout_std: standard deviation of the entries of V.
        networks: S.
        unit: a rate of the size that is looked for.
        random: of the weights.
    """
    rows, outputs = y.shape
    _, size, right = np.linalg.svd(x, full_matrices=False)
    kept = size > 1e-12 * size[0]
    # W_0 x = H_0 T with independent standard normal H_0, as many columns as the rank of x
    T = (x @ right[kept].T).T
    looked = len(T) + (hidden + 1) * outputs
    kind = Revealed if width > 4 * looked else Whole
    matrices = [kind(networks, width, random) for _ in range(hidden)]
    H = [random.standard_normal((networks, width, len(T)))]
    for W in matrices:
        H.append(W.times(H[-1]))
    A = [readout_std * random.standard_normal((networks, width, outputs))]
    for W in reversed(matrices[1:]):
        A.append(W.transposed_times(A[-1]))
    A.reverse()
    wrong = T @ ((A[-1].mT @ H[-1] @ T).mT - y) / rows
    # states are `vectors` times the coefficients of each power of the rate
    vectors, powers = H[0], [np.broadcast_to(np.eye(len(T)), (networks, len(T), len(T)))]
    for W, a, h, after in zip(matrices, A, H[:-1], H[1:], strict=True):
        change = -unit * (h @ wrong).mT @ vectors
        old = [*powers, np.zeros_like(powers[0])]
        new = [np.zeros((networks, outputs, len(T))), *(change @ power for power in powers)]
        powers = [np.concatenate(pair, axis=1) for pair in zip(old, new, strict=True)]
        vectors = np.concatenate([after, W.times(vectors[..., len(T) :]), a], axis=-1)
    out = A[-1].mT @ vectors
    outputs_by_power = np.stack([out @ power @ T for power in powers], axis=1)
    outputs_by_power[:, 0] -= y.T
    return unit * lowest(outputs_by_power.reshape(networks, hidden + 1, -1))


def lowest(coefficients: Array) -> Array:
    """Return the positive z of the lowest |sum_k c_k z^k|^2 for (S, K, m) coefficients c, shape (S,).

    Example:
        >>> lowest(np.array([[[-3.0, 1.0], [1.0, 0.0]]]))
        array([3.])
    """
    count = coefficients.shape[1]
    size = np.abs(coefficients).max(axis=2)
    with np.errstate(divide="ignore"):
        unit = ((size[:, :1] / size[:, 1:]) ** (1 / np.arange(1, count))).min(axis=1)
    # in these units no power is larger than the constant, which is 1
    c = coefficients / size[:, :1, None] * (unit[:, None] ** np.arange(count))[..., None]
    products = c @ c.mT
    loss = np.stack([np.trace(products[:, ::-1], k - count + 1, 1, 2) for k in range(2 * count - 1)], axis=-1)
    slope = loss[:, 1:] * np.arange(1, 2 * count - 1)
    degree = slope.shape[1] - 1
    companion = np.zeros((len(slope), degree, degree))
    companion[:, 1:, :-1] = np.eye(degree - 1)
    companion[:, :, -1] = -slope[:, :-1] / slope[:, -1:]
    roots = np.linalg.eigvals(companion)
    real = (np.abs(roots.imag) <= REAL * np.abs(roots)) & (roots.real > 0)
    z = np.where(real, roots.real, np.nan)
    with np.errstate(over="ignore"):
        values = np.zeros_like(z)
        for k in reversed(range(loss.shape[1])):
            values = values * z + loss[:, k, None]
    return unit * np.take_along_axis(z, np.nanargmin(values, axis=1)[:, None], axis=1)[:, 0]
