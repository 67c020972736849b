"""Where a layer stands while a module is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question
from deeplimits.architecture.size import resolve, whole
from deeplimits.errors import DescriptionError, InputError

PARAMETRIZATIONS = ("ntk", "standard")

building = Question("build", otherwise="write the layer as an nn.Module by hand")


@dataclass(frozen=True)
class Place:
    """Size of the network, and the position of one layer in it.

    Args:
        features: number of features that enter the layer, or None where the first forward pass will tell.
        width, depth: numbers that WIDTH and DEPTH stand for.
        seed: of the whole network; each parameter has the stream named after its path.
        parametrization: "ntk" or "standard".
        dtype: of the parameters.
        dense: (layer, place, features_out) -> module, what a Dense layer becomes.
        path: name of the layer in the module.
        index, repeats: place of the enclosing repeated block (from 1), and their number.
        block: layer -> module, what a block given by its increment alone becomes, or None where it cannot be.
    """

    features: int | None
    width: int
    depth: int
    seed: int
    parametrization: str
    dtype: torch.dtype
    dense: Callable[[Dense, Place, int], torch.nn.Module]
    path: str = ""
    index: int | None = None
    repeats: int | None = None
    block: Callable[[Layer], torch.nn.Module] | None = None

    def at(self, name: str, features: int | None, **changes: Any) -> Place:
        """Return the place of a child called `name` that `features` features enter."""
        path = f"{self.path}.{name}" if self.path else name
        return replace(self, path=path, features=features, **changes)

    def size(self, name: str, size: Any) -> int:
        """Return a number of features given as a share of WIDTH or a number."""
        if isinstance(size, int):
            return size
        return resolve(f"build at {self.path or 'the network'}", name, size, self.width)


def place(net: Any, width: Any, depth: Any, seed: int, parametrization: str, features: Any, dtype: torch.dtype,
          dense: Callable[[Dense, Place, int], torch.nn.Module], where: str) -> Place:  # fmt: skip
    """Return the place of a whole network, its sizes checked.

    Raises:
        DescriptionError: `net` is not a description.
        InputError: a width, depth or number of inputs below 1 or not a whole number; an unknown parametrization.
    """
    if not isinstance(net, Layer):
        fix = "give a network such as dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError(where, f"{net!r} is not a description of a network", fix)
    check_parametrization(where, parametrization)
    features = None if features is None else whole(where, "features_in", features)
    width, depth = whole(where, "width", width), whole(where, "depth", depth)
    return Place(features, width, depth, seed, parametrization, dtype, dense)


def check_parametrization(where: str, given: str) -> None:
    """Refuse anything but "ntk" and "standard"."""
    if given not in PARAMETRIZATIONS:
        fix = (
            "use 'ntk' (unit-variance parameters, scales in the forward pass) or 'standard' (scales in the parameters)"
        )
        raise InputError(where, f"parametrization={given!r} is unknown", fix)
