"""How a forward pass uses each parameter: what it is summed over, seen from the operations themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from deeplimits.transfer.anatomy.derived import Axes, Derived
from deeplimits.transfer.anatomy.operations import (
    ATTENTION,
    CARRIED,
    CONVOLUTIONS,
    DOTS,
    EINSUM,
    LINEAR,
    LOOKUPS,
    OVER,
    PARTS,
    RIGHT,
    SHAPED,
    SHIFTED,
    SUMS,
    TIMES,
    TURNS,
    number,
)


@dataclass(frozen=True)
class Use:
    """What an operation does with a parameter.

    Attributes:
        contracted: dimensions that are summed over.
        written: dimensions that the output has.
    """

    contracted: tuple[int, ...]
    written: tuple[int, ...]


class Watch(TorchFunctionMode):
    """Records the first use of every parameter by a matrix product or a lookup, in the order of the forward pass.

    Attributes:
        uses: {name: Use} of the parameters used so; the others act entry by entry, or inside operations not known here.
        summed: {name: Use} of vectors in products, and of what acts entry by entry and is summed over afterwards.
        twice: names of tables that are looked up and, elsewhere, multiplied with: tied readouts.
        carried: names of those added to, multiplied with or put beside activations, or that are a layer's input.
        unclear: names of those combined with one another, so that it stays open what they are summed over.
        computed: {name: whether with others} of those that a layer's weight is computed from.
        sums: (name of the parameter used last, entries) for sums of activations that no parameter weighs.
        order: names of all parameters in the order of their first use.
        times: {name: how often all of it is multiplied with, convolved with or looked up}.
        running: the operation that was called last.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        own = list(model.named_parameters())
        self._axes: dict[int, tuple[str, Axes]] = {id(p): (name, tuple(range(p.dim()))) for name, p in own}
        self._entries = {name: p.numel() for name, p in own}
        self._vectors = {name for name, p in own if p.dim() < 2}
        self._kept: list[Any] = []
        self._derived = Derived()
        self.uses: dict[str, Use] = {}
        self.summed: dict[str, Use] = {}
        self.twice: set[str] = set()
        self.carried: set[str] = set()
        self.unclear: set[str] = set()
        self.computed: dict[str, bool] = {}
        self.sums: list[tuple[str, int]] = []
        self.order: list[str] = []
        self.times: dict[str, int] = {}
        self.running = ""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.running = getattr(function, "__name__", str(function))
        given = enumerate([*args, *kwargs.values()])
        known = {place: self._axes.get(id(value)) for place, value in given if isinstance(value, torch.Tensor)}
        found = {place: entry for place, entry in known.items() if entry is not None}
        asked = self.running == "__get__" and function not in TURNS  # sizes, devices and the like
        if not asked:
            self._use(function, args, kwargs, found)
        result = function(*args, **kwargs)
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and id(first) in self._axes:
            self._follow(function, first, args, kwargs, result)
        if not asked and isinstance(result, torch.Tensor) and id(result) not in self._axes:
            self._derived.follow(function, args, kwargs, self._axes, result)
        return result

    def _use(self, function: Any, args: Any, kwargs: Any, found: dict[int, tuple[str, Axes]]) -> None:
        """Record what an operation does with the parameters that it is given."""
        for place, (name, axes) in found.items():
            use = _use(function, place, args, axes)
            self._note(name, use)
            whole = [*args, *kwargs.values()][place].numel() == self._entries[name]
            if whole and (use is not None or function in CONVOLUTIONS):
                self.times[name] = self.times.get(name, 0) + 1
        self.order += [name for name in sorted(self._listed(args)) if name not in self.order]
        names = {name for name, axes in found.values() if sum(axis is not None for axis in axes) > 1}
        if function in LINEAR | ATTENTION:  # inputs that are learned, as the queries of a Perceiver
            inputs = args[:1] if function in LINEAR else args
            learned = set().union(*(self._derived.parameters(x, self._axes) for x in inputs))
            self.carried |= learned
            names -= learned
        if function in CARRIED | RIGHT | LINEAR and len(names) > 1:
            self.unclear |= names
        if function in CARRIED:
            self.carried |= names | self._listed(args)
        of = self._derived.weight(function, args, self._axes)
        self.computed |= {name: self.computed.get(name, False) or len(of) > 1 for name in of}
        if function in SUMS:
            made = self._derived.sum(args, kwargs)
            self.summed = {name: Use(*dimensions) for name, dimensions in made.of.items()} | self.summed
            self.sums += [] if made.weighed else [(self.order[-1] if self.order else "", made.size)]

    def owns(self, value: Any) -> bool:
        """Say whether this is a parameter, or a part of one."""
        return id(value) in self._axes

    def _listed(self, args: Any) -> set[str]:
        lists = [values for values in args if isinstance(values, tuple | list)]
        return {self._axes[id(value)][0] for values in lists for value in values if id(value) in self._axes}

    def _note(self, name: str, use: Use | None) -> None:
        if name not in self.order:
            self.order.append(name)
        if use is not None and name in self._vectors:
            self.summed.setdefault(name, use)
        elif use is not None and bool(self.uses.setdefault(name, use).contracted) != bool(use.contracted):
            self.twice.add(name)

    def _follow(self, function: Any, source: torch.Tensor, args: Any, kwargs: Any, result: Any) -> None:
        name, axes = self._axes[id(source)]
        if function in TURNS:
            order = function(torch.empty(tuple(range(2, 2 + source.dim())), device="meta"), *args[1:], **kwargs).shape
            axes = tuple(axes[size - 2] for size in order)
        elif function in TIMES | OVER:
            if len(args) < 2 or not number(args[1]) or self.owns(args[1]):
                return
        elif function not in PARTS | SHAPED:
            return
        for part in result if isinstance(result, tuple | list) else [result]:
            if not isinstance(part, torch.Tensor):
                continue
            kept = _shaped(source, axes, part) if function in SHAPED else None
            if kept is None and function in SHAPED - PARTS:
                continue
            self._kept.append(part)  # an id is only good while its tensor lives
            self._axes[id(part)] = name, axes[len(axes) - part.dim() :] if kept is None else kept


def _shaped(source: torch.Tensor, axes: Axes, part: torch.Tensor) -> Axes | None:
    """Return the dimensions of a view, told by their strides; None where it splits or merges some, or is no view."""
    if part._base is None or len(axes) != source.dim():
        return None
    whole = zip(source.shape, source.stride(), axes, strict=True)
    steps = {stride: (size, axis) for size, stride, axis in whole if size > 1}
    found = list(zip(part.shape, part.stride(), strict=True))
    if any(size > steps.get(stride, (1, None))[0] for size, stride in found):
        return None
    return tuple(steps[stride][1] if size > 1 else None for size, stride in found)


def _use(function: Any, place: int, args: Any, axes: Axes) -> Use | None:
    if function in LINEAR and place == 1:
        return _summing(axes[-1:], axes[:-1])
    if function in LOOKUPS and place == 1:
        return Use((), tuple(axis for axis in axes[-1:] if axis is not None))
    if function in RIGHT | SHIFTED:
        right = place == (2 if function in SHIFTED else 1)
        if function in SHIFTED and place == 0:
            return None
        if len(axes) < 2:
            return _summing(axes, ())
        return _summing(axes[-2:-1], axes[-1:]) if right else _summing(axes[-1:], axes[-2:-1])
    if function in DOTS:
        return _summing(axes[-1:], axes[:-1])
    if function in EINSUM and place > 0 and isinstance(args[0], str):
        return _einsum(args[0], place - 1, axes)
    return None


def _summing(contracted: Axes, written: Axes) -> Use | None:
    """Return the use of a parameter in a product; None where the dimension that is summed over has one entry."""
    contracted, written = (tuple(axis for axis in axes if axis is not None) for axes in (contracted, written))
    return Use(contracted, written) if contracted else None


def _einsum(equation: str, operand: int, axes: Axes) -> Use | None:
    left, _, right = equation.replace(" ", "").partition("->")
    own = left.split(",")[operand].replace("...", "")
    others = "".join(part for n, part in enumerate(left.split(",")) if n != operand)
    letters = dict(zip(own, axes[len(axes) - len(own) :], strict=True))
    contracted = tuple(axis for letter, axis in letters.items() if letter in others and letter not in right)
    written = tuple(axis for letter, axis in letters.items() if letter in right and letter not in others)
    return _summing(contracted, written)
