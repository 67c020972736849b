"""The diffusion question: what a layer does to many sampled states of a network of fixed width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from deeplimits.architecture.question import Question
from deeplimits.numerics.sde import Normals
from deeplimits.numerics.seeds import torch_generator

diffusion = Question("diffusion", otherwise="sample the network at a finite depth with dl.sample(...)")

BLOCK = 256
"""Samples that share a random stream; the last block of a run draws all and keeps what is asked for."""


@dataclass
class Noise:
    """The named normals of one block of samples: each depends on its name, never on what was drawn before."""

    seed: int
    block: int
    samples: int
    calls: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def normals(self, *name: str | int) -> Normals:
        """Return the source called `name`; its calls are numbered."""

        def draw(*shape: int) -> Tensor:
            call = self.calls[name] = self.calls.get(name, -1) + 1
            generator = torch_generator(self.seed, "diffusion", self.block, *name, call)
            return torch.randn((BLOCK, *shape), generator=generator, dtype=torch.float64)[: self.samples]

        return draw


@dataclass(frozen=True)
class Setting:
    """What a rule knows beside the state (samples, k, features).

    Attributes:
        width: number that WIDTH stands for.
        depth: number that DEPTH stands for, or infinity.
        noise: of the block of samples.
        normals: where a layer takes its normals from.
        steps: of a block repeated to infinite depth.
        coarse: whether to take half the steps on the same path.
        watch: called with (fraction of the layer time, state) along the block repeated DEPTH times.
        index, repeats: place of the enclosing repeated block, and their number.
    """

    width: int
    depth: float
    noise: Noise
    normals: Normals
    steps: int
    coarse: bool = False
    watch: Callable[[float, Tensor], None] | None = None
    index: int | None = None
    repeats: int | None = None

    def at(self, **changes: Any) -> Setting:
        """Return the setting with changes."""
        return replace(self, **changes)
