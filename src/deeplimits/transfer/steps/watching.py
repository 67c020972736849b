"""Watching a run: sizes of updates, logits and learning rates, beside what the plan predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import main_output
from deeplimits.transfer.anatomy.names import bare, pooled
from deeplimits.transfer.numbers import gradient, own_scale
from deeplimits.transfer.rule import FAMILIES, Powers, family
from deeplimits.transfer.steps.clip import whole
from deeplimits.transfer.steps.optimizer import name_of
from deeplimits.transfer.steps.samples import LOGITS, RATE, UPDATE, Sample, read, sink

if TYPE_CHECKING:
    from deeplimits.transfer.plan import Plan


class RunWatch:
    """Takes samples of a run every so many steps, by hooks of the optimizer; costs nothing in between.

    The unit of an update is the planned learning rate for Adam-like optimizers (whose first step has this size, and
    Lion's every step), that of an orthogonal matrix for Muon, and follows the gradient's predicted size for SGD. In it,
    a step is as large in the target as in the base: `predicted` is unit times what a watched run of the base measured
    there (`against`). Without that it is the unit itself, which steps do not exceed by much (Lion's reach it, Adam's
    first one too, Muon's where the gradient has full rank), and for SGD nothing.

    Args:
        optimizer: whose steps are watched.
        every: number of steps from one sample to the next.
        to: a CSV file, written on at every sample; anything with `add_scalar`, as TensorBoard's SummaryWriter; or a
            function of a list of samples.
        model: gives names where the optimizer's groups carry none, and the sizes of logits.
        plan: of the target; None for the base's own run.
        against: the CSV file of the base's run, watched at the same steps.
        start: number of the first step, for a run that goes on.
        guard: whether `plan.guard` checks the ratios of learning rates at every sample.

    At a sample one copy of the parameters is held during the step. In distributed runs every process takes part and the
    first one writes.

    Raises:
        InputError: parameters without names, a file that holds something else, or a `to` that takes no samples.

    Attributes:
        step: the next one.
        last: the newest samples.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        every: int = 100,
        to: Any = "watch.csv",
        model: nn.Module | None = None,
        plan: Plan | None = None,
        against: str | Path | None = None,
        start: int = 0,
        guard: bool = True,
    ):
        if not isinstance(every, int) or every < 1:
            raise InputError("watch", f"every={every!r}", "give a number of steps, from 1 on")
        self.optimizer, self.every, self.step, self.last = optimizer, every, start, ()
        self._plan, self._checks = (None if plan is None else plan.of(optimizer)), guard
        self._parts = _parts(optimizer, model)
        self._rows = {} if self._plan is None else {part.first: self._plan[part.first] for part in self._parts}
        self._base = {} if against is None else _sizes(read(against))
        self._sink = sink(to)
        self._before: list[torch.Tensor] | None = None
        self._logits: torch.Tensor | None = None
        self._handles = [optimizer.register_step_pre_hook(self._hold), optimizer.register_step_post_hook(self._sample)]
        if model is not None:
            self._handles.append(model.register_forward_hook(self._see))

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> RunWatch:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def _see(self, model: nn.Module, given: Any, result: Any) -> None:
        if self.step % self.every == 0:
            self._logits = main_output(result).detach()

    @torch.no_grad()
    def _hold(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.step % self.every == 0:
            self._before = [p.detach().clone() for part in self._parts for p in part.parameters]

    @torch.no_grad()
    def _sample(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._before is not None:
            held = iter(self._before)
            changes = [[next(held).sub_(p.detach()) for p in part.parameters] for part in self._parts]
            self._before = None
            self.last = tuple([*self._updates(changes), *self._outputs(), *self._rates()])
            if not _elsewhere():
                self._sink(self.last)
            if self._plan is not None and self._checks:
                self._plan.guard(self.optimizer)
        self.step += 1

    def _updates(self, changes: list[list[torch.Tensor]]) -> list[Sample]:
        norms = [whole(torch.linalg.vector_norm(torch.stack(_norms(part)))) for part in changes]
        values = torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()
        found = []
        for part, norm in zip(self._parts, values, strict=True):
            unit, absolute = self._unit(part)
            size = norm / sum(p.numel() for p in part.parameters) ** 0.5
            role = self._rows[part.first].role if self._rows else ""
            found.append(self._compared(UPDATE, part.name, role, size, unit, 1.0 if absolute else nan))
        return found

    def _outputs(self) -> list[Sample]:
        if self._logits is None:
            return []
        size = float(whole(torch.linalg.vector_norm(self._logits.float()))) / self._logits.numel() ** 0.5
        self._logits = None
        return [self._compared(LOGITS, LOGITS, "", size, 1.0, nan)]

    def _rates(self) -> list[Sample]:
        found = []
        for group in self.optimizer.param_groups:
            name = next((part.first for part in self._parts if part.group is group), "")
            planned = nan if self._plan is None or not name else self._rate(name)
            found.append(Sample(self.step, RATE, name, "", float(group["lr"]), planned, planned))
        return found

    def _rate(self, name: str) -> float:
        """Return a parameter's planned learning rate now: the median of what the groups say of the base's, scaled."""
        base = [float(part.group["lr"]) / self._rows[part.first].lr_mult for part in self._parts]
        return median(base) * self._rows[name].lr_mult

    def _unit(self, part: Part) -> tuple[float, bool]:
        """Return the planned size of a parameter's steps, and whether it is one without a base to compare with."""
        optimizer = name_of(self.optimizer)
        kind = next((kind for kind, members in FAMILIES.items() if optimizer in members), None)
        if kind is None:
            kind = "entrywise" if self._plan is None else family(self._plan.optimizer)
        rate = float(part.group["lr"]) if self._plan is None else self._rate(part.first)
        if kind == "spectral":
            rows, columns = part.parameters[0].shape[
                -2:
            ]  # of one matrix of a stack; parts of fused ones are a little larger
            return rate * own_scale(optimizer, columns, rows) / max(rows, columns) ** 0.5, True
        if kind == "sgd" and self._plan is not None:
            rule = self._plan.parametrization
            return (nan if rule.eps == Powers() else rate * gradient(self._rows[part.first], rule)), False
        return rate, kind == "entrywise"

    def _compared(self, what: str, name: str, role: str, measured: float, unit: float, alone: float) -> Sample:
        share = self._base.get((self.step, what, name), nan) if self._base else alone
        return Sample(self.step, what, name, role, measured, unit, share * unit)


@dataclass(frozen=True)
class Part:
    """Parameters of one name, blocks pooled, in one group of an optimizer."""

    name: str
    first: str
    group: Mapping[str, Any]
    parameters: tuple[torch.Tensor, ...]


def watch(
    model: nn.Module, optimizer: torch.optim.Optimizer, every: int = 100, to: Any = "watch.csv", start: int = 0
) -> RunWatch:
    """Watch a run without a plan, as the base's own, to compare a watched run of the target with.

    Args:
        model: of the run.
        optimizer: whose steps are watched.
        every: number of steps from one sample to the next.
        to: as in `RunWatch`.
        start: number of the first step.
    """
    return RunWatch(optimizer, every, to, model, start=start)


def _sizes(samples: list[Sample]) -> dict[tuple[int, str, str], float]:
    return {(s.step, s.what, s.name): s.measured / s.unit for s in samples if not isnan(s.unit) and s.unit}


def _parts(optimizer: torch.optim.Optimizer, model: nn.Module | None) -> list[Part]:
    known = {} if model is None else {id(p): bare(name) for name, p in model.named_parameters()}
    held: dict[str, tuple[Any, torch.Tensor]] = {}
    for group in optimizer.param_groups:
        names = group.get("param_names") or [known.get(id(p), "") for p in group["params"]]
        if not all(names):
            why = "the optimizer's groups carry no parameter names"
            raise InputError("watch", why, "make the optimizer from plan.param_groups, or pass model=")
        held |= {bare(name): (group, p) for name, p in zip(names, group["params"], strict=True)}
    found = []
    for label, names in pooled({name: tuple(p.shape) for name, (_, p) in held.items()}).items():
        for group in optimizer.param_groups:
            own = [name for name in names if held[name][0] is group]
            if own:
                found.append(Part(label, own[0], group, tuple(held[name][1] for name in own)))
    return found


def _norms(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [whole(torch.linalg.vector_norm(p, dtype=torch.float32)) for p in parameters]


def _elsewhere() -> bool:
    """Say whether another process of a distributed run writes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_rank() != 0
