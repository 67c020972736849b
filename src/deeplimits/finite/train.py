"""Training: many networks of a family at one width and depth, by full-batch gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from deeplimits.architecture.compose import written_out
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.finite.build.dense import make
from deeplimits.finite.build.place import Place, building, place
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator

Array = NDArray[np.float64]
CHUNK_BYTES = 256 * 2**20
LEAST = 1e-300
COPIES = 4  # parameters, gradients, velocities, and what the backward pass holds


def _number(name: str, value: Any, least: float, most: float, fix: str) -> None:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not least <= value < most:
        raise InputError("Descent", f"{name}={value!r}", fix)


@dataclass(frozen=True)
class Descent:
    """Full-batch gradient descent on L = 1/2 sum (f - y)^2.

    v <- momentum v - rate dL/dtheta, theta <- theta + v, on the unit-variance parameters theta. With a `gamma`,
    f = (the network)/(gamma sqrt(width)) and the rate is multiplied by gamma^2 width: mean-field scaling, in which
    features move by O(1); None trains the network as it stands, in which they do not.

    Args:
        rate: of the steps.
        steps: how many.
        momentum: of the heavy ball, 0 <= momentum < 1.
        gamma: richness of the mean-field scaling, or None.

    Raises:
        InputError: numbers out of range.

    Source: bordelon-pehlevan-2022 (gamma); jacot-2018-ntk (None).

    Example:
        >>> Descent(rate=0.1, steps=100, gamma=2.0).output_scale(width=100)
        0.05
    """

    rate: float
    steps: int
    momentum: float = 0.0
    gamma: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("Descent", "steps", self.steps))
        _number("rate", self.rate, LEAST, inf, "give a positive number such as 0.1")
        _number("momentum", self.momentum, 0.0, 1.0, "give 0 <= momentum < 1")
        if self.gamma is not None:
            fix = "give a positive number; gamma=None trains in the lazy limit, that of gamma -> 0"
            _number("gamma", self.gamma, LEAST, inf, fix)

    def output_scale(self, width: int) -> float:
        """Return what the network is multiplied with."""
        return 1.0 if self.gamma is None else 1.0 / (self.gamma * width**0.5)


@dataclass(frozen=True, eq=False)
class Trained:
    """Outputs of independent networks while they train: (networks, times, points, outputs), at `times` steps.

    Points are the training inputs, then the test inputs. A network that diverges has outputs that are not finite.
    """

    width: int
    depth: int
    seed: int
    times: tuple[int, ...]
    outputs: Array


def train(
    net: Any,
    X: Array,
    y: Array,
    X_test: Array | None,
    width: int,
    depth: int,
    networks: int,
    seed: int,
    descent: Descent,
    times: tuple[int, ...],
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Return the outputs of `networks` networks, each trained alone from its own initialisation.

    Args:
        net: description of the family, with a Dense readout.
        X: (P, d) training inputs.
        y: (P, C) labels.
        X_test: (M, d) further inputs, or None.
        width: what WIDTH stands for.
        depth: what DEPTH stands for.
        networks: how many; the first 10 of 20 are those of a run of 10.
        seed: of all of them.
        descent: how they are trained.
        times: after which steps outputs are kept, rising, from 0 to `descent.steps`.
        progress: called with (networks done, networks) after each chunk.

    Raises:
        DescriptionError: no Dense readout, or one of another number of outputs than y.
        MemoryNeeded: outputs that do not fit.

    Source: definition (gradient descent on the unit-variance parameters of `build`).

    Example:
        >>> import deeplimits as dl
        >>> X, y = np.eye(2), np.array([[1.0], [-1.0]])
        >>> done = train(dl.Mlp("tanh"), X, y, None, 64, 1, 3, 0, Descent(0.5, 20), (0, 20))
        >>> done.outputs.shape, bool(np.abs(done.outputs[:, 1] - y).max() < 0.01)
        ((3, 2, 2, 1), True)
    """
    at = place(net, width, depth, seed, "ntk", X.shape[1], torch.float64, make, "train")
    _readout(net, y.shape[1])
    points = X if X_test is None else np.concatenate([X, X_test])
    needed = 2 * 8 * networks * len(times) * len(points) * y.shape[1]
    check_memory("train", needed, "the outputs of all networks", "take fewer networks, times or inputs")
    chunks, done = [], 0
    for chunk in _chunks(net, at, networks, len(points)):
        tensors = torch.from_numpy(points), torch.from_numpy(y)
        chunks.append(_descend(_stacked(net, at, chunk), *tensors, descent, descent.output_scale(width), times))
        done += len(chunk)
        if progress is not None:
            progress(done, networks)
    return Trained(width, depth, seed, times, torch.cat(chunks).numpy())


def _readout(net: Any, outputs: int) -> None:
    layers = written_out(net).layers  # type: ignore[attr-defined]
    if not layers or not isinstance(layers[-1], Dense):
        raise DescriptionError("train", "the network has no Dense readout", "add >> Dense(features=1)")
    if layers[-1].features != outputs:
        why = f"y has {outputs} columns and the readout {layers[-1].features!r} outputs"
        raise DescriptionError("train", why, f"describe the network with outputs={outputs}, or give other labels")


def _chunks(net: Any, at: Place, networks: int, points: int) -> Iterator[range]:
    module, _ = building(net, at)
    held = sum(p.numel() for p in module.parameters()) * COPIES + 8 * points * at.width * at.depth
    size = max(1, min(networks, CHUNK_BYTES // (8 * held)))
    return (range(first, min(first + size, networks)) for first in range(0, networks, size))


def _stacked(net: Any, at: Place, chunk: range) -> tuple[nn.Module, dict[str, Any], dict[str, Any]]:
    seeds = [int(generator(at.seed, "network", index).integers(2**63)) for index in chunk]
    modules = [building(net, replace(at, seed=seed))[0] for seed in seeds]
    parameters, buffers = stack_module_state(modules)  # type: ignore[arg-type]
    return modules[0], {name: p.detach().requires_grad_() for name, p in parameters.items()}, buffers


def _descend(
    networks: tuple[nn.Module, dict[str, Any], dict[str, Any]],
    points: Tensor,
    y: Tensor,
    descent: Descent,
    scale: float,
    times: tuple[int, ...],
) -> Tensor:
    """Return outputs (networks, times, points, outputs) of stacked networks."""
    module, parameters, buffers = networks

    def outputs(own: dict[str, Tensor], fixed: dict[str, Tensor]) -> Tensor:
        return functional_call(module, (own, fixed), (points,))

    together, rate = vmap(outputs, randomness="error"), descent.rate / scale**2
    velocities = {name: torch.zeros_like(p) for name, p in parameters.items()} if descent.momentum else {}
    kept: list[Tensor] = []
    for step in range(descent.steps + 1):
        found = together(parameters, buffers) * scale
        if step in times:
            kept.append(found.detach())
        if step == descent.steps or not torch.isfinite(found).flatten(1).all(1).any():
            break
        loss = 0.5 * (found[:, : len(y)] - y).square().sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
        with torch.no_grad():
            for (name, p), gradient in zip(parameters.items(), gradients, strict=True):
                moved = gradient.mul_(-rate)
                if descent.momentum:
                    moved = velocities[name].mul_(descent.momentum).add_(moved)
                p.add_(moved)
    missing = len(times) - len(kept)
    return torch.stack([*kept, *[torch.full_like(kept[0], torch.nan)] * missing], 1)
