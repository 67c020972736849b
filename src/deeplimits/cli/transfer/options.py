"""What commands that measure have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def told() -> Iterator[None]:
    """Say warnings on stderr in words, each once."""
    from deeplimits.cli import console

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                console.say(f"warning: {text}")


def chosen(rule: str, against: str | None, alpha: float | None) -> list[tuple[str, float | None]]:
    """Return (rule, alpha) of the rule in question and of those it is set beside, which keep their own alpha.

    Raises:
        DescriptionError: an unknown rule.
    """
    from deeplimits.transfer.rule import get

    others = [name.strip() for name in against.split(",")] if against else []
    found = [(rule, alpha), *((name, None) for name in others if name != rule)]
    for name, own in found:
        get(name, own)
    return found


def deep(rule: str, alpha: float | None) -> bool:
    """Return whether a rule may be used at another depth."""
    from deeplimits.transfer.rule import get

    found = get(rule, alpha)
    return found.alpha is not None or found.any_depth


def joined(grid: dict[str, list[int]]) -> list[dict[str, int]]:
    """Return the sizes of a sweep: the lists side by side, one of a single number kept.

    Raises:
        InputError: lists of different lengths.

    Example:
        >>> joined({"width": [32, 64], "depth": [4]})
        [{'width': 32, 'depth': 4}, {'width': 64, 'depth': 4}]
    """
    from deeplimits.errors import InputError

    length = max(len(values) for values in grid.values())
    odd = [f"--{name} has {len(values)}" for name, values in grid.items()]
    if any(len(values) not in (1, length) for values in grid.values()):
        why = f"sizes of a sweep are taken side by side, and {', '.join(odd)}"
        raise InputError("--width and --depth", why, "give lists of one length, or one number that all sizes share")
    return [{name: values[n if len(values) > 1 else 0] for name, values in grid.items()} for n in range(length)]


def plain(records: Sequence[Any]) -> list[Any]:
    """Return records as JSON can hold them."""
    from deeplimits.plane.record import encode

    return [encode(record) for record in records]
