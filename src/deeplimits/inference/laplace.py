"""Binary classification with a Gaussian-process prior and the logistic likelihood, by Laplace's approximation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, log_expit, ndtr

from deeplimits.errors import AccuracyWarning, PrecisionError
from deeplimits.inference.gaussian_process import Factor, potrf

STEPS, ENOUGH, SMALL, ROUNDING = 100, 1e-12, 1e-6, 1e-13
SPACING = 0.4  # of the nodes below: the error is about exp(pi^2 / 2 - 2 pi^2 / SPACING) = 5e-20
STANDARD = np.arange(-9.0, 9.0 + SPACING, SPACING)
LOGISTIC = np.arange(-40.0, 40.0 + SPACING, SPACING)


@dataclass(frozen=True)
class Mode:
    """The most probable values f of the function at the rows, and the curvature there.

    Attributes:
        residual: t - P(t = 1 | f), shape (N,); at the mode this is K^-1 f.
        root: square root of the negative curvature of the log likelihood, shape (N,).
        factor: of B = I + root K root.
        evidence: Laplace's approximation of log p(t).
    """

    residual: np.ndarray
    root: np.ndarray
    factor: Factor
    evidence: float

    def latent(self, cross: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the function at M new rows, shape (M,) each.

        Args:
            cross: kernel between new rows and training rows, shape (M, N).
            prior: its diagonal at the new rows, shape (M,).
        """
        half = self.factor.half(np.asfortranarray(self.root[:, None] * cross.T))
        return cross @ self.residual, np.maximum(prior - np.einsum("nm,nm->m", half, half), 0.0)

    def left_out(self, kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the function at each training row, without what its own label says, shape (N,).

        The Gaussian that stands for the label's likelihood at the mode is divided out; those of other labels stay.

        Args:
            kernel: of the training rows, shape (N, N).

        Source: vehtari-2016-leave-one-out (there LA-LOO).
        """
        alone = self.factor.inverse_diagonal()
        variance = (1 - alone) / (alone * self.root**2)
        return kernel @ self.residual - variance * self.residual, variance

    def weights(self, kernel: np.ndarray) -> np.ndarray:
        """Return G, shape (N, N) and symmetric, such that d evidence = sum of G_ij dK_ij.

        Source: rasmussen-williams-2006, algorithm 5.1, solved for dK.
        """
        inner = self.factor.inverse()
        inner *= self.root[:, None]
        inner *= self.root
        probability = np.where(self.residual > 0, 1 - self.residual, -self.residual)  # of class 1
        half = solve_triangular(self.factor.lower, self.root[:, None] * kernel, lower=True, check_finite=False)
        spread = kernel.diagonal() - np.einsum("nm,nm->m", half, half)
        turn = -0.5 * spread * self.root**2 * (1 - 2 * probability)
        turn = turn - inner @ (kernel @ turn)
        cross = np.outer(turn, self.residual)
        return 0.5 * (np.outer(self.residual, self.residual) - inner + cross + cross.T)


def mode(where: str, kernel: np.ndarray, target: np.ndarray) -> Mode:
    """Return the mode by Newton's method, each step halved until the posterior rises.

    Args:
        where: named in errors.
        kernel: shape (N, N), positive semi-definite; B is well conditioned even where it is singular.
        target: 0 or 1, shape (N,).

    Raises:
        PrecisionError: the kernel has negative eigenvalues beyond rounding.

    Source: rasmussen-williams-2006, algorithm 3.1.

    Example:
        >>> found = mode("fit", np.eye(2), np.array([0.0, 1.0]))
        >>> f = np.array([-0.4010581, 0.4010581])
        >>> bool(np.allclose(found.residual, f, atol=1e-6)), bool(np.allclose(found.residual[1], 1 - expit(f[1])))
        (True, True)
    """
    sign, answer = 2 * target - 1, np.zeros(len(target))
    f, height, before = np.zeros(len(target)), len(target) * np.log(0.5), np.inf
    for _ in range(STEPS):
        residual, root, factor = _curvature(where, kernel, target, sign, f)
        gap = float(np.abs(residual - answer).max())
        if gap <= ENOUGH or before / 2 <= gap <= SMALL:
            break
        before = gap
        wanted = root**2 * f + residual
        wanted = wanted - root * factor.solve(root * (kernel @ wanted))
        moved = kernel @ (wanted - answer)
        for step in 0.5 ** np.arange(30):
            trial, there = answer + step * (wanted - answer), f + step * moved
            rise = log_expit(sign * there).sum() - 0.5 * trial @ there - height
            if rise >= -ROUNDING * abs(height):
                break
        answer, f, height = trial, there, height + rise
    else:
        residual, root, factor = _curvature(where, kernel, target, sign, f)
        gap = float(np.abs(residual - answer).max())
    if gap > SMALL:
        text = f"{where}: Newton's method stopped with a gradient of {gap:.1e}: probabilities are that inaccurate"
        warnings.warn(f"{text}; scale the inputs down, or readout_std", AccuracyWarning, stacklevel=4)
    evidence = log_expit(sign * f).sum() - 0.5 * answer @ f - 0.5 * factor.log_determinant
    return Mode(residual, root, factor, float(evidence))


def _curvature(
    where: str, kernel: np.ndarray, target: np.ndarray, sign: np.ndarray, f: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Factor]:
    residual = sign * expit(-sign * f)
    root = np.sqrt(expit(f) * expit(-f))
    matrix = kernel * root
    matrix *= root[:, None]
    matrix.flat[:: len(f) + 1] += 1.0
    lower, failed = potrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        smallest = float(np.linalg.eigvalsh(kernel)[0])
        why = f"the kernel of these {len(f)} rows is not positive semi-definite: smallest eigenvalue {smallest:.3g}"
        raise PrecisionError(where, why, "drop rows that are nearly the same, or scale the inputs")
    return residual, root, Factor(lower)


def logistic_normal(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return E[1 / (1 + exp(-f))] for f ~ N(mean, variance), to about 1e-15, shape of both.

    Below variance 1 the trapezoid rule over the normal variable; from there on E = P(r < f) for a logistic r, and the
    rule runs over r. Both integrands are analytic in a strip, so that the error falls exponentially.

    Source: derived.

    Example:
        >>> logistic_normal(np.array([0.0, 2.0, 1.0]), np.array([5.0, 0.0, 1e8])).round(6)
        array([0.5     , 0.880797, 0.50004 ])
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
    result, narrow = np.empty(mean.shape), variance < 1
    weights = SPACING * np.exp(-0.5 * STANDARD**2) / np.sqrt(2 * np.pi)
    result[narrow] = expit(mean[narrow, None] + np.sqrt(variance[narrow, None]) * STANDARD) @ weights
    wide = ~narrow
    weights = SPACING * expit(LOGISTIC) * expit(-LOGISTIC)
    result[wide] = ndtr((mean[wide, None] - LOGISTIC) / np.sqrt(variance[wide, None])) @ weights
    return result
