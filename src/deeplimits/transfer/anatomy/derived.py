"""What a forward pass computes from parameters alone, and what is linear in them entry by entry."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from deeplimits.transfer.anatomy.operations import (
    CONVOLUTIONS,
    EINSUM,
    LINEAR,
    OVER,
    PLUS,
    POWERS,
    RIGHT,
    SHIFTED,
    TIMES,
)

Axes = tuple[int | None, ...]
"""Which dimension of a parameter stands in each dimension of a tensor; None for none."""
Known = Mapping[int, tuple[str, Axes]]
"""{id of a parameter, or of a part of one: its name and dimensions}."""


@dataclass(frozen=True)
class Sum:
    """A sum over entries.

    Attributes:
        size: number of entries.
        of: {parameter that the entries are linear in: (its dimensions that are summed over, those that stay)}.
        weighed: whether a parameter weighs the entries, or they are squares and the like, as in norms.
    """

    size: int
    of: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
    weighed: bool


class Derived:
    """Follows tensors that are no activations alone, from one operation to the next."""

    def __init__(self):
        self._alone: MutableMapping[torch.Tensor, tuple[set[str], bool]] = WeakTensorKeyDictionary()
        self._linear: MutableMapping[torch.Tensor, dict[str, tuple[Axes, bool]]] = WeakTensorKeyDictionary()
        self._powers: MutableMapping[torch.Tensor, bool] = WeakTensorKeyDictionary()

    def follow(self, function: Any, args: Any, kwargs: Any, known: Known, result: torch.Tensor) -> None:
        """Keep in mind what a result comes from.

        Args:
            function: that was called.
            args: of it.
            kwargs: likewise.
            known: the parameters.
            result: what came out.
        """
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        name = getattr(function, "__name__", "")
        own = [self.parameters(value, known) for value in given]
        if own and all(own) and not name.startswith("new_") and not name.endswith("_like"):
            self._alone[result] = set().union(*own), function in LINEAR or any(map(self._layered, given))
        elif function in POWERS or (function in TIMES and args[0] is args[1]):
            self._powers[result] = True
        elif function in TIMES | OVER | PLUS and len(args) > 1:
            self._linear[result] = self._terms(function, args, known, result.dim())

    def parameters(self, value: Any, known: Known) -> set[str]:
        """Return the parameters that a value is computed from, where it is from nothing else.

        Args:
            value: a tensor, or something else.
            known: the parameters.
        """
        if not isinstance(value, torch.Tensor):
            return set()
        return {known[id(value)][0]} if id(value) in known else self._alone.get(value, (set(), False))[0]

    def _layered(self, value: torch.Tensor) -> bool:
        """Say whether what is computed from parameters alone is what a layer gives for a learned input."""
        return self._alone.get(value, (set(), False))[1]

    def _terms(self, function: Any, args: Any, known: Known, dims: int) -> dict[str, tuple[Axes, bool]]:
        """Return {parameter: (which of its dimensions stand where in the result, whether it weighs)}."""
        found: dict[str, tuple[Axes, bool]] = {}
        for value in args[:1] if function in OVER else args[:2]:
            own: Mapping[str, tuple[Axes, bool]] = {}
            if isinstance(value, torch.Tensor):
                name, axes = known.get(id(value), ("", ()))
                own = {name: (axes, function in TIMES)} if name else self._linear.get(value, {})
            found |= {name: ((None,) * (dims - len(of)) + of, weighs) for name, (of, weighs) in own.items()}
        return found

    def weight(self, function: Any, args: Any, known: Known) -> set[str]:
        """Return the parameters that the weight of a layer is computed from, where that is what happens.

        Args:
            function: that is called.
            args: of it.
            known: the parameters.
        """
        given = [value for value in args if isinstance(value, torch.Tensor)]
        if function in LINEAR | CONVOLUTIONS and len(given) > 1:
            return {*self.parameters(given[1], {}), *self._linear.get(given[1], ())}
        if function not in RIGHT | SHIFTED | EINSUM or len(given) < 2:
            return set()
        left, right = given[-2:]
        if self.parameters(left, known) or self._layered(right) or (function in EINSUM and not _contracted(args)):
            return set()
        return self.parameters(right, {})

    def sum(self, args: Any, kwargs: Any) -> Sum:
        """Return what is summed over.

        Args:
            args: of the sum.
            kwargs: likewise.
        """
        x = args[0] if args else kwargs["input"]
        dims = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
        dims = range(x.dim()) if dims is None or dims == () else [dims] if isinstance(dims, int) else dims
        dims = {dim % max(1, x.dim()) for dim in dims}
        found, weighed = {}, x in self._powers or x in self._alone or not x.is_floating_point()
        for name, (axes, weighs) in self._linear.get(x, {}).items():
            over = tuple(axis for dim, axis in enumerate(axes) if dim in dims and axis is not None)
            stays = tuple(axis for dim, axis in enumerate(axes) if dim not in dims and axis is not None)
            found |= {name: (over, stays)} if over else {}
            weighed = weighed or bool(weighs and over)
        return Sum(prod(int(x.shape[dim]) for dim in dims), found, weighed)


def _contracted(args: Any) -> bool:
    """Say whether an einsum of two sums over what both have."""
    left, _, right = str(args[0]).replace(" ", "").partition("->")
    own, _, other = left.partition(",")
    return bool((set(own) & set(other)) - set(right) - {"."})
