"""Packages whose names open when they are first asked for, so that what nobody uses is never imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules
from typing import Any


def door(
    package: str, home: Mapping[str, str], within: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module.

    Args:
        package: name of the module.
        home: {name: module that holds it, relative to `within`}.
        within: a package; by default the module itself.

    Example:
        >>> opened, listed = door("deeplimits.blocks", {"Keel": "keel"})
        >>> opened("Keel").__name__, "Keel" in listed()
        ('Keel', True)
    """

    def opened(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{within or package}.{home[name]}"), name)

    def listed() -> list[str]:
        return sorted({*vars(modules[package]), *home})

    return opened, listed
