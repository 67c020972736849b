"""What a diffusion is asked, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deeplimits.architecture.compose import Repeat, Serial, written_out
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer, Power
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.limits.diffusion.compose import active
from deeplimits.numerics.arrays import check, check_memory
from deeplimits.numerics.seeds import generator

WHERE = "diffusion"


@dataclass(frozen=True)
class Task:
    """The arguments of `diffusion` in their final form; `body` is the network without its readout."""

    body: Serial
    X: Tensor
    width: int
    depth: float
    samples: int
    seed: int
    times: NDArray[np.float64]
    states: bool


def prepare(
    net: Any, X: Any, width: Any, depth: Any, samples: Any, seed: Any, times: Any, states: bool = False
) -> Task:  # fmt: skip
    """Return the checked arguments of `diffusion`.

    Raises:
        InputError: data, sizes, times or seed that cannot be used.
        DescriptionError: `net` is not a description.
        MemoryNeeded: the samples would not fit.
    """
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError(WHERE, f"{type(net).__name__} is not a network description", fix)
    inputs = np.asarray(check(WHERE, X).numpy()[0], dtype=np.float64)
    width, depth = whole(WHERE, "width", width), whole(WHERE, "depth", depth, infinite=True)
    samples = whole(WHERE, "samples", samples, minimum=2)
    generator(seed, "checked")
    layers = written_out(net).layers  # type: ignore[attr-defined]
    body = Serial(layers=layers[:-1] if layers and isinstance(layers[-1], Dense) else layers)
    seen = _times(body, depth, times)
    one = len(inputs) * (len(inputs) + (width if states else 0))
    what = "the Gram matrices" + (" and states" if states else "") + " of all samples"
    fix = "use fewer inputs, samples or times" + (", or states=False" if states else "")
    check_memory(WHERE, 8 * (len(seen) + 1) * samples * one, what, fix)
    return Task(body, torch.from_numpy(inputs.copy()), width, depth, samples, seed, seen, bool(states))


def _times(body: Serial, depth: float, given: Any) -> NDArray[np.float64]:
    try:
        times = np.asarray(given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        times = np.array([np.nan])
    if not len(times) or not bool(((times >= 0) & (times <= 1)).all()) or bool((np.diff(times) <= 0).any()):
        raise InputError(WHERE, f"times={given!r} do not rise from 0 to 1", "give e.g. times=(0, 0.5, 1)")
    open_blocks = [layer for layer in body.layers if isinstance(layer, Repeat) and isinstance(layer.times, Power)]
    inside = bool(((times > 0) & (times < 1)).any())
    discrete = depth == inf and any(p.kind == "discrete" for block in open_blocks for _, p in active(block.block))
    if inside and (len(open_blocks) != 1 or discrete):
        why = "times between 0 and 1 need one block repeated DEPTH times with scales that all vanish as depth grows"
        raise InputError(WHERE, why, "leave times out, or give times=(0, 1)")
    return times
