"""Residual branches, found by setting parameters to zero and proved by their linearity."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.inputs import call
from deeplimits.transfer.names import bare
from deeplimits.transfer.uses import Watch

PRECISIONS = (torch.float64, torch.float32)
TOLERANCE = 1e-5  # norms often compute in float32 whatever their input
_SHAKE = 0.05

Ends = dict[str, float]
"""{name: the value at which the parameter switches its branch off}: 0, or -1 for gains that a norm reads as 1 + w."""


def outputs(model: nn.Module, blocks: Iterable[str], inputs: Any, seed: int = 0) -> Ends:
    """Return the parameters that the residual branches are linear in.

    In every block: the smallest set of parameters, taken in the order of the forward pass,
    whose zero makes the block the identity; each is then proved: with the others at zero, twice the parameter gives
    twice the branch.

    Args:
        model: the base, with real values; computed in float64 where its operations exist there, and left as it was.
        blocks: names of the blocks, as "model.layers.3".
        inputs: what the model takes.
        seed: of the shake that moves parameters away from zero.

    Raises:
        InputError: a block without an identity path, or a branch that is not linear in what ends it.
    """
    trial = Trial(model, inputs, seed)
    found: Ends = {}
    for head in blocks:
        block = trial.model.get_submodule(head)
        members = trial.smallest(block, head)
        trial.prove(block, head, members)
        found |= {bare(name): trial.null[name] for name in members}
    return found


def last_gains(model: nn.Module, tables: Iterable[str], inputs: Any, seed: int = 0) -> Ends:
    """Return the gains and biases, after all matrices, that a tied readout's input is linear in.

    Args:
        model: the base, with real values.
        tables: names of the tied tables.
        inputs: what the model takes.
        seed: of the shake that moves parameters away from zero.

    Raises:
        InputError: the readout's input is not linear in any such parameter.
    """
    trial = Trial(model, inputs, seed)
    own, order, tables = trial.own, trial.order, set(tables)
    last = max((n for n, name in enumerate(order) if own[name].dim() > 1 and name not in tables), default=-1)
    names = [name for name in order[last + 1 :] if own[name].dim() == 1 and name not in tables]
    once = trial.output()
    for name in list(names):  # early ones are set free while the others keep the readout silent
        rest = [other for other in names if other != name]
        with trial.set({other: trial.null[other] for other in rest}):
            if rest and not bool(trial.output().any()):
                names = rest
    with trial.set({name: trial.null[name] for name in names}):
        silent = names and not bool(trial.output().any())
    with trial.set({name: 2 * own[name] - trial.null[name] for name in names}):
        twice = trial.output()
    if not silent or not trial.equal(twice, 2 * once):
        why = f"the readout is tied to {', '.join(sorted(tables))}, and no norm before it can carry its factor 1/width"
        raise InputError("transfer", why, "untie the readout, or end the model in a norm with a gain")
    return {bare(name): trial.null[name] for name in names}


class Trial:
    """A copy of a model whose parameters are moved, and what comes out.

    Attributes:
        model: the copy, its parameters shaken away from zero.
        own: {name: parameter}.
        null: {name: value that switches the parameter off}.
        order: names in the order of the forward pass.
    """

    def __init__(self, model: nn.Module, inputs: Any, seed: int):
        self.inputs, self.null = inputs, _nulls(model)
        for dtype in PRECISIONS:
            self.model = _shaken(model, dtype, seed)
            try:
                with torch.no_grad(), Watch(self.model) as watch:
                    call(self.model, inputs)
                break
            except RuntimeError:  # some operations exist in float32 only
                if dtype == PRECISIONS[-1]:
                    raise
        self.own = dict(self.model.named_parameters())
        self.order = [*watch.order, *(name for name in self.own if name not in watch.order)]

    def output(self) -> torch.Tensor:
        """Return what the model gives."""
        with torch.no_grad():
            return call(self.model, self.inputs)

    def branch(self, block: nn.Module) -> torch.Tensor:
        """Return what a block adds to its input."""
        seen: list[torch.Tensor] = []

        def keep(module: nn.Module, given: Any, named: Any, result: Any) -> None:
            first = given[0] if given else next(v for v in named.values() if isinstance(v, torch.Tensor))
            last = result[0] if isinstance(result, tuple | list) else result
            seen.append(last - first if last.shape == first.shape else torch.full((1,), torch.nan))

        handle = block.register_forward_hook(keep, with_kwargs=True)
        try:
            self.output()
        finally:
            handle.remove()
        return seen[0]

    @contextmanager
    def set(self, values: Mapping[str, Any]):
        """Hold parameters at values."""
        kept = {name: self.own[name].detach().clone() for name in values}
        with torch.no_grad():
            for name, value in values.items():
                self.own[name].copy_(torch.as_tensor(value))
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in kept.items():
                    self.own[name].copy_(value)

    def smallest(self, block: nn.Module, head: str) -> list[str]:
        """Return the parameters that must be off for the block to be the identity, early ones set free first."""
        names = [name for name in self.order if name.startswith(f"{head}.")]
        held = {name: self.null[name] for name in names}
        with self.set(held):
            if not self._still(self.branch(block)):
                why = f"{head} is not the identity at zero parameters: its stream passes a norm or layer"
                fix = "use a rule for width only at equal depth, or put the norm inside the branch (pre-norm)"
                raise InputError("transfer", why, fix)
        for name in names:
            rest = {other: value for other, value in held.items() if other != name}
            with self.set(rest):
                if self._still(self.branch(block)):
                    held = rest
        return list(held)

    def prove(self, block: nn.Module, head: str, members: list[str]) -> None:
        """Check that the branch is linear in each member while the others are off."""
        for name in members:
            with self.set({other: self.null[other] for other in members if other != name}):
                once = self.branch(block)
                with self.set({name: 2 * self.own[name] - self.null[name]}):
                    twice = self.branch(block)
            if not self.equal(twice, 2 * once):
                why = f"the branch of {head} is not linear in {name}, which ends it"
                fix = "scale the branch in the model's own code, h + depth**-alpha * branch(h), or use a rule for width"
                raise InputError("transfer", why, fix)

    @staticmethod
    def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
        """Say whether two outputs agree to the precision of the trial."""
        return bool((a - b).abs().max() <= TOLERANCE * max(float(b.abs().max()), 1e-300))

    @staticmethod
    def _still(change: torch.Tensor) -> bool:
        return bool(change.abs().max() <= TOLERANCE)


def _shaken(model: nn.Module, dtype: torch.dtype, seed: int) -> nn.Module:
    twin = copy.deepcopy(model).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            size = parameter.square().mean().sqrt() if parameter.any() else 1.0
            parameter.add_(_SHAKE * size * noise)
    return twin


def _nulls(model: nn.Module) -> Ends:
    """Gains of norms that start from 0 are read as 1 + w, and are off at -1."""
    found = {}
    for name, parameter in model.named_parameters():
        owner, _, attribute = name.rpartition(".")
        norm = "norm" in type(model.get_submodule(owner)).__name__.lower()
        found[name] = -1.0 if norm and attribute == "weight" and not bool(parameter.any()) else 0.0
    return found
