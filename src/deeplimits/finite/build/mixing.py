"""How attention mixes tokens: the matrix A of each kind, and the product A V where it needs no such matrix."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional

from deeplimits.architecture.attention import Attention
from deeplimits.architecture.layer import as_float
from deeplimits.errors import ConvergenceWarning, InputError


def logits(q: Tensor, k: Tensor) -> Tensor:
    """Return <q_i, k_j> / sqrt(n_k), (..., m, n_k) twice to (..., m, m)."""
    return (q @ k.mT) / sqrt(q.shape[-1])


def visible(scores: Tensor) -> Tensor:
    """Return which token sees which under a causal mask, (m, m): j <= i."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


def counts(x: Tensor, causal: bool) -> Tensor:
    """Return how many tokens each token sees, (m, 1), for x (..., m, n): m, or 1..m under a causal mask."""
    tokens = x.shape[-2]
    seen = torch.arange(1, tokens + 1, device=x.device) if causal else torch.full((tokens,), tokens, device=x.device)
    return seen.to(x.dtype)[:, None]


def softmax_matrix(layer: Attention, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Return softmax_j(scale <q_i, k_j>)."""
    scores = scale * (q @ k.mT)
    if layer.causal:
        scores = scores.masked_fill(~visible(scores), float("-inf"))
    return torch.softmax(scores, dim=-1)


def softmax_product(layer: Attention, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Return softmax_j(scale <q_i, k_j>) V by torch's own routine, which holds a few rows of the matrix at a time.

    It does so for tensors (batch, heads, m, n_k) only.
    """
    q4, k4, v4 = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, v))
    y = functional.scaled_dot_product_attention(q4, k4, v4, is_causal=layer.causal, scale=scale)
    return y.reshape(v.shape)


def ordinary_scale(layer: Attention, q: Tensor) -> float:
    """Return 1 / (temperature sqrt(n_k))."""
    return 1.0 / (as_float(layer.temperature) * sqrt(q.shape[-1]))


def softmax(layer: Attention, q: Tensor, k: Tensor, width: int) -> Tensor:
    """Return the rows of A = softmax_j(z)."""
    return softmax_matrix(layer, q, k, ordinary_scale(layer, q))


def softmax_mixed(layer: Attention, q: Tensor, k: Tensor, v: Tensor, width: int) -> Tensor:
    """Return A V without A."""
    return softmax_product(layer, q, k, v, ordinary_scale(layer, q))


def shaped(layer: Attention, q: Tensor, k: Tensor, width: int) -> Tensor:
    """Return A = I + softmax_j(z / sqrt(width)) - 1/(number of visible tokens) where visible."""
    soft = softmax_matrix(layer, q, k, ordinary_scale(layer, q) / sqrt(width))
    even = (visible(soft) if layer.causal else torch.ones_like(soft)) / counts(soft, layer.causal)
    return torch.eye(soft.shape[-1], dtype=soft.dtype, device=soft.device) + (soft - even)


def shaped_mixed(layer: Attention, q: Tensor, k: Tensor, v: Tensor, width: int) -> Tensor:
    """Return A V without A; the mean of the visible values is a running one under a causal mask."""
    soft = softmax_product(layer, q, k, v, ordinary_scale(layer, q) / sqrt(width))
    total = v.cumsum(-2) if layer.causal else v.sum(-2, keepdim=True)
    return v + (soft - total / counts(v, layer.causal))


def sinkhorn(layer: Attention, q: Tensor, k: Tensor, width: int) -> Tensor:
    """Return A with rows that sum to one and columns that do to within the tolerance, by logarithms.

    A row step (softmax), then rounds of a column and a row step. Every matrix of a batch stops by its own residual.
    """
    assert layer.iterations is not None and layer.tolerance is not None
    z = logits(q, k) / as_float(layer.temperature)
    z = z - z.logsumexp(-1, keepdim=True)
    residual = torch.full(z.shape[:-2], float("inf"), dtype=z.dtype, device=z.device)
    for _ in range(layer.iterations):
        going = residual > layer.tolerance
        if _known(~going.any()):
            break
        columns = z - z.logsumexp(-2, keepdim=True)
        rows = columns - columns.logsumexp(-1, keepdim=True)
        z = torch.where(going[..., None, None], rows, z)
        residual = (z.detach().exp().sum(-2) - 1.0).abs().amax(-1)
    worst = residual.max()
    if _known(worst > layer.tolerance):
        why = (
            f"after {layer.iterations} rounds column sums are off by {float(worst):.2g} (tolerance {layer.tolerance:g})"
        )
        fix = "use more iterations or a higher temperature"
        warnings.warn(f"Attention('sinkhorn'): {why}; {fix}", ConvergenceWarning, stacklevel=2)
    return z.exp()


def _known(condition: Tensor) -> bool:
    """Return the condition, or False where torch.func.vmap keeps it from being read."""
    try:
        return bool(condition)
    except RuntimeError:
        return False


def rectified(layer: Attention, q: Tensor, k: Tensor) -> Tensor:
    """Return R = ReLU(q k^T) / |ReLU(q k^T)|_Frobenius; zero stays zero, and row i has the norm of the rows it sees."""
    weights = torch.relu(logits(q, k))
    if layer.causal:
        weights = weights * visible(weights)
    square = (weights * weights).sum(-1, keepdim=True)
    square = square.cumsum(-2) if layer.causal else square.sum(-2, keepdim=True)
    positive = square > 0
    return weights * torch.where(positive, torch.rsqrt(torch.where(positive, square, 1.0)), 0.0)


def relu_infinite(layer: Attention, q: Tensor, k: Tensor, width: int) -> Tensor:
    """Return A = sum over k = 1.. of g^k R^k."""
    identity = torch.eye(q.shape[-2], dtype=q.dtype, device=q.device)
    return relu_infinite_mixed(layer, q, k, identity.expand(*q.shape[:-2], -1, -1), width)


def relu_infinite_mixed(layer: Attention, q: Tensor, k: Tensor, v: Tensor, width: int) -> Tensor:
    """Return A V: the sum of `terms` terms, or the solution Y of (I - g R) Y = g R V.

    Raises:
        InputError: g is not below 1 / spectral radius of R, so that the sum has no limit.
    """
    discount = as_float(layer.discount)
    step = discount * rectified(layer, q, k)
    if layer.terms is not None:
        y = step @ v
        for _ in range(layer.terms - 1):
            y = step @ (v + y)
        return y
    system = torch.eye(step.shape[-1], dtype=step.dtype, device=step.device) - step
    if discount >= 1.0:
        _summable(discount, system)
    if layer.causal:
        return torch.linalg.solve_triangular(system, step @ v, upper=False)
    return torch.linalg.solve(system, step @ v)


def _summable(discount: float, system: Tensor) -> None:
    """Refuse a system I - g R without a nonnegative inverse; that inverse applied to ones tells (an M-matrix)."""
    with torch.no_grad():
        visits, failed = torch.linalg.solve_ex(system, torch.ones_like(system[..., :1]))
        good = (failed == 0) & torch.isfinite(visits).all((-1, -2)) & (visits > 0).all((-1, -2))
    if not bool(good.all()):
        why = f"discount={discount:g} is not below 1 / spectral radius of the rectified matrix, so the sum diverges"
        raise InputError("Attention('relu-infinite')", why, "use discount < 1, which is always summable, or terms=...")


def hardmax(layer: Attention, q: Tensor, k: Tensor, width: int) -> Tensor:
    """Return A = (1 - step) I + step H; H has no gradient, being constant but for jumps."""
    scores = logits(q, k).detach()
    sizes = scores.abs()
    if layer.causal:
        hidden = ~visible(scores)
        scores, sizes = scores.masked_fill(hidden, float("-inf")), sizes.masked_fill(hidden, 0.0)
    near = as_float(layer.tolerance) * sizes.amax(-1, keepdim=True)
    chosen = (scores >= scores.amax(-1, keepdim=True) - near).to(q.dtype)
    even, step = chosen / chosen.sum(-1, keepdim=True), as_float(layer.step)
    identity = torch.eye(even.shape[-1], dtype=even.dtype, device=even.device)
    return (1.0 - step) * identity + step * even


MATRICES: dict[str, Callable[[Attention, Tensor, Tensor, int], Tensor]] = {
    "softmax": softmax,
    "shaped": shaped,
    "sinkhorn": sinkhorn,
    "relu-infinite": relu_infinite,
    "hardmax": hardmax,
}
"""(layer, q, k, width) -> A, of q and k (..., m, n_k)."""

PRODUCTS: dict[str, Callable[[Attention, Tensor, Tensor, Tensor, int], Tensor]] = {
    "softmax": softmax_mixed,
    "shaped": shaped_mixed,
    "relu-infinite": relu_infinite_mixed,
}
"""(layer, q, k, v, width) -> A V, for kinds that need not form A."""
