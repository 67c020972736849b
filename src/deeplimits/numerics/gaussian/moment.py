"""Hermite series in torch, differentiable to any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from deeplimits.numerics.gaussian.expansion import Expansion


class _Moment(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor, family: Expansion, i: int, j: int):
        ctx.save_for_backward(k, q1, q2)
        ctx.what = (family, i, j)
        largest = max(float(q.max()) if q.numel() else 0.0 for q in (q1, q2))
        order = family.order_for(largest, 1.0, 1e-16)
        a, b = _sequence(family, q1, order, i), _sequence(family, q2, order, j)
        s = torch.sqrt(q1 * q2)
        c = torch.clamp(torch.where(s > 0, k / torch.where(s > 0, s, 1), 0), -1, 1)
        total = torch.zeros(torch.broadcast_shapes(c.shape, a.shape[1:], b.shape[1:]), dtype=c.dtype, device=c.device)
        for row in range(order - 1, -1, -1):
            total.mul_(c).add_(a[row] * b[row])
        return total

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor):
        k, q1, q2 = ctx.saved_tensors
        family, i, j = ctx.what
        steps = ((k, 1.0, i + 1, j + 1), (q1, 0.5, i + 2, j), (q2, 0.5, i, j + 2))
        results: list[torch.Tensor | None] = []
        for needed, (variable, factor, left, right) in zip(ctx.needs_input_grad, steps, strict=False):
            slope = gradients[0] * factor * moment(family, k, q1, q2, left, right) if needed else None
            results.append(None if slope is None else slope.sum_to_size(variable.shape))
        return (*results, None, None, None)


def _sequence(family: Expansion, q: torch.Tensor, order: int, times: int) -> torch.Tensor:
    values, where = np.unique(q.detach().cpu().numpy().ravel(), return_inverse=True)
    table = torch.from_numpy(np.ascontiguousarray(family.sequence(values, order, times)))
    return table[:, torch.from_numpy(where)].reshape(order, *q.shape).to(q.device)


def moment(family: Expansion, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """Return M_ij = E[phi^(i)(u) phi^(j)(v)], i-th and j-th derivatives, by their Hermite series.

    dM_ij/dk = M_{i+1,j+1}, dM_ij/dq1 = M_{i+2,j} / 2, dM_ij/dq2 = M_{i,j+2} / 2.

    Args:
        family: its coefficients.
        k: covariances; k, q1 and q2 broadcast, and the result has their common shape.
        q1: variances of u.
        q2: variances of v.
        i: how often phi is differentiated at u.
        j: how often at v.
    """
    return _Moment.apply(k, q1, q2, family, i, j)  # type: ignore[return-value]
