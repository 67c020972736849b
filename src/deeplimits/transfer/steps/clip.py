"""Gradient clipping by a norm that does not grow with the model: every parameter weighted by its role."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.numbers import Row, gradient
from deeplimits.transfer.rule import Powers, Rule

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan


def weight(row: Row, rule: Rule) -> float:
    """Return the weight s of a parameter's gradient, one over the growth of its norm.

    The entries of a gradient grow by g = 1/m_out, in blocks m_L^-alpha (over what is folded in), and there are
    m_in m_out m_L times as many: s = 1 / (g sqrt(m_in m_out m_L)). For a matrix outside blocks s = sqrt(m_out / m_in).

    Args:
        row: of the parameter.
        rule: the parametrization.

    Source: derived from the sizes of gradients of dey-2025-completep, Table 1; the weights of haas-2024-mup2-sam.
    """
    depth = 1.0 if rule.alpha is None else row.depth_ratio
    return 1 / (gradient(row, rule) * (row.fan_in_ratio * row.fan_out_ratio * depth) ** 0.5)


def clip_grad_norm(
    plan: Plan, model: nn.Module | torch.optim.Optimizer, max_norm: float, error_if_nonfinite: bool = False
) -> torch.Tensor:
    """Scale all gradients in place so that |(s_k g_k)_k| is at most max_norm; returns that norm before it.

    Args:
        plan: of the target.
        model: the target, wrapped or sharded or not, or an optimizer made from `param_groups`.
        max_norm: the base's.
        error_if_nonfinite: whether a norm of infinity or NaN is an error.

    Raises:
        InputError: max_norm is not above zero; the plan's rule says nothing of the size of gradients.
    """
    if not isinstance(max_norm, int | float) or not 0 < max_norm <= inf:
        raise InputError("plan.clip_grad_norm", f"max_norm={max_norm!r}", "give the base's, a number above zero")
    rule = plan.parametrization
    if rule.eps == Powers():
        why = f"rule {rule.name!r} says nothing of the size of gradients"
        fix = "use torch.nn.utils.clip_grad_norm_, or a rule of the muP family"
        raise InputError("plan.clip_grad_norm", why, fix)
    by: dict[float, list[torch.Tensor]] = {}
    rows = {row.name: row for row in plan.rows}
    for name, parameter in _named(model):
        if parameter.grad is not None:
            by.setdefault(weight(rows.get(name) or plan[name], rule), []).append(parameter.grad)
    if not by:
        return torch.tensor(0.0)
    norms = [s * whole(torch.nn.utils.get_total_norm(gradients)) for s, gradients in by.items()]
    total = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
    if error_if_nonfinite and not isfinite(float(total)):
        why = f"the norm of the gradients is {float(total)}"
        raise InputError("plan.clip_grad_norm", why, "lower the learning rate, or pass error_if_nonfinite=False")
    scale = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    with torch.no_grad():
        for gradients in by.values():
            for g in gradients:
                getattr(g, "to_local", lambda g=g: g)().mul_(scale.to(g.device))
    return total


def whole(value: Any) -> torch.Tensor:
    """Return a tensor that may be sharded over processes as a plain one; all of them take part."""
    full = getattr(value, "full_tensor", None)
    return full() if full else value


def _named(model: nn.Module | torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    if isinstance(model, nn.Module):
        return [(bare(name), parameter) for name, parameter in model.named_parameters()]
    if any("param_names" not in group for group in model.param_groups):
        why = "the optimizer's groups carry no parameter names"
        raise InputError("plan.clip_grad_norm", why, "make the optimizer from plan.param_groups, or pass the model")
    groups = model.param_groups
    return [pair for group in groups for pair in zip(group["param_names"], group["params"], strict=True)]
