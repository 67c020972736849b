"""How large the initial values of a family's parameters are, as a function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import log, sqrt
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.names import bare, pooled

STANDARD_ERRORS = 5.0
COPIES = 4
Hold = Callable[[nn.Parameter], AbstractContextManager[Any]]
ENOUGH = 2_000_000
_SUM = torch.float32
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
                rows = torch.linalg.vector_norm(
                    parameter.detach(), dim=-1, dtype=torch.promote_types(parameter.dtype, _SUM)
                )
                square = (
                    rows.double().square().sum() / parameter.numel()
                )  # no copy of all values, and no long float sum
                full = getattr(square, "full_tensor", None)
                found[bare(name)] = (float(full() if full else square) ** 0.5, parameter.numel())
    return found


def exponents(
    build: Callable[..., nn.Module],
    base: Mapping[str, int],
    matches: Mapping[str, Mapping[str, str]],
    grows: Mapping[str, set[str]],
    blocks: Mapping[str, set[str]],
    seed: int,
) -> tuple[dict[str, dict[str, float | None]], dict[str, float]]:
    """Return how initial values depend on the sizes, and how large they are, from copies of the base and of twice it.

    The first is {size: {name in the base: its power}}, None where no multiple of 1/2 fits, or where the values of
    blocks depend on their place: `apply` measures these. The second is {name in the base: root mean square}, pooled
    over blocks where they are alike.

    Args:
        build: makes the model from its sizes.
        base: the sizes of the base.
        matches: {size that changes: {name in the larger copy: name in the base}}.
        grows: {size that changes: names in the base of the parameters whose shape it changes}.
        blocks: {size that changes: names in the base of the parameters of blocks whose number it changes}.
        seed: of the copies.
    """
    shapes = {bare(name): tuple(p.shape) for name, p in on_meta(build, base).named_parameters()}
    peers = list(pooled(shapes).values())
    own = _pooled(build, base, {}, seed)
    first, uneven = _alike(own, peers)
    found: dict[str, dict[str, float | None]] = {}
    for key, match in matches.items():
        larger, _ = _alike(_pooled(build, {**base, key: 2 * base[key]}, match, seed + COPIES), peers)
        powers: dict[str, list[float]] = {}
        for name, (square, count) in larger.items():
            old, old_count = first[name]
            if square and old:
                power = log(square / old) / log(2) / 2
                error = _error(count, old_count) / log(2)
                powers[name] = sorted((p for p in _POWERS if abs(power - p) <= error), key=lambda p: abs(power - p))
        open_ends = uneven & blocks[key]
        found[key] = {name: None if name in open_ends else _decided(name, powers, grows[key]) for name in powers}
    return found, {name: sqrt(square) for name, (square, _) in first.items()}


def _error(count: int, other: int) -> float:
    """Return how far the logarithms of two measured sizes may lie apart by chance."""
    return STANDARD_ERRORS * sqrt(1 / count + 1 / other)


def _alike(
    measured: Mapping[str, tuple[float, int]], peers: Iterable[list[str]]
) -> tuple[dict[str, tuple[float, int]], set[str]]:
    """Pool what differs by its place only and has one size; returns the names of what has not, as well."""
    found, uneven = dict(measured), set[str]()
    for names in peers:
        by_size = sorted(names, key=lambda name: measured[name][0])
        (low, count), (high, other) = measured[by_size[0]], measured[by_size[-1]]
        if low != high and (not low or log(high / low) / 2 > _error(count, other)):
            uneven |= set(names)
        else:
            total = sum(measured[name][1] for name in names)
            mean = sum(measured[name][0] * measured[name][1] for name in names) / total
            found |= dict.fromkeys(names, (mean, total))
    return found, uneven


def _decided(name: str, powers: Mapping[str, list[float]], grows: set[str]) -> float | None:
    """Return a parameter's power; where few values leave several open, that of the weight beside it, if it grows."""
    weight = f"{name.rpartition('.')[0]}.weight"
    beside = powers.get(weight, []) if weight in grows else [0.0]
    if len(powers[name]) > 1 and len(beside) == 1 and beside[0] in powers[name]:
        return beside[0]
    return powers[name][0] if powers[name] else None


def _pooled(
    build: Callable[..., nn.Module], at: Mapping[str, int], match: Mapping[str, str], seed: int
) -> dict[str, tuple[float, int]]:
    """Return {name in the base: (mean square of the values, number of values)} over a few copies, blocks pooled."""
    sums: dict[str, tuple[float, int]] = {}
    for copy in range(COPIES):
        if sum(number for _, number in sums.values()) > ENOUGH:
            break
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
    base: Mapping[str, Any], target: Mapping[str, Any], powers: Mapping[str, Mapping[str, float | None]], name: str
) -> float | None:
    """Return how much larger the target's own initial values are than the base's, by the measured powers."""
    ratio = 1.0
    for key, of in powers.items():
        power = of.get(name, 0.0)
        if power is None:
            return None
        ratio *= (target[key] / base[key]) ** power
    return ratio
