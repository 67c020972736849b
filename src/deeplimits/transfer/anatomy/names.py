"""Names of parameters that mean the same in models of different depth, wrapped or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_WRAPPERS = re.compile(r"(^|(?<=\.))(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_PLACE = re.compile(r"(?<![^.])\d+(?![^.])")


def bare(name: str) -> str:
    """Return a parameter's name without what compile, DDP, FSDP and checkpointing put into it.

    Example:
        >>> bare("_orig_mod.module.layers.3._checkpoint_wrapped_module.weight")
        'layers.3.weight'
    """
    return _WRAPPERS.sub("", name)


def starred(name: str) -> str:
    """Return a name with `*` for its places in lists.

    Example:
        >>> starred("blocks.3.up.weight")
        'blocks.*.up.weight'
    """
    return _PLACE.sub("*", name)


def width_first(size: Mapping[str, Any]) -> list[str]:
    """Return the names of a size's dimensions, the width before the others.

    Example:
        >>> width_first({"depth": 4, "width": 32})
        ['width', 'depth']
    """
    return sorted(size, key=lambda name: (name != "width", name))


def in_words(size: Mapping[str, Any]) -> str:
    """Return a size in words.

    Example:
        >>> in_words({"depth": 4, "width": 32})
        'width 32, depth 4'
    """
    return ", ".join(f"{name} {size[name]}" for name in width_first(size))


def pooled(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, list[str]]:
    """Return {label: names} of parameters that differ by their place in lists only, and have one shape.

    A label has `*` for the places; where several shapes share it, each is labelled with its first name.

    Example:
        >>> pooled({"a.0.w": (2,), "a.1.w": (2,), "0.w": (2,), "1.w": (3,)})
        {'a.*.w': ['a.0.w', 'a.1.w'], '0.w': ['0.w'], '1.w': ['1.w']}
    """
    held: dict[str, dict[tuple[int, ...], list[str]]] = {}
    for name, shape in shapes.items():
        held.setdefault(starred(name), {}).setdefault(shape, []).append(name)
    return {label if len(by) == 1 else names[0]: names for label, by in held.items() for names in by.values()}


def stacks(names: Iterable[str]) -> dict[str, dict[int, set[str]]]:
    """Return {prefix: {index: names below it}} for every list of modules that parameters stand in.

    Example:
        >>> sorted(stacks(["a.0.w", "a.1.w", "b.w"]))
        ['a']
    """
    found: dict[str, dict[int, set[str]]] = {}
    for name in names:
        for match in _PLACE.finditer(name):
            prefix, rest = name[: match.start()].rstrip("."), name[match.end() :].lstrip(".")
            found.setdefault(prefix, {}).setdefault(int(match.group()), set()).add(rest)
    return found
