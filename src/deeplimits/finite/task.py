"""A checked question to the sampler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from deeplimits.architecture.attention import Attention
from deeplimits.architecture.dense import Dense, WeightLaw
from deeplimits.architecture.layer import Layer
from deeplimits.finite.build.place import Place

Part = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Task:
    """What is asked of the sampler, checked: `X` holds distinct rows, `rows` tells which of them each input is.

    With `tokens` the rows of X are the tokens of one sequence, as they were given.
    """

    body: Layer
    readout: Dense | None
    place: Place
    X: Tensor
    rows: np.ndarray
    networks: int
    seed: int
    ntk: bool
    tokens: bool = False


def weight_laws(layer: Layer) -> Iterator[WeightLaw]:
    """Yield the law of every weight matrix of a description."""
    if isinstance(layer, Dense | Attention):
        yield layer.weights
        return
    for child in inside(layer):
        yield from weight_laws(child)


def most_heads(layer: Layer) -> int:
    """Return the most heads of any attention of a description, 0 where there is none."""
    if isinstance(layer, Attention):
        return layer.heads
    return max((most_heads(child) for child in inside(layer)), default=0)


def inside(layer: Layer) -> list[Layer]:
    """Return what a layer is made of: its parts, or the layers that it holds."""
    simpler = layer.parts()
    return [simpler] if simpler is not None else [child for _, child in layer.children()]
