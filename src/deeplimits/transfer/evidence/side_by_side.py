"""Many runs of one model side by side: every learning rate and seed in one batched computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from deeplimits.errors import InputError
from deeplimits.numerics.seeds import generator
from deeplimits.transfer.anatomy.initial import materialised
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.steps.optimizer import base_groups

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Training:
    """How every run is trained.

    Attributes:
        steps: of the optimizer.
        batch: rows of a step, drawn for each seed without putting back; None: all rows.
        warmup: steps over which the learning rate rises linearly.
        decays: whether it then falls linearly, to zero after the last step.
        optimizer: "adam" or "sgd".
        betas: Adam's.
        eps: Adam's, of the base.
        momentum: SGD's.
    """

    steps: int
    batch: int | None = None
    warmup: int = 0
    decays: bool = True
    optimizer: str = "adam"
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-15
    momentum: float = 0.0

    def schedule(self, step: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0.

        Example:
            >>> [Training(steps=6, warmup=2).schedule(t) for t in range(6)]
            [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        return (self.steps - step) / (self.steps - self.warmup) if self.decays else 1.0


@dataclass(frozen=True)
class Runs:
    """Trained models.

    Attributes:
        model: one of them, whose parameters do not matter.
        parameters: {name: values, shape (learning rates, seeds, *shape)}.
        start: {name: values before training, shape (seeds, *shape)}.
    """

    model: nn.Module
    parameters: Mapping[str, torch.Tensor]
    start: Mapping[str, torch.Tensor]

    def each(self, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        """Return function(model, *inputs) of every run, shape (learning rates, seeds, ...)."""
        flat = {name: value.flatten(0, 1) for name, value in self.parameters.items()}
        with torch.no_grad():
            found = _every(self.model, function, flat, inputs)
        return found.unflatten(0, next(iter(self.parameters.values())).shape[:2])

    def measure(self, function: Callable[..., torch.Tensor], *inputs: torch.Tensor, rows: int = 256) -> np.ndarray:
        """Return function(model, *inputs), a mean over rows, for every run, shape (learning rates, seeds, ...).

        Args:
            function: of a model and its inputs.
            inputs: the same for all runs; rows first.
            rows: at a time.
        """
        count, total = len(inputs[0]), torch.zeros(())
        for start in range(0, count, rows):
            part = [x[start : start + rows] for x in inputs]
            total = total + self.each(function, *part) * (len(part[0]) / count)
        return total.double().numpy()

    def losses(self, loss: Loss, *inputs: torch.Tensor) -> np.ndarray:
        """Return the loss of every run on all rows, shape (learning rates, seeds); infinite where a run diverged."""
        found = self.measure(loss, *inputs)
        return np.where(np.isfinite(found), found, np.inf)


def side_by_side(
    build: Callable[..., nn.Module],
    size: Mapping[str, int],
    plan: Plan | None,
    lrs: Sequence[float],
    seeds: Sequence[int],
    loss: Loss,
    data: Sequence[torch.Tensor],
    training: Training,
) -> Runs:
    """Train one model from every seed at every learning rate of the base, all at once.

    Runs of one seed share their initial values and their batches. Each run does what the model alone would do under
    `plan.param_groups`: initial values, learning rate and epsilon of every parameter come from the plan's rows.

    Args:
        build: makes the model from its sizes.
        size: of the model.
        plan: from the base to this size; None for the base itself.
        lrs: learning rates of the base.
        seeds: of initial values and batches.
        loss: loss(model, *batch), a mean over rows.
        data: tensors of equally many rows; parameters take the first one's type.
        training: steps, batch, schedule and optimizer.

    Valid when: the forward pass changes no buffers, draws no random numbers and does not branch on values; no weight
    decay.

    Raises:
        InputError: an optimizer other than Adam and SGD, learning rates that are not above zero, or no seeds.

    Source: definition.

    Example:
        >>> from deeplimits.transfer.make import transfer
        >>> build = lambda width: nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 1))
        >>> plan = transfer(build, dict(width=32), dict(width=64), "mup", "adam")
        >>> square = lambda model, x, y: (model(x) - y).square().mean()
        >>> x = torch.linspace(-1, 1, 16).reshape(8, 2)
        >>> data = (x, x[:, :1])
        >>> runs = side_by_side(build, dict(width=64), plan, [1e-3, 1e-2], [0, 1, 2], square, data, Training(5))
        >>> runs.losses(square, *data).shape
        (2, 3)
    """
    _check(lrs, seeds, training)
    model, start = _start(build, size, plan, seeds)
    kind = data[0].dtype if data[0].is_floating_point() else torch.get_default_dtype()
    values = {name: v.to(kind).repeat(len(lrs), *[1] * (v.dim() - 1)).requires_grad_() for name, v in start.items()}
    rates = torch.tensor(lrs, dtype=kind).repeat_interleave(len(seeds))
    optimizer = _optimizer(values, _numbers(model, plan, training.eps), rates, training)
    draws = [generator(seed, "side by side") for seed in seeds]
    for step in range(training.steps):
        rows = _rows(draws, len(data[0]), training.batch)
        batch = data if rows is None else [x[rows].repeat(len(lrs), *[1] * x.dim()) for x in data]
        total = _every(model, loss, values, batch, apart=rows is not None).sum()
        gradients = torch.autograd.grad(total, list(values.values()))
        with torch.no_grad():
            optimizer(step, gradients)
    shape = len(lrs), len(seeds)
    return Runs(model, {name: v.detach().unflatten(0, shape) for name, v in values.items()}, start)


class _Call(nn.Module):
    """A function of a model, as a module."""

    def __init__(self, model: nn.Module, function: Callable[..., torch.Tensor]):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the function's value."""
        return self.function(self.model, *inputs)


def _every(
    model: nn.Module, function: Loss, parameters: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor],
    apart: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return function(model, *inputs) of every run; `apart`: the inputs of each run stand in their first dimension."""
    module = _Call(model, function)
    names = {f"model.{name}": value for name, value in parameters.items()}

    def one(own: dict[str, torch.Tensor], *given: torch.Tensor) -> torch.Tensor:
        return functional_call(module, own, given)

    return vmap(one, in_dims=(0, *[0 if apart else None] * len(inputs)))(names, *inputs)


def _check(lrs: Sequence[float], seeds: Sequence[int], training: Training) -> None:
    bad = [lr for lr in lrs if not (isfinite(lr) and lr > 0)]
    if bad or not lrs or not seeds:
        why = f"lrs={list(lrs)}, seeds={list(seeds)}"
        raise InputError("side_by_side", why, "give learning rates above zero, and at least one seed")
    if training.optimizer not in ("adam", "sgd"):
        why = f"optimizer={training.optimizer!r} cannot run side by side"
        raise InputError("side_by_side", why, "use 'adam' or 'sgd', or lr_transfer, which takes any optimizer")


def _start(
    build: Callable[..., nn.Module], size: Mapping[str, int], plan: Plan | None, seeds: Sequence[int]
) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    models = [materialised(build, size, seed) for seed in seeds]
    for model in models:
        if plan is not None:
            plan.apply(model, initial=True)
    held = [dict(model.named_parameters()) for model in models]
    return models[0], {name: torch.stack([own[name].detach() for own in held]) for name in held[0]}


def _numbers(model: nn.Module, plan: Plan | None, eps: float) -> dict[str, tuple[float, float]]:
    """Return {name: (factor of the learning rate, epsilon)}."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = base_groups(model, 1.0) if plan is None else plan.param_groups(model, lr=1.0, eps=eps)
    return {names[id(p)]: (group["lr"], group.get("eps", eps)) for group in groups for p in group["params"]}


def _rows(draws: Sequence[np.random.Generator], count: int, batch: int | None) -> torch.Tensor | None:
    if batch is None:
        return None
    return torch.from_numpy(np.stack([draw.choice(count, batch, replace=False) for draw in draws]))


def _optimizer(
    values: Mapping[str, torch.Tensor], numbers: Mapping[str, tuple[float, float]], rates: torch.Tensor,
    training: Training,
) -> Callable[[int, Sequence[torch.Tensor]], None]:  # fmt: skip
    """Return update(step, gradients), which changes the values of all runs in place."""
    first = [torch.zeros_like(value) for value in values.values()]
    second = [torch.zeros_like(value) for value in values.values()] if training.optimizer == "adam" else first
    beta, gamma = training.betas

    def update(step: int, gradients: Sequence[torch.Tensor]) -> None:
        scheduled = rates * training.schedule(step)
        for (name, value), gradient, m, v in zip(values.items(), gradients, first, second, strict=True):
            factor, eps = numbers[name]
            rate = (factor * scheduled).reshape(-1, *[1] * (value.dim() - 1))
            if training.optimizer == "sgd":
                m.mul_(training.momentum).add_(gradient)
                value -= rate * m
            else:
                m.lerp_(gradient, 1 - beta)
                v.mul_(gamma).addcmul_(gradient, gradient, value=1 - gamma)
                size = (v / (1 - gamma ** (step + 1))).sqrt_().add_(eps)
                value -= rate / (1 - beta ** (step + 1)) * m / size

    return update
