"""What TARGET names: a function that builds a model, and beside it what trains it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeplimits.errors import InputError, nearest

WIDTHS, DEPTHS = [32, 64, 128], [4, 8, 16]
WRITE = "write def make(width, depth), which returns a torch.nn.Module, and name it as module:make"


@dataclass(frozen=True)
class Target:
    """A function that builds a model, and what was found beside it.

    Attributes:
        words: as it was named.
        build: makes the model from its sizes.
        train: trains it and returns the loss; None where nothing fits.
        batch: (inputs, labels) of a seed; None where it is made from the first layer.
        takes: sizes that `build` takes, of "width" and "depth".
    """

    words: str
    build: Callable[..., Any]
    train: Callable[..., Any] | None
    batch: Callable[..., Any] | None
    takes: tuple[str, ...]

    @property
    def inputs(self) -> Any:
        """An example of what the model takes; None where its first layer tells."""
        return None if self.batch is None else self.batch(0)[0]

    def grid(self, width: str | None, depth: str | None, deep: bool) -> dict[str, list[int]]:
        """Return {"width": [...], "depth": [...]} of those that `build` takes.

        Args:
            width: from the command line, as "64,128"; None for the default.
            depth: likewise.
            deep: whether the rule says something of depth; else the default depth is one.

        Raises:
            InputError: a size that `build` does not take.
        """
        from deeplimits.cli import read

        found = {}
        for name, text, default in (("width", width, WIDTHS), ("depth", depth, DEPTHS if deep else DEPTHS[:1])):
            if text is not None and name not in self.takes:
                why = f"{self.words} takes no {name}"
                raise InputError(f"--{name}", why, f"leave --{name} out, or add the argument to the function")
            if name in self.takes:
                found[name] = default if text is None else read.numbers(f"--{name}", text)
        return found

    def check(self, sizes: Sequence[Mapping[str, int]]) -> None:
        """Build every size on the meta device, without memory.

        Raises:
            InputError: a size that cannot be built, or what is built is no module.
        """
        import torch

        from deeplimits.transfer.anatomy.initial import on_meta

        for size in sizes:
            shown = ", ".join(f"{name}={value}" for name, value in size.items())
            try:
                model = on_meta(self.build, size)
            except Exception as error:
                why = f"{self.words}({shown}) raised {type(error).__name__}: {error}"
                raise InputError("TARGET", why, "give sizes that it can build") from None
            if not isinstance(model, torch.nn.Module):
                raise InputError(
                    "TARGET", f"{self.words}({shown}) is no torch.nn.Module: {type(model).__name__}", WRITE
                )


def read(words: str, train: str | None = None, optimizer: str = "adamw") -> Target:
    """Find what TARGET names.

    Args:
        words: module:function, file.py:function, or a bundled example.
        train: module:function that trains, in place of the one beside the first.
        optimizer: of the training that is made where there is none.

    Raises:
        InputError: no such module or function, or one that does not take width or depth.
    """
    from deeplimits.transfer.examples import EXAMPLES

    if ":" not in words and words not in EXAMPLES:
        fix = f"{nearest(words, EXAMPLES)} (bundled); or {WRITE}"
        raise InputError("TARGET", f"{words!r} names no function", fix)
    name = words if ":" in words else f"deeplimits.transfer.examples.{words}:build"
    module, build = _found("TARGET", name)
    takes = _takes(words, build)
    beside = {key: getattr(module, key, None) for key in ("train", "batch")}
    batch = beside["batch"] if callable(beside["batch"]) else None
    trainer = _found("--train", train)[1] if train is not None else beside["train"]
    if not callable(trainer):
        trainer, batch = _default(build, takes, batch, optimizer)
    return Target(words, build, trainer, batch, takes)


def _found(option: str, words: str) -> tuple[Any, Callable[..., Any]]:
    """Return (module, function) of module:function."""
    place, _, attribute = words.rpartition(":")
    folder, name = (Path(place).parent, Path(place).stem) if place.endswith(".py") else (Path("."), place)
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        why = f"no module {error.name!r} is found from here, for {words!r}"
        raise InputError(option, why, "name a module that can be imported from this folder, or a .py file") from None
    except Exception as error:
        why = f"importing {place!r} raised {type(error).__name__}: {error}"
        raise InputError(option, why, "mend the module") from None
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        what = "has no" if found is None else "has, and it is no function,"
        raise InputError(option, f"{place!r} {what} {attribute!r}", nearest(attribute, own))
    return module, found


def _takes(words: str, build: Callable[..., Any]) -> tuple[str, ...]:
    """Return which of width and depth a function takes, and refuse one that needs more."""
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):
        return "width", "depth"
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    takes = tuple(
        name
        for name in ("width", "depth")
        if open_ended or (name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY)
    )
    needed = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and name not in takes
    ]
    if not takes or needed:
        why = f"{words} takes ({', '.join(parameters)})"
        raise InputError("TARGET", f"{why}: it cannot be called with width= and depth= alone", WRITE)
    return takes


def _default(
    build: Callable[..., Any], takes: tuple[str, ...], batch: Any, optimizer: str
) -> tuple[Callable[..., Any] | None, Any]:
    """Return (train, batch) made from a function of the seed, or from the bundled data that the model takes."""
    from deeplimits.transfer.examples import training

    if batch is None:
        try:
            model = build(**{name: {"width": WIDTHS, "depth": DEPTHS}[name][0] for name in takes})
        except Exception:
            return None, None  # told when its own sizes are built
        batch = training.bundled(model) if hasattr(model, "modules") else None
    return (None if batch is None else training.made(batch, optimizer)), batch
