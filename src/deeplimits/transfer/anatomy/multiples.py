"""Products of activations with numbers, as a forward pass makes them: what follows the width among them is a factor."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.inputs import call
from deeplimits.transfer.anatomy.operations import OVER, TIMES
from deeplimits.transfer.anatomy.uses import Watch

ALIKE = 1e-3
"""Up to which relative difference two numbers are equal."""
_FAILURES = (InputError, RuntimeError, ValueError, TypeError)


@dataclass(frozen=True)
class Scaled:
    """An activation that is multiplied with a number.

    Attributes:
        number: that it is multiplied with, or one over what it is divided by.
        size: root mean square of the result; the number's own where a parameter is multiplied with it.
        used: how many parameters were used before.
    """

    number: float
    size: float
    used: int


class Numbers(TorchFunctionMode):
    """Records the products of activations with numbers, in the order of the forward pass.

    Args:
        watch: of the same forward pass.
        changed: {place of a product: number that its result is multiplied with}.
    """

    def __init__(self, watch: Watch, changed: Mapping[int, float] | None = None):
        super().__init__()
        self.watch, self.changed = watch, changed or {}
        self.found: list[Scaled] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        number = _number(function, args)
        used = len(self.watch.order)
        result = function(*args, **(kwargs or {}))
        if number is not None and result.is_floating_point():
            if len(self.found) in self.changed:
                result.mul_(self.changed[len(self.found)])
            owned = any(self.watch.owns(value) for value in args[:2])
            size = abs(number) if owned else float(result.double().square().mean().sqrt())
            self.found.append(Scaled(number, size, used))
        return result


def numbers(model: nn.Module, inputs: Any, changed: Mapping[int, float] | None = None) -> list[Scaled]:
    """Return the products of activations with numbers in one forward pass.

    Args:
        model: with values; left as it was.
        inputs: what it takes.
        changed: {place of a product: number that its result is multiplied with}.
    """
    with torch.no_grad(), Watch(model) as watch, Numbers(watch, changed) as seen:
        call(model, inputs)
    return seen.found


def differing(small: nn.Module, large: nn.Module, inputs: Any) -> list[int] | None:
    """Return the places of products whose number differs; None where the forward passes are not alike.

    Args:
        small: a model with values.
        large: one of another width.
        inputs: what both take.
    """
    try:
        old, new = (numbers(copy.deepcopy(model).eval(), inputs) for model in (small, large))
    except _FAILURES:
        return None
    return _places(old, new)


def _number(function: Any, args: Any) -> float | None:
    """Return the number that an activation is multiplied with, if that is what happens."""
    if function not in TIMES | OVER or len(args) < 2:
        return None
    single = [not isinstance(x, torch.Tensor) or (x.numel() == 1 and x.dim() < 2) for x in args[:2]]
    if single.count(True) != 1 or (function in OVER and not single[1]):
        return None
    other = args[single.index(True)]
    if isinstance(other, nn.Parameter) or (isinstance(other, torch.Tensor) and other.is_meta):
        return None
    value = float(other)
    if not value:
        return None
    return 1 / value if function in OVER else value


def _places(old: Sequence[Scaled], new: Sequence[Scaled]) -> list[int] | None:
    if [entry.used for entry in old] != [entry.used for entry in new]:
        return None
    pairs = enumerate(zip(old, new, strict=True))
    return [n for n, (a, b) in pairs if abs(a.number - b.number) > ALIKE * abs(a.number)]
