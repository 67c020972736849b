"""A checked question to the sampler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer
from deeplimits.finite.build.place import Place

Part = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Task:
    """What is asked of the sampler, checked: `X` holds distinct rows, `rows` tells which of them each input is."""

    body: Layer
    readout: Dense | None
    place: Place
    X: Tensor
    rows: np.ndarray
    networks: int
    seed: int
    ntk: bool


def dense_layers(layer: Layer) -> Iterator[Dense]:
    """Yield every dense layer of a description."""
    if isinstance(layer, Dense):
        yield layer
        return
    simpler = layer.parts()
    for child in [simpler] if simpler is not None else [child for _, child in layer.children()]:
        yield from dense_layers(child)
