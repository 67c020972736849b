"""The evidence of targets under a Gaussian-process prior, differentiable in its covariances.

Either the covariance of all rows is given (Gaussian noise: exact), or features A (N, r) with K ~ A A^T and the
variances `rest` that they leave out: f = A v with v ~ N(0, I), by Laplace's approximation about the best v. With
Gaussian noise that is the bound of variational inducing points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

STEPS, ENOUGH, HALVINGS = 60, 1e-10, 30
SingularError = torch.linalg.LinAlgError  # type: ignore[reportPrivateImportUsage]


@dataclass(frozen=True, eq=False)
class Answer:
    """The posterior of v, for each of C outputs.

    Attributes:
        value: the evidence, summed over outputs.
        mean: shape (r, C).
        roots: Cholesky factors of the precisions of v, shape (C, r, r), or (1, r, r) where they are the same.
    """

    value: Tensor
    mean: Tensor
    roots: Tensor

    def at(self, outer: Tensor) -> tuple[Tensor, Tensor]:
        """Return means (M, C) and the variances that v adds, (M, C) or (M, 1), at rows with features `outer` (M, r)."""
        half = torch.linalg.solve_triangular(self.roots, outer.T.expand(len(self.roots), -1, -1), upper=False)
        return outer @ self.mean, (half**2).sum(1).T

    def covariance(self, outer: Tensor) -> Tensor:
        """Return the covariance that v adds among rows, shape (M, M), of the first output."""
        half = torch.linalg.solve_triangular(self.roots[0], outer.T, upper=False)
        return half.T @ half


def exact(covariance: Tensor, y: Tensor, noise: float) -> Tensor:
    """Return log N(y; 0, covariance + noise), summed over outputs (N, C)."""
    matrix = covariance + noise * torch.eye(len(covariance), dtype=covariance.dtype)
    lower = torch.linalg.cholesky(matrix)
    half = torch.linalg.solve_triangular(lower, y, upper=False)
    log_determinant = lower.diagonal().log().sum()
    return -0.5 * (half**2).sum() - y.shape[1] * (log_determinant + 0.5 * len(y) * log(2 * pi))


def gaussian(features: Tensor, rest: Tensor, y: Tensor, noise: float) -> Answer:
    """Return log N(y; 0, A A^T + noise) - C sum(rest) / (2 noise), a bound on the evidence, and the law of v.

    Source: titsias-2009-variational; yang-2021-deep-kernel-machine.

    Example:
        >>> one = torch.ones(1, 1, dtype=torch.float64)
        >>> answer, whole = gaussian(one, one[0] - 1, 3 * one, 0.5), exact(one, 3 * one, 0.5)
        >>> bool(torch.isclose(answer.value, whole)), round(float(answer.mean), 12)
        (True, 2.0)
    """
    eye = torch.eye(features.shape[1], dtype=features.dtype)
    root = torch.linalg.cholesky(eye + features.T @ features / noise)
    pulled = features.T @ y / noise
    mean = torch.cholesky_solve(pulled, root)
    count, outputs = y.shape
    fit = -0.5 * ((y**2).sum() / noise - (pulled * mean).sum())
    value = fit - outputs * (root.diagonal().log().sum() + 0.5 * count * log(2 * pi * noise))
    return Answer(value - outputs * rest.sum() / (2 * noise), mean, root[None])


def logistic(features: Tensor, rest: Tensor, signs: Tensor, start: Tensor | None = None) -> Answer:
    """Return Laplace's approximation of the evidence of labels, summed over C binary problems, and the law of v.

    log p(y | A v) - |v|^2 / 2 - log det(1 + A^T W A) / 2 - sum(W rest) / 2 at the best v, W = p (1 - p).

    The best v depends on A: one Newton step from it, differentiated with the curvature held fixed, carries that
    dependence exactly, since its residual is zero.

    Args:
        features: A, shape (N, r).
        rest: shape (N,).
        signs: -1 or 1, shape (N, C).
        start: v to begin with, shape (r, C).

    Source: rasmussen-williams-2006, section 3.4; derived (the term of `rest`, and the gradient).

    Example:
        >>> one = torch.ones(1, 1, dtype=torch.float64)
        >>> round(float(logistic(one, 0 * one[0], one).mean), 6)
        0.401058
    """
    with torch.no_grad():
        best = _best(features.detach(), signs, start)
        _, weights, roots = _curvature(features.detach(), signs, best)
    residual = features.T @ _slope(features @ best, signs) - best
    mean = best + torch.cholesky_solve(residual.T[:, :, None], roots)[:, :, 0].T
    f, weights, roots = _curvature(features, signs, mean)
    value = logsigmoid(signs * f).sum() - 0.5 * (mean**2).sum()
    value = value - roots.diagonal(dim1=1, dim2=2).log().sum() - 0.5 * (weights * rest[:, None]).sum()
    return Answer(value, mean, roots)


def _slope(f: Tensor, signs: Tensor) -> Tensor:
    return signs * torch.sigmoid(-signs * f)


def _curvature(features: Tensor, signs: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    f = features @ v
    weights = torch.sigmoid(f) * torch.sigmoid(-f)
    matrix = features.T @ (weights.T[:, :, None] * features)
    return f, weights, torch.linalg.cholesky(matrix + torch.eye(len(v), dtype=v.dtype))


def _height(features: Tensor, signs: Tensor, v: Tensor) -> Tensor:
    return logsigmoid(signs * (features @ v)).sum(0) - 0.5 * (v**2).sum(0)


def _best(features: Tensor, signs: Tensor, start: Tensor | None) -> Tensor:
    """Return the most probable v, shape (r, C), by Newton steps, each halved until the posterior rises."""
    v = torch.zeros(features.shape[1], signs.shape[1], dtype=features.dtype) if start is None else start
    for _ in range(STEPS):
        f, _, roots = _curvature(features, signs, v)
        residual = features.T @ _slope(f, signs) - v
        if float(residual.abs().max()) <= ENOUGH:
            break
        move = torch.cholesky_solve(residual.T[:, :, None], roots)[:, :, 0].T
        height, step = _height(features, signs, v), torch.ones(1, signs.shape[1], dtype=v.dtype)
        for _ in range(HALVINGS):
            falls = _height(features, signs, v + step * move) < height - 1e-13 * height.abs()
            if not bool(falls.any()):
                break
            step = torch.where(falls, step / 2, step)
        v = v + step * move
    return v
