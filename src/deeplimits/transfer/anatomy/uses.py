"""How a forward pass uses each parameter: what it is summed over, seen from the operations themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def of_tensor(*names: str) -> set[Any]:
    """Return methods of torch.Tensor."""
    return {getattr(torch.Tensor, name) for name in names}


LINEAR = {F.linear}
RIGHT = {torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.__rmatmul__}
RIGHT |= {torch.Tensor.mm, torch.Tensor.bmm}
RIGHT |= {getattr(of, name) for of, name in ((torch, "_grouped_mm"), (F, "grouped_mm")) if hasattr(of, name)}
SHIFTED = {torch.addmm, torch.baddbmm, torch.Tensor.addmm, torch.Tensor.baddbmm}
LOOKUPS = {F.embedding, F.embedding_bag}
_CONVOLUTIONS = {F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d}
_TURNS = {torch.t, torch.Tensor.t, torch.Tensor.transpose, torch.transpose, torch.Tensor.permute, torch.permute}
_TURNS |= {torch.Tensor.T.__get__, torch.Tensor.mT.__get__}  # type: ignore[attr-defined]
_CARRIED = {torch.cat, torch.concat, torch.stack, torch.Tensor.expand, torch.Tensor.expand_as, torch.Tensor.repeat}
_CARRIED |= {torch.add, torch.sub, torch.mul, torch.div, torch.where}
_CARRIED |= of_tensor("add", "sub", "mul", "div", "add_", "mul_", "__truediv__", "__rtruediv__")
_CARRIED |= of_tensor(*(f"__{side}{name}__" for side in ("", "r", "i") for name in ("add", "sub", "mul")))
_PARTS = {torch.Tensor.chunk, torch.chunk, torch.Tensor.split, torch.split, torch.Tensor.__getitem__, torch.Tensor.to}
_PARTS |= {torch.Tensor.float, torch.Tensor.contiguous, torch.Tensor.unbind, torch.unbind, torch.Tensor.type_as}
_PARTS |= {torch.Tensor.data.__get__, *of_tensor("detach", "clone", "type", "double", "half", "bfloat16")}  # type: ignore[attr-defined]


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
        twice: names of tables that are looked up and, elsewhere, multiplied with: tied readouts.
        carried: names of those added to, multiplied with or put beside activations, entry by entry.
        unclear: names of those combined with one another, so that it stays open what they are summed over.
        order: names of all parameters in the order of their first use.
        times: {name: how often all of it is multiplied with, convolved with or looked up}.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self._axes = {id(p): (name, tuple(range(p.dim()))) for name, p in model.named_parameters()}
        self._entries = {name: p.numel() for name, p in model.named_parameters()}
        self._kept: list[Any] = []
        self.uses: dict[str, Use] = {}
        self.twice: set[str] = set()
        self.carried: set[str] = set()
        self.unclear: set[str] = set()
        self.order: list[str] = []
        self.times: dict[str, int] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = enumerate([*args, *kwargs.values()])
        known = {place: self._axes.get(id(value)) for place, value in given if isinstance(value, torch.Tensor)}
        found = {place: entry for place, entry in known.items() if entry is not None}
        if not (
            getattr(function, "__name__", "") == "__get__" and function not in _TURNS
        ):  # sizes, devices and the like
            for place, (name, axes) in found.items():
                use = _use(function, place, args, axes)
                self._note(name, use)
                whole = [*args, *kwargs.values()][place].numel() == self._entries[name]
                if whole and (use is not None or function in _CONVOLUTIONS):
                    self.times[name] = self.times.get(name, 0) + 1
            self.order += [name for name in sorted(self._listed(args)) if name not in self.order]
        names = {name for name, axes in found.values() if len(axes) > 1}
        if function in _CARRIED | RIGHT | LINEAR and len(names) > 1:
            self.unclear |= names
        if function in _CARRIED:
            self.carried |= names | self._listed(args)
        result = function(*args, **kwargs)
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and id(first) in self._axes:
            self._follow(function, first, args, kwargs, result)
        return result

    def _listed(self, args: Any) -> set[str]:
        lists = [values for values in args if isinstance(values, tuple | list)]
        return {self._axes[id(value)][0] for values in lists for value in values if id(value) in self._axes}

    def _note(self, name: str, use: Use | None) -> None:
        if name not in self.order:
            self.order.append(name)
        if use is not None and bool(self.uses.setdefault(name, use).contracted) != bool(use.contracted):
            self.twice.add(name)

    def _follow(self, function: Any, source: torch.Tensor, args: Any, kwargs: Any, result: Any) -> None:
        name, axes = self._axes[id(source)]
        if function in _TURNS:
            order = function(torch.empty(tuple(range(2, 2 + source.dim())), device="meta"), *args[1:], **kwargs).shape
            axes = tuple(axes[size - 2] for size in order)
        elif function not in _PARTS:
            return
        for part in result if isinstance(result, tuple | list) else [result]:
            kept = axes[len(axes) - part.dim() :] if isinstance(part, torch.Tensor) else ()
            if isinstance(part, torch.Tensor):
                self._kept.append(part)  # an id is only good while its tensor lives
                self._axes[id(part)] = (name, kept)


def _use(function: Any, place: int, args: Any, axes: tuple[int, ...]) -> Use | None:
    if function in LINEAR and place == 1:
        return Use((axes[-1],), tuple(axes[:-1]))
    if function in LOOKUPS and place == 1:
        return Use((), (axes[-1],))
    if function in RIGHT | SHIFTED:
        right = place == (2 if function in SHIFTED else 1)
        if function in SHIFTED and place == 0:
            return None
        if len(axes) < 2:
            return None
        contracted, written = (axes[-2], axes[-1]) if right else (axes[-1], axes[-2])
        return Use((contracted,), (written,))
    if function in (torch.einsum, torch.functional.einsum) and place > 0 and isinstance(args[0], str):
        return _einsum(args[0], place - 1, axes)
    return None


def _einsum(equation: str, operand: int, axes: tuple[int, ...]) -> Use | None:
    left, _, right = equation.replace(" ", "").partition("->")
    own = left.split(",")[operand].replace("...", "")
    others = "".join(part for n, part in enumerate(left.split(",")) if n != operand)
    letters = dict(zip(own, axes[len(axes) - len(own) :], strict=True))
    contracted = tuple(axis for letter, axis in letters.items() if letter in others and letter not in right)
    written = tuple(axis for letter, axis in letters.items() if letter in right and letter not in others)
    return Use(contracted, written) if contracted else None
