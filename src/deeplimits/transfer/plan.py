"""A plan: what every parameter of the target gets, relative to the base; plain data, keyed by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer import budget
from deeplimits.transfer.anatomy import checks
from deeplimits.transfer.anatomy.initial import Hold, sizes
from deeplimits.transfer.anatomy.matching import listed
from deeplimits.transfer.anatomy.names import bare, in_words
from deeplimits.transfer.budget import Budget
from deeplimits.transfer.numbers import Row, perturbations
from deeplimits.transfer.rule import Rule, family, get
from deeplimits.transfer.steps.optimizer import usable

EPSILON = 1e-8


@dataclass(frozen=True, repr=False)
class Plan:
    """How to train the target with the base's settings.

    Attributes:
        rule: the parametrization's name.
        optimizer: its name.
        base, target: sizes given to the build function, or what was compared.
        decay: "coupled", "independent" or another of `rules/decay`.
        rows: one record a parameter.
        initial: {name: size of the base's initial values}.
        notes: what a user should know.
        rule_alpha: exponent of residual branches; None where the rule says nothing of depth.
        batch, tokens: (base's, target's) batch size and tokens of the run where the rules for them are on; else None.
        scales: {"module.attribute": value} of attention whose heads grow, where no parameter carries the factor.
    """

    rule: str
    optimizer: str
    base: Mapping[str, Any]
    target: Mapping[str, Any]
    decay: str
    rows: tuple[Row, ...]
    initial: Mapping[str, float]
    notes: tuple[str, ...] = ()
    rule_alpha: float | None = None
    batch: tuple[float, float] | None = None
    tokens: tuple[float, float] | None = None
    scales: Mapping[str, float] = field(default_factory=dict)

    @property
    def parametrization(self) -> Rule:
        """The rule, with the plan's exponent of branches."""
        return replace(get(self.rule.split(" with alpha")[0]), alpha=self.rule_alpha)

    @property
    def budget(self) -> Budget:
        """Batch size and tokens, target over base; 1 where the rule is off."""
        return budget.budget(self.batch, self.tokens)

    def __getitem__(self, name: str) -> Row:
        """Return the row of a parameter."""
        wanted = bare(name)
        for row in self.rows:
            if row.name == wanted:
                return row
        raise InputError("plan", f"{name!r} is not in the plan", "take a name of model.named_parameters()")

    def apply(self, model: nn.Module, initial: bool, hold: Hold = nullcontext) -> Plan:
        """Rescale a freshly initialised target once, by name; returns the plan with every init_mult filled in.

        Args:
            model: the target, with real values (wrapped, sharded or compiled or not).
            initial: must be True, to say that the weights are initial: trained weights are never rescaled.
            hold: a context in which a parameter is whole, where a framework keeps it in parts (`integrations`).

        Raises:
            InputError: the model is not the target, its weights have the planned sizes already or do not look initial.
        """
        if initial is not True:
            fix = "pass initial=True for a freshly initialised model; trained weights need param_groups only"
            raise InputError("plan.apply", f"initial={initial!r}", fix)
        parameters = self._parameters(model, "plan.apply")
        if any(parameter.is_meta for parameter in parameters.values()):
            fix = "materialise it first: model.to_empty(device=...) and its own initialisation"
            raise InputError("plan.apply", "the model is on the meta device and has no values", fix)
        measured = sizes(model, hold)
        resolved = {row.name: self._multiplier(row, measured[row.name][0]) for row in self.rows}
        checks.initial_values(self.rows, self.initial, measured, resolved)
        with torch.no_grad():
            for row in self.rows:
                if resolved[row.name] != 1 or row.init_shift:
                    with hold(parameters[row.name]):
                        parameters[row.name].mul_(resolved[row.name]).add_(row.init_shift)
        self.set_scales(model)
        return replace(self, rows=tuple(replace(row, init_mult=resolved[row.name]) for row in self.rows))

    def set_scales(self, model: nn.Module) -> None:
        """Set the numbers that scale attention logits where no parameter does; `apply` does so, loading does not.

        Args:
            model: the target, wrapped or not.
        """
        modules = {bare(name): module for name, module in model.named_modules()}
        for place, value in self.scales.items():
            path, _, attribute = place.rpartition(".")
            setattr(modules[path], attribute, value)

    def _multiplier(self, row: Row, size: float) -> float:
        if row.init_mult is not None:
            return row.init_mult
        if not self.initial:
            raise InputError("plan.apply", "the base was on the meta device, without values", "plan with a real base")
        wanted = self.initial.get(row.name, 0.0) * row.init_ratio
        return wanted / size if size and wanted else 1.0

    def param_groups(
        self,
        model: nn.Module,
        lr: Any,
        weight_decay: float = 0.0,
        eps: float | None = None,
        partial: bool = False,
        **settings: Any,
    ) -> list[dict[str, Any]]:
        """Return parameter groups for any torch optimizer of the plan's family.

        Args:
            model: the target, wrapped or not.
            lr: the base's learning rate.
            weight_decay: the base's weight decay; gains and biases get none.
            eps: the base's epsilon (entrywise optimizers; 1e-8 by default).
            partial: whether the model may have parameters that the plan has not.
            settings: put into every group; betas are the base's, adapted where the rule for batch or tokens is on.

        Returns:
            groups of parameters with equal numbers, each with "params", "lr", "weight_decay", "param_names", and "eps"
            where the optimizer has one.
        """
        usable("plan.param_groups", lr, weight_decay)
        parameters = self._parameters(model, "plan.param_groups", partial)
        groups: dict[tuple[float, ...], list[str]] = {}
        for row in self.rows:
            decays = len(row.shape) > 1 and weight_decay != 0
            groups.setdefault((row.lr_mult, row.eps_mult, row.decay_mult if decays else 0.0), []).append(row.name)
        eps, kind = EPSILON if eps is None else eps, family(self.optimizer)
        settings, found = self.budget.settings(kind, settings, "plan.param_groups"), []
        for (lr_mult, eps_mult, decay_mult), names in groups.items():
            group = {"params": [parameters[name] for name in names], "lr": lr * lr_mult}
            group |= {"weight_decay": weight_decay * decay_mult, "param_names": names, **settings}
            found.append(group | ({"eps": eps * eps_mult} if kind == "entrywise" else {}))
        return found

    def optimizers(
        self, model: nn.Module, lr: Mapping[str, float], **settings: Any
    ) -> dict[str, torch.optim.Optimizer]:
        """Return the usual hybrid: hidden matrices under one optimizer, everything else under another.

        Args:
            model: the target, wrapped or not.
            lr: the base's learning rates, {matrices: rate, rest: rate}.
            settings: as in `hybrid.optimizers`.
        """
        from deeplimits.transfer.steps import hybrid

        return hybrid.optimizers(self, model, lr, **settings)

    def perturbations(self) -> dict[str, float]:
        """Return {name: scale of SAM's perturbation}; an error where the rule has no word on it."""
        return perturbations(self.rows, self.parametrization)

    def sam(self, optimizer: torch.optim.Optimizer, rho: float) -> Any:
        """Return `deeplimits.transfer.SAM` around an optimizer made from `param_groups`; rho is the base's."""
        from deeplimits.transfer.steps.sam import SAM

        return SAM(optimizer, rho, self)

    def watch(self, optimizer: torch.optim.Optimizer, every: int = 100, to: Any = "watch.csv", **settings: Any) -> Any:
        """Write predicted and measured sizes of updates, logits and learning rates every so many steps, and guard.

        Args:
            optimizer: made from `param_groups` or `optimizers`.
            every: number of steps from one sample to the next.
            to: a CSV file, TensorBoard's SummaryWriter or a function of samples.
            settings: model= (for logits), against= (a watched run of the base), as in `watching.RunWatch`.
        """
        from deeplimits.transfer.steps.watching import RunWatch

        return RunWatch(optimizer, every, to, plan=self, **settings)

    def of(self, optimizer: torch.optim.Optimizer) -> Plan:
        """Return the plan with the numbers for an optimizer in use: one of a hybrid may be of another family."""
        from deeplimits.transfer.steps import hybrid

        return hybrid.of(self, optimizer)

    def clip_grad_norm(
        self, model: nn.Module | torch.optim.Optimizer, max_norm: float, error_if_nonfinite: bool = False
    ) -> torch.Tensor:
        """Clip gradients like `torch.nn.utils.clip_grad_norm_`, by a norm weighted by roles: max_norm is the base's.

        The plain norm is dominated by readouts and embeddings and moves with the width; this one does not, and is the
        plain one at the base. Returns the norm before clipping.

        Args:
            model: the target, or an optimizer made from `param_groups`.
            max_norm: the base's.
            error_if_nonfinite: whether a norm of infinity or NaN is an error.
        """
        from deeplimits.transfer.steps.clip import clip_grad_norm

        return clip_grad_norm(self, model, max_norm, error_if_nonfinite)

    def scale(self, value: float, optimizer: torch.optim.Optimizer) -> list[float]:
        """Return the value for each group of an optimizer, as schedulers like OneCycleLR want it.

        Args:
            value: for the base.
            optimizer: made from `param_groups`.
        """
        from deeplimits.transfer.steps import ratios

        return ratios.scale(self, value, optimizer)

    def guard(self, optimizer: torch.optim.Optimizer, tolerance: float = 1e-6) -> None:
        """Check that the groups' learning rates still stand in the planned ratios.

        Raises:
            InputError: something (a scheduler given one number, a restored state) erased them; names the group.
        """
        from deeplimits.transfer.steps import ratios

        ratios.guard(self, optimizer, tolerance)

    def explain(self, every: bool = True) -> str:
        """Return the table of the plan in words: name, shape, role, numbers, why, source.

        Args:
            every: whether every parameter has a line; else blocks of equal numbers share one, as in `print(plan)`.
        """
        from deeplimits.transfer.plan_table import explain

        return explain(self, every)

    def __str__(self) -> str:
        return self.explain(every=False)

    def __repr__(self) -> str:
        sizes = f"{in_words(self.base)} to {in_words(self.target)}"
        return f"<Plan: {self.rule}, {self.optimizer}, {sizes}, {len(self.rows)} parameters>"

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        from deeplimits.transfer import plan_file

        plan_file.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `save` wrote."""
        from deeplimits.transfer import plan_file

        return plan_file.load(path)

    def _parameters(self, model: nn.Module, where: str, partial: bool = False) -> dict[str, nn.Parameter]:
        found = {bare(name): parameter for name, parameter in model.named_parameters()}
        planned = {row.name: row.shape for row in self.rows}
        if partial:
            found = {name: parameter for name, parameter in found.items() if name in planned}
        if set(found) != set(planned):
            odd = sorted(set(found) ^ set(planned))
            why = f"the model is not the plan's target: {listed(odd, 3)} on one side only"
            raise InputError(where, why, f"build it with the target's sizes: {in_words(self.target)}")
        for name, parameter in found.items():
            shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
            if shape != planned[name]:
                why = f"{name} has shape {shape}, the plan's target {planned[name]}"
                raise InputError(where, why, f"build it with the target's sizes: {in_words(self.target)}")
        return found
