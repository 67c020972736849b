"""The arc-cosine functions J_p of a cosine, differentiable to any order in torch."""

from __future__ import annotations

import torch


class _ArcCosine(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(c: torch.Tensor, power: int) -> torch.Tensor:
        c = torch.clamp(c, -1, 1)
        sine = torch.sqrt((1 - c) * (1 + c))
        before, now = torch.atan2(sine, -c), sine
        if power == 0:
            return before
        now = sine + c * before
        for p in range(1, power):
            before, now = now, (2 * p + 1) * c * now + p**2 * sine**2 * before
        return now

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.power = inputs[1]

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor):
        (c,) = ctx.saved_tensors
        if ctx.power > 0:
            return gradients[0] * ctx.power**2 * arc_cosine(c, ctx.power - 1), None
        inside = c.abs() < 1
        squared = torch.where(inside, (1 - c) * (1 + c), 1)
        return gradients[0] * torch.where(inside, torch.rsqrt(squared), 0), None


def arc_cosine(c: torch.Tensor, power: int) -> torch.Tensor:
    """Return J_p(arccos c), with dJ_p/dc = p^2 J_{p-1}; the infinite slope of J_0 at c = -1 and 1 counts as 0.

    J_0 = pi - t, J_1 = sin t + (pi - t) cos t, J_{p+1} = (2p + 1) cos t J_p + p^2 sin^2 t J_{p-1}.

    Source: cho-saul-2009, eq. 4.
    """
    return _ArcCosine.apply(c, power)  # type: ignore[return-value]
