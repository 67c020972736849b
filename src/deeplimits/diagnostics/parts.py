"""Which modules inside a block add to its stream: attention and perceptron, mostly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from deeplimits.diagnostics.calls import first_tensor
from deeplimits.diagnostics.stack import Stack, evaluating, watched
from deeplimits.errors import InputError

MOST = 3
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Parts:
    """Names inside a block, and what each gave in every block, features last."""

    names: tuple[str, ...]
    outputs: list[list[Tensor]]


def parts_of(stack: Stack, names: Sequence[str] | None = None) -> Parts | None:
    """Return the parts of every block: those named, or two or three modules whose outputs sum to the update, if any.

    Raises:
        InputError: named parts that are not there, are not called once, or do not sum to the update.
    """
    if names is not None:
        return _named(stack, tuple(names))
    inside = [name for name, _ in stack.blocks[0].named_modules() if name]
    seen = _outputs(stack, [inside], [0])[0]
    update = stack.updates()[0]
    same = [name for name in inside if name in seen and seen[name].shape == update.shape]
    same.sort(key=lambda name: name.count("."))
    groups = [group for size in range(2, MOST + 1) for group in combinations(same, size)]
    for group in sorted(groups, key=lambda group: (sum(name.count(".") for name in group), len(group))):
        if _miss([seen[name] for name in group], update) <= TOLERANCE:
            ordered = tuple(name for name in seen if name in group)
            return _fitting(stack, ordered)
    return None


def _fitting(stack: Stack, names: tuple[str, ...]) -> Parts | None:
    try:
        return _named(stack, names)
    except InputError:  # a model whose first block is built otherwise
        return None


def _named(stack: Stack, names: tuple[str, ...]) -> Parts:
    every = _outputs(stack, [names] * len(stack), range(len(stack)))
    found = []
    for block, seen, update in zip(stack.names, every, stack.updates(), strict=True):
        missing = next((name for name in names if name not in seen), None)
        if missing is not None:
            why = f"{block} has no module {missing!r} that is called once and returns a tensor"
            raise InputError("depth_use", why, "take names from block.named_modules()")
        outputs = [seen[name] for name in names]
        shapes = {tuple(one.shape) for one in outputs}
        miss = _miss(outputs, update) if shapes == {tuple(update.shape)} else float("inf")
        if not miss <= TOLERANCE:
            why = f"outputs of {', '.join(names)} in {block} miss its update by {miss:.2g} of its size"
            raise InputError("depth_use", why, "name the modules whose outputs are added to the stream as they are")
        found.append(outputs)
    return Parts(names, found)


def _miss(outputs: Sequence[Tensor], update: Tensor) -> float:
    return float((sum(outputs) - update).norm() / update.norm())  # type: ignore[union-attr]


def _outputs(stack: Stack, names: Sequence[Sequence[str]], blocks: Sequence[int]) -> list[dict[str, Tensor]]:
    """Return, for some blocks, {name inside it: what it gave}, in the order of calls, of modules called once."""
    paths = {}
    for block, inside in zip(blocks, names, strict=True):
        known = dict(stack.blocks[block].named_modules())
        paths |= {f"{stack.names[block]}.{name}": (block, name) for name in inside if name in known}
    with torch.no_grad(), evaluating(stack.model):
        seen, _ = watched(stack.model, stack.inputs, list(paths))
    found: dict[int, dict[str, Tensor]] = {block: {} for block in blocks}
    for path, calls in seen.items():
        block, name = paths[path]
        given = first_tensor(calls[0][1]) if len(calls) == 1 else None
        if given is not None and given.is_floating_point():
            found[block][name] = stack.last(given) if given.dim() == stack.streams[0].dim() else given
    return [found[block] for block in blocks]
