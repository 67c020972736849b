"""Lists of blocks in two models of one family, matched block by block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deeplimits.errors import InputError

_MEMBER = re.compile(r"([^.]*?)(\d+)(?=\.|$)")

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Stack:
    """A list of blocks that is longer in the target, or shorter.

    Attributes:
        head: what stands before a block's number, as "model.layers." or "encoder.block_".
        blocks: {number in the target: number in the base}.
        ratios: {number in the target: how many blocks of its kind there are, target over base}.
    """

    head: str
    blocks: Mapping[int, int]
    ratios: Mapping[int, Fraction]

    @property
    def prefix(self) -> str:
        """The list's name, as "model.layers"."""
        return self.head.rstrip("._")

    def place(self, name: str) -> int | None:
        """Return which block of the target a parameter belongs to, or None."""
        number = name[len(self.head) :].split(".", 1)[0] if name.startswith(self.head) else ""
        return int(number) if number.isdigit() and int(number) in self.blocks else None

    def counterpart(self, name: str) -> str | None:
        """Return a parameter's name in the base, or None outside the list."""
        place = self.place(name)
        if place is None:
            return None
        rest = name[len(self.head) + len(str(place)) :]
        return f"{self.head}{self.blocks[place]}{rest}"


def stacks(base: Shapes, target: Shapes) -> list[Stack]:
    """Match the lists whose length differs.

    Blocks are of one kind where their parameters have the same names and shapes: the first block of a stage that
    changes the width is a kind of its own, as are alternating dense and sparse blocks. The first kind of the base is
    the first kind of the target; within a kind, blocks are matched by their relative place.

    Args:
        base: {name: shape}.
        target: likewise.

    Raises:
        InputError: the target has kinds of blocks that the base has not.

    Example:
        >>> shapes = lambda depth: {f"layers.{n}.w": (8, 8) for n in range(depth)}
        >>> [stack] = stacks(shapes(2), shapes(6))
        >>> stack.prefix, stack.blocks[5], stack.ratios[5], stack.counterpart("layers.2.w")
        ('layers', 1, Fraction(3, 1), 'layers.0.w')
    """
    before, after = _lists(base), _lists(target)
    return [
        _matched(head, before[head], after[head])
        for head in after
        if head in before and set(before[head]) != set(after[head])
    ]


def _lists(shapes: Shapes) -> dict[str, dict[int, dict[str, tuple[int, ...]]]]:
    """Return {head: {number: {rest of the name: shape}}} for everything that is numbered."""
    found: dict[str, dict[int, dict[str, tuple[int, ...]]]] = {}
    for name, shape in shapes.items():
        for match in _MEMBER.finditer(name):
            members = found.setdefault(name[: match.start(2)], {})
            members.setdefault(int(match.group(2)), {})[name[match.end() :]] = shape
    return found


def _matched(head: str, before: Mapping[int, Any], after: Mapping[int, Any]) -> Stack:
    for key in (lambda block: tuple(sorted(block.items())), lambda block: tuple(sorted(block))):
        old, new = _kinds(before, key), _kinds(after, key)
        if len(old) == len(new):
            break
    else:
        why = f"{head.rstrip('.')} has blocks of {len(new)} kinds in the target and of {len(old)} in the base"
        raise InputError("transfer", why, "give the base at least one block of every kind, and no kind of its own")
    blocks, ratios = {}, {}
    for own, others in zip(new, old, strict=True):
        for order, place in enumerate(own):
            blocks[place] = others[order * len(others) // len(own)]
            ratios[place] = Fraction(len(own), len(others))
    return Stack(head, blocks, ratios)


def _kinds(members: Mapping[int, Any], key: Any) -> list[list[int]]:
    found: dict[Any, list[int]] = {}
    for place in sorted(members):
        found.setdefault(key(members[place]), []).append(place)
    return list(found.values())


def check_names(base: Iterable[str], matched: Mapping[str, str | None]) -> None:
    """Refuse models whose parameters do not match.

    Args:
        base: names in the base.
        matched: {name in the target: name in the base, or None}.

    Raises:
        InputError: names stand on one side only.
    """
    used = {other for other in matched.values() if other is not None}
    alone = [name for name, other in matched.items() if other is None]
    gone = [name for name in base if name not in used and not any(_same_block(name, other) for other in used)]
    if alone or gone:
        parts = [f"only in the target: {listed(alone)}"] if alone else []
        parts += [f"only in the base: {listed(sorted(gone))}"] if gone else []
        why = f"parameter names do not match up to the number of blocks ({'; '.join(parts)})"
        raise InputError("transfer", why, "build both models with the same function, changing sizes only")


def _same_block(name: str, other: str) -> bool:
    return _MEMBER.sub(r"\1#", name) == _MEMBER.sub(r"\1#", other)


def listed(names: list[str], shown: int = 5) -> str:
    """Return the first few names in words.

    Example:
        >>> listed(["a", "b", "c"], shown=2)
        'a, b and 1 more'
    """
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
