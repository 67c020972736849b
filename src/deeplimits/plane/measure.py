"""From sampled Gram matrices and tangent kernels to the numbers of one place, with standard errors."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from deeplimits.plane.record import Estimate, KernelCheck


def kernel_check(samples: np.ndarray, predicted: np.ndarray | None, corner: np.ndarray | None) -> KernelCheck:
    """Return how the kernels of single networks, (S, k, k), and their mean stand to the prediction."""
    mean = samples.mean(axis=0)
    error = samples.std(axis=0, ddof=1) / sqrt(len(samples))
    upper = np.triu_indices(len(mean))
    z_max = z_rms = None
    if predicted is not None:
        z = z_scores(mean[upper], error[upper], predicted[upper])
        z_max, z_rms = float(np.abs(z).max()), sqrt(float(np.mean(z**2)))
    return KernelCheck(
        mean=mean.tolist(),
        error=error.tolist(),
        predicted=None if predicted is None else predicted.tolist(),
        z_max=z_max,
        z_rms=z_rms,
        entries=len(upper[0]),
        rms=relative_rms(samples, predicted),
        rms_corner=relative_rms(samples, corner),
    )


def z_scores(mean: np.ndarray, error: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return (mean - predicted)/error; 0 where both agree to rounding, infinite where only the error vanishes."""
    gap = mean - predicted
    size = max(float(np.abs(predicted).max()), 1e-300)
    exact = np.abs(gap) <= 1e-12 * size
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(exact, 0.0, gap / error)


def relative_rms(samples: np.ndarray, target: np.ndarray | None) -> Estimate | None:
    """Return the root mean square over networks of |K_s - K|_F / |K|_F, None without a nonzero target."""
    if target is None or not np.any(target):
        return None
    squares = np.sum((samples - target) ** 2, axis=(1, 2)) / np.sum(target**2)
    return root(Estimate(float(squares.mean()), float(squares.std(ddof=1)) / sqrt(len(squares))))


def average(values: np.ndarray) -> Estimate:
    """Return the mean over networks and columns of (S, m); the columns of one network may depend on each other."""
    rows = values.mean(axis=1)
    return Estimate(float(rows.mean()), float(rows.std(ddof=1)) / sqrt(len(rows)))


def variance(values: np.ndarray) -> Estimate:
    """Return the variance over networks of (S, m), averaged over columns, with its jackknife error over networks.

    Leaving network s out: (Q - d_s^2 S/(S-1)) / (S-2), d the deviations from the mean, Q the sum of their squares.
    """
    count = len(values)
    squares = np.mean((values - values.mean(axis=0)) ** 2, axis=1)
    total = float(squares.sum())
    if count < 3:
        return Estimate(total / (count - 1), inf)
    left_out = (total - squares * count / (count - 1)) / (count - 2)
    error = sqrt((count - 1) / count * float(np.sum((left_out - left_out.mean()) ** 2)))
    return Estimate(total / (count - 1), error)


def root(square: Estimate) -> Estimate:
    """Return the square root of an estimate, error to first order."""
    value = sqrt(max(square.value, 0.0))
    return Estimate(value, square.error / (2 * value) if value > 0 else 0.0)


def log_ratio(diagonal: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return log(q/reference), (S', m), without dead networks and zero inputs; which networks live; how many do not.

    Args:
        diagonal: q per network and input, (S, k).
        reference: right edge, (k,).
    """
    used = reference > 0
    alive = np.all(diagonal[:, used] > 0, axis=1)
    return np.log(diagonal[alive][:, used] / reference[used]), alive, int((~alive).sum())


def correlations(gram: np.ndarray) -> np.ndarray | None:
    """Return c = q12/sqrt(q1 q2) of every pair of inputs, (S, pairs), None with fewer than two inputs."""
    diagonal = np.diagonal(gram, axis1=1, axis2=2)
    used = np.flatnonzero((diagonal > 0).all(axis=0))
    if len(used) < 2:
        return None
    left, right = (used[index] for index in np.triu_indices(len(used), 1))
    return gram[:, left, right] / np.sqrt(diagonal[:, left] * diagonal[:, right])
