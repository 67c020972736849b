"""Residual branches, found by setting parameters to zero and proved by their linearity."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.inputs import call
from deeplimits.transfer.names import bare
from deeplimits.transfer.uses import Watch

TOLERANCE = 1e-9
_SHAKE = 0.05


def outputs(model: nn.Module, prefixes: Iterable[str], inputs: Any, seed: int = 0) -> set[str]:
    """Return the names of the parameters that the residual branches are linear in.

    In every block of the stacks `prefixes`: the smallest set of parameters, taken in the order of the forward pass,
    whose zero makes the block the identity; each is then proved: with the others at zero, twice the parameter gives
    twice the branch.

    Args:
        model: the base, with real values; computed in float64 and left as it was.
        prefixes: lists of blocks, as "model.layers".
        inputs: what the model takes.
        seed: of the shake that moves parameters away from zero.

    Raises:
        InputError: a block without an identity path, or a branch that is not linear in what ends it.
    """
    twin = _shaken(model, seed)
    with torch.no_grad(), Watch(twin) as watch:
        call(twin, inputs)
    order = {name: place for place, name in enumerate(watch.order)}
    found: set[str] = set()
    for prefix in prefixes:
        for place, block in enumerate(twin.get_submodule(prefix)):  # type: ignore[arg-type]
            head = f"{prefix}.{place}"
            own = {f"{head}.{name}": p for name, p in block.named_parameters()}
            names = sorted(own, key=lambda name: order.get(name, len(order)))
            trial = _Trial(twin, block, head, inputs)
            members = trial.smallest(names, own)
            trial.prove(members, own)
            found |= {bare(name) for name in members}
    return found


def last_gains(model: nn.Module, tables: Iterable[str], inputs: Any, seed: int = 0) -> set[str]:
    """Return the names of the gains and biases, after all matrices, that a tied readout's input is linear in.

    Args:
        model: the base, with real values.
        tables: names of the tied tables.
        inputs: what the model takes.
        seed: of the shake that moves parameters away from zero.

    Raises:
        InputError: the readout's input is not linear in any such parameter.
    """
    twin = _shaken(model, seed)
    with torch.no_grad(), Watch(twin) as watch:
        call(twin, inputs)
    own = dict(twin.named_parameters())
    last = max((n for n, name in enumerate(watch.order) if own[name].dim() > 1 and name not in tables), default=-1)
    names = [name for name in watch.order[last + 1 :] if own[name].dim() == 1 and name not in tables]
    trial = _Trial(twin, twin, "the model", inputs)
    with trial.zero(own[name] for name in names), torch.no_grad():
        silent = names and not bool(call(twin, inputs).any())
    if not silent:
        why = (
            f"the readout is tied to {', '.join(sorted(tables))} and no norm before it can carry its multiplier 1/width"
        )
        raise InputError("transfer", why, "untie the readout, or end the model in a norm with a gain")
    with torch.no_grad():
        once = call(twin, inputs)
        for name in names:
            own[name].mul_(2)
        twice = call(twin, inputs)
    if not float((twice - 2 * once).abs().max()) <= TOLERANCE * float(once.abs().max()):
        why = f"the tied readout is not linear in {', '.join(names)}"
        raise InputError("transfer", why, "untie the readout, or end the model in a norm with a gain")
    return {bare(name) for name in names}


def _shaken(model: nn.Module, seed: int) -> nn.Module:
    import copy

    twin = copy.deepcopy(model).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            size = parameter.square().mean().sqrt() if parameter.any() else 1.0
            parameter.add_(_SHAKE * size * noise)
    return twin


class _Trial:
    """A block of a model, whose input and output are seen while its parameters are set to zero."""

    def __init__(self, model: nn.Module, block: nn.Module, name: str, inputs: Any):
        self.model, self.block, self.name, self.inputs = model, block, name, inputs

    def branch(self) -> torch.Tensor:
        """Return what the block adds to its input."""
        seen: list[torch.Tensor] = []

        def keep(module: nn.Module, given: Any, named: Any, result: Any) -> None:
            first = given[0] if given else next(v for v in named.values() if isinstance(v, torch.Tensor))
            last = result[0] if isinstance(result, tuple | list) else result
            seen.append(last - first if last.shape == first.shape else torch.full((1,), torch.nan))

        handle = self.block.register_forward_hook(keep, with_kwargs=True)
        try:
            with torch.no_grad():
                call(self.model, self.inputs)
        finally:
            handle.remove()
        return seen[0]

    @contextmanager
    def zero(self, parameters: Iterable[nn.Parameter]):
        """Hold parameters at zero."""
        kept = [(p, p.detach().clone()) for p in parameters]
        with torch.no_grad():
            for p, _ in kept:
                p.zero_()
        try:
            yield
        finally:
            with torch.no_grad():
                for p, value in kept:
                    p.copy_(value)

    def smallest(self, names: list[str], own: dict[str, nn.Parameter]) -> list[str]:
        """Return the parameters that must be zero for the block to be the identity, early ones set free first."""
        held = list(names)
        with self.zero(own.values()):
            if not self._still(self.branch()):
                why = f"{self.name} is not the identity at zero parameters: its stream passes a norm or layer"
                fix = "use a rule for width only at equal depth, or put the norm inside the branch (pre-norm)"
                raise InputError("transfer", why, fix)
        for name in names:
            rest = [other for other in held if other != name]
            with self.zero(own[other] for other in rest):
                if self._still(self.branch()):
                    held = rest
        return held

    def prove(self, members: list[str], own: dict[str, nn.Parameter]) -> None:
        """Check that the branch is linear in each member while the others are zero."""
        for name in members:
            with self.zero(own[other] for other in members if other != name):
                once = self.branch()
                with torch.no_grad():
                    own[name].mul_(2)
                twice = self.branch()
                with torch.no_grad():
                    own[name].div_(2)
            if not float((twice - 2 * once).abs().max()) <= TOLERANCE * max(float(once.abs().max()), 1e-300):
                why = f"the branch of {self.name} is not linear in {name}, which ends it"
                fix = "scale the branch in the model's own code, h + depth**-alpha * branch(h), or use a rule for width"
                raise InputError("transfer", why, fix)

    @staticmethod
    def _still(change: torch.Tensor) -> bool:
        return bool(change.abs().max() <= TOLERANCE)
