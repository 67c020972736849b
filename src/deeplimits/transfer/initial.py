"""How large the initial values of a family's parameters are, as a function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import log, sqrt
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.names import bare

STANDARD_ERRORS = 5.0
COPIES = 4
Hold = Callable[[nn.Parameter], AbstractContextManager[Any]]
_POWERS = (0.0, -0.5, -1.0, 0.5, 1.0)


def sizes(model: nn.Module, hold: Hold = nullcontext) -> dict[str, tuple[float, int]]:
    """Return {name: (root mean square of the values, number of values)}, sharded parameters included.

    Args:
        model: with real values.
        hold: a context in which a parameter is whole, where a framework keeps it in parts.

    Raises:
        InputError: a parameter holds no values outside such a context.
    """
    found = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            with hold(parameter):
                if getattr(parameter, "ds_shape", parameter.shape) != parameter.shape:
                    fix = "use deeplimits.integrations.deepspeed.apply, or apply the plan before the engine is made"
                    raise InputError("plan.apply", f"{name} is partitioned by ZeRO stage 3, and is not whole here", fix)
                square = parameter.detach().double().square().mean()
                full = getattr(square, "full_tensor", None)
                found[bare(name)] = (float(full() if full else square) ** 0.5, parameter.numel())
    return found


def exponents(
    build: Callable[..., nn.Module],
    base: Mapping[str, int],
    matches: Mapping[str, Mapping[str, str]],
    grows: Mapping[str, set[str]],
    seed: int,
) -> dict[str, dict[str, float]]:
    """Return {size: {name in the base: power of that size in the initial values}}, from copies twice as large.

    Args:
        build: makes the model from its sizes.
        base: the sizes of the base.
        matches: {size that changes: {name in the larger copy: name in the base}}.
        grows: {size that changes: names in the base of the parameters whose shape it changes}.
        seed: of the copies.
    """
    first = _pooled(build, base, {}, seed)
    found: dict[str, dict[str, float]] = {}
    for key, match in matches.items():
        larger = _pooled(build, {**base, key: 2 * base[key]}, match, seed + COPIES)
        powers: dict[str, list[float]] = {}
        for name, (square, count) in larger.items():
            old, old_count = first[name]
            if square and old:
                power = log(square / old) / log(2) / 2
                error = STANDARD_ERRORS * sqrt(1 / count + 1 / old_count) / log(2)
                near = sorted((p for p in _POWERS if abs(power - p) <= error), key=lambda p: abs(power - p))
                powers[name] = near or [power]
        found[key] = {name: _decided(name, powers, grows[key]) for name in powers}
    return found


def _decided(name: str, powers: Mapping[str, list[float]], grows: set[str]) -> float:
    """Return a parameter's power; where few values leave several open, that of the weight beside it, if it grows."""
    weight = f"{name.rpartition('.')[0]}.weight"
    beside = powers.get(weight, []) if weight in grows else [0.0]
    if len(powers[name]) > 1 and len(beside) == 1 and beside[0] in powers[name]:
        return beside[0]
    return powers[name][0]


def _pooled(
    build: Callable[..., nn.Module], at: Mapping[str, int], match: Mapping[str, str], seed: int
) -> dict[str, tuple[float, int]]:
    """Return {name in the base: (mean square of the values, number of values)} over a few copies, blocks pooled."""
    sums: dict[str, tuple[float, int]] = {}
    for copy in range(COPIES):
        for name, (size, count) in sizes(materialised(build, at, seed + copy)).items():
            total, number = sums.get(match.get(name, name), (0.0, 0))
            sums[match.get(name, name)] = total + count * size**2, number + count
    return {name: (total / number, number) for name, (total, number) in sums.items()}


def materialised(build: Callable[..., nn.Module], at: Mapping[str, int], seed: int) -> nn.Module:
    """Build a model with real values, leaving the caller's random numbers as they are."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        return build(**at)


def on_meta(build: Callable[..., nn.Module], at: Mapping[str, int]) -> nn.Module:
    """Build a model without memory."""
    with torch.device("meta"):
        return build(**at)


def extrapolated(
    base: Mapping[str, Any], target: Mapping[str, Any], powers: Mapping[str, Mapping[str, float]], name: str
) -> float:
    """Return how much larger the target's own initial values are than the base's, by the measured powers."""
    ratio = 1.0
    for key, of in powers.items():
        ratio *= (target[key] / base[key]) ** of.get(name, 0.0)
    return ratio
