"""A copy of a model whose parameters are moved, to see what depends on them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call, main_output
from deeplimits.transfer.anatomy.uses import LINEAR, RIGHT, Watch

PRECISIONS = (torch.float64, torch.float32)
TOLERANCE = 1e-5  # norms often compute in float32 whatever their input
_SHAKE = 0.05
_PRODUCTS = LINEAR | RIGHT | {torch.einsum, torch.functional.einsum}


class Trial:
    """A copy of a model whose parameters are moved, and what comes out.

    Args:
        model: with real values; computed in float64 where its operations exist there, and left as it was.
        inputs: what the model takes.
        seed: of the shake that moves parameters away from zero.

    Attributes:
        model: the copy, its parameters shaken away from zero.
        own: {name: parameter}.
        null: {name: value that switches the parameter off}: -1 for gains that a norm reads as 1 + w, else 0.
        order: names in the order of the forward pass.

    Raises:
        InputError: the forward pass fails.
    """

    def __init__(self, model: nn.Module, inputs: Any, seed: int):
        self.inputs = inputs
        for dtype in PRECISIONS:
            self.dtype, self.model = dtype, _shaken(model, dtype, seed)
            try:
                with torch.no_grad(), Watch(self.model) as watch:
                    call(self.model, inputs)
                break
            except (RuntimeError, ValueError, TypeError) as error:  # some operations exist in float32 only
                if dtype == PRECISIONS[-1]:
                    why = f"the forward pass fails on the inputs that were tried ({type(error).__name__}: {error})"
                    raise InputError("transfer", why, "pass inputs=, as for model(inputs)") from error
        self.own = dict(self.model.named_parameters())
        self.null = dict.fromkeys(self.own, 0.0) | self._shifted(
            {name for name, p in model.named_parameters() if p.dim() < 2 and not bool(p.any())}
        )
        self.order = [*watch.order, *(name for name in self.own if name not in watch.order)]

    def _shifted(self, zeros: set[str]) -> dict[str, float]:
        """Return {gain: -1} for gains that start from 0 and are read as 1 + w: their module gives 0 at -1, not at 0."""
        found, handles = {}, []

        def look(own: set[str], module: nn.Module, args: Any, kwargs: Any) -> None:
            for name in own:
                given = []
                for value in (0.0, -1.0):
                    with self.set({**dict.fromkeys(own, 0.0), name: value}):
                        given.append(main_output(module.forward(*args, **kwargs)))
                if all(isinstance(x, torch.Tensor) for x in given) and given[0].any() and not given[1].any():
                    found[name] = -1.0

        for path, module in self.model.named_modules():
            own = {name for name in zeros if name.rpartition(".")[0] == path}
            if own and not [*module.children()] and not type(module).__module__.startswith("torch.nn"):
                handle = module.register_forward_pre_hook(lambda m, a, k, own=own: look(own, m, a, k), with_kwargs=True)
                handles.append(handle)
        if handles:
            self.output()
        for handle in handles:
            handle.remove()
        return found

    def output(self) -> torch.Tensor:
        """Return what the model gives."""
        with torch.no_grad():
            return call(self.model, self.inputs)

    def readout(self, tables: Iterable[str]) -> torch.Tensor:
        """Return what the tied tables give as readouts, before anything is done with it; else what the model gives."""
        with torch.no_grad(), Readouts(dict.fromkeys((self.own[name] for name in tables), 1.0)) as seen:
            output = call(self.model, self.inputs)
        return output if seen.result is None else seen.result

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

    @staticmethod
    @contextmanager
    def held(module: nn.Module, attribute: str, value: float):
        """Hold a number of a module at a value."""
        own = getattr(module, attribute)
        setattr(module, attribute, value)
        try:
            yield
        finally:
            setattr(module, attribute, own)

    def twice(self, name: str) -> torch.Tensor:
        """Return a parameter twice as far from where it is off."""
        return 2 * self.own[name] - self.null[name]

    @staticmethod
    def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
        """Say whether two outputs agree to the precision of the trial."""
        return bool((a - b).abs().max() <= TOLERANCE * max(float(b.abs().max()), 1e-300))

    @staticmethod
    def still(change: torch.Tensor) -> bool:
        """Say whether a change is zero to the precision of the trial."""
        return bool(change.abs().max() <= TOLERANCE)


class Readouts(TorchFunctionMode):
    """Multiplies what tables give as readouts, and keeps the last of it.

    Args:
        tables: {table: number that its products with activations are multiplied with}.
    """

    def __init__(self, tables: Mapping[nn.Parameter, float]):
        super().__init__()
        self.tables, self.result = tables, None

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in _PRODUCTS:
            given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
            for table, factor in self.tables.items():
                if any(value is table or value._base is table for value in given):
                    self.result = result = factor * result
        return result


def _shaken(model: nn.Module, dtype: torch.dtype, seed: int) -> nn.Module:
    twin = copy.deepcopy(model).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in twin.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=dtype)
            size = parameter.square().mean().sqrt() if parameter.any() else 1.0
            parameter.add_(_SHAKE * size * noise)
    return twin
