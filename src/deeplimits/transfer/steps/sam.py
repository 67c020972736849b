"""Sharpness-aware minimization around any optimizer, its perturbation scaled by layer as a plan says."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import torch
from torch.optim import Optimizer

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.names import bare
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.steps.clip import whole


class SAM(Optimizer):
    """Take every step with the gradient at w + E, where the loss is about largest within a distance rho of w.

    E_l = rho s_l^2 g_l / |(s_k g_k)_k|: g_l is the gradient of parameter l and s_l its scale, 1 without a plan (plain
    SAM). Under a plan with rule "mup2_sam" s = sqrt(m_out / m_in), gains and biases m_out^(1/2), a multiplier that the
    plan folds into a parameter included: every layer's perturbation then moves its output by as much at every width,
    and the target equal to the base is plain SAM.

    Args:
        optimizer: any torch optimizer; it keeps its own state and learning rates, and takes the steps.
        rho: radius of the perturbation at the base, in the norm of the parameters.
        plan: of the target; the optimizer is then made from `plan.param_groups`.

    Call `step(closure)` with a closure that clears the gradients, computes the loss, differentiates it and returns it;
    or `first_step()` after the first backward pass and `second_step()` after the second. Schedulers, `state_dict` and
    `load_state_dict` work as with the optimizer inside.

    Valid when: gradients are not scaled or clipped between the two passes in different ways; width only.

    Raises:
        InputError: rho is not a positive number; the plan's rule says nothing of perturbations; groups without names;
            a step without closure; a second step without a first.

    Source: foret-2021-sam; haas-2024-mup2-sam (layers); its two-sided form relative to a base: derived.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> optimizer = SAM(torch.optim.SGD([weight], lr=0.1), rho=1.0)
        >>> weight.square().sum().backward()
        >>> optimizer.first_step(zero_grad=True)
        >>> weight.data
        tensor([3.6000, 4.8000])
        >>> weight.square().sum().backward()
        >>> optimizer.second_step()
        >>> weight.data
        tensor([2.2800, 3.0400])
    """

    def __init__(self, optimizer: Optimizer, rho: float, plan: Plan | None = None):
        if not isinstance(optimizer, Optimizer):
            fix = "pass an optimizer of the parameters, as SAM(torch.optim.SGD(groups), rho=0.05)"
            raise InputError("SAM", f"optimizer is a {type(optimizer).__name__}", fix)
        if not isinstance(rho, int | float) or not 0 < rho < inf:
            raise InputError("SAM", f"rho={rho!r}", "give the radius of the perturbation, a number above zero")
        self.optimizer, self.rho = optimizer, float(rho)
        self._scales = {} if plan is None else _scales(plan, optimizer)
        self._kept: dict[torch.nn.Parameter, torch.Tensor] = {}
        super().__init__(optimizer.param_groups, {})
        self._share()

    def _share(self) -> None:
        self.param_groups, self.state = self.optimizer.param_groups, self.optimizer.state

    @torch.no_grad()
    def first_step(self, zero_grad: bool = False) -> None:
        """Move the parameters by E, from their gradients."""
        if self._kept:
            why = "a first step after a first step: the parameters are perturbed already"
            raise InputError("SAM", why, "take the second step after the second backward pass")
        found = [(p, self._scales.get(p, 1.0)) for group in self.param_groups for p in group["params"]]
        found = [(p, s) for p, s in found if p.grad is not None]
        norm = sum(s**2 * _square(p.grad) for p, s in found) ** 0.5
        for p, s in found:
            self._kept[p] = p.detach().clone()
            if norm:
                p.add_(p.grad, alpha=self.rho * s**2 / norm)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad: bool = False) -> None:
        """Put the parameters back exactly, and let the optimizer step with the gradients at w + E."""
        if not self._kept:
            raise InputError("SAM", "a second step without a first", "call first_step() after the first backward pass")
        for p, value in self._kept.items():
            p.copy_(value)
        self._kept.clear()
        self.optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take both steps; returns the loss at w.

        Args:
            closure: clears the gradients, computes the loss, differentiates it and returns it; called twice.
        """
        if closure is None:
            fix = "pass step(closure), or call first_step() and second_step() after the two backward passes"
            raise InputError("SAM", "the gradient is needed at two places, and no closure was given", fix)
        with torch.enable_grad():
            loss = closure()
        self.first_step()
        with torch.enable_grad():
            closure()
        self.second_step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer inside."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the optimizer inside."""
        self.optimizer.load_state_dict(state_dict)
        self._share()


def _square(gradient: Any) -> float:
    return float(whole(gradient.detach().double().square().sum()))


def _scales(plan: Plan, optimizer: Optimizer) -> dict[Any, float]:
    scales = plan.perturbations()
    plan.scale(1.0, optimizer)
    named = [(group["param_names"], group["params"]) for group in optimizer.param_groups]
    return {p: scales[bare(name)] for names, held in named for name, p in zip(names, held, strict=True)}
