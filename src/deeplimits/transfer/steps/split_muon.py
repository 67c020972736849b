"""Muon for parameters that hold several matrices: each part is made orthogonal on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError


class SplitMuon(torch.optim.Muon):
    """torch's Muon, with groups whose parameters are taken apart: by "parts" along "part_dim", stacks one by one.

    The momentum of a parameter is kept in one piece, so that `state_dict` is that of torch's Muon.

    Args:
        params: groups; "parts" holds the sizes of the parts along "part_dim"; three-dimensional parameters are stacks
            (experts, rows, columns).
        lr: learning rate of groups without one.
        adjust_lr_fn: "original" or "match_rms_adamw", of the shape of the parts.
        settings: as in torch.optim.Muon.

    Raises:
        InputError: at the first step, a parameter that is sharded over processes.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(4, 2))
        >>> optimizer = SplitMuon([{"params": [weight], "parts": (2, 2), "part_dim": 0}], lr=1.0)
        >>> weight.grad = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 3.0]])
        >>> optimizer.step()
        >>> bool(torch.allclose(weight[:2], weight[2:], rtol=1e-2))
        True
    """

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, adjust_lr_fn: str | None = None, **settings: Any):
        like = torch.optim.Muon([nn.Parameter(torch.zeros(1, 1))], lr, adjust_lr_fn=adjust_lr_fn, **settings)
        torch.optim.Optimizer.__init__(self, params, like.defaults)  # Muon's own refuses stacks

    def _init_group(self, group: Any, params_with_grad: list, grads: list, muon_momentum_bufs: list) -> bool:
        found = super()._init_group(group, params_with_grad, grads, muon_momentum_bufs)
        parts, dim = group.get("parts"), group.get("part_dim", 0)
        if any(hasattr(p, "full_tensor") for p in params_with_grad if parts or p.ndim == 3):
            why = f"{group.get('param_names', ['a parameter'])[0]} is sharded: its parts lie on several processes"
            fix = (
                "leave it whole, plan.optimizers(..., split={name: 1}), or leave it to the other optimizer with choose="
            )
            raise InputError("Muon", why, fix)
        for held in (params_with_grad, grads, muon_momentum_bufs):
            held[:] = [part for value in held for part in _taken_apart(value, parts, dim)]
        return found


def _taken_apart(value: torch.Tensor, parts: Sequence[int] | None, dim: int) -> Sequence[torch.Tensor]:
    """Return views of a parameter's matrices."""
    if value.ndim == 3:
        return [part for matrix in value.unbind(0) for part in _taken_apart(matrix, parts, dim)]
    return value.split(list(parts), dim) if parts else [value]
