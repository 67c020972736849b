"""How large the initial values of a family's parameters are, as a function of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import log, prod, sqrt
from typing import Any

import torch
from torch import nn

from deeplimits.errors import InputError
from deeplimits.transfer.anatomy.names import bare, pooled

STANDARD_ERRORS = 5.0
COPIES, MORE = 4, 16
"""Copies that are measured, and those where few values (a vector, say) leave it open how they grow."""
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

    def measured(copies: int) -> tuple[dict[str, tuple[float, int]], set[str], dict[str, dict[str, _Power]]]:
        first, uneven = _alike(_pooled(build, base, {}, seed, copies), peers)
        wider = {
            key: _alike(_pooled(build, {**base, key: 2 * base[key]}, match, seed + copies, copies), peers)[0]
            for key, match in matches.items()
        }
        return first, uneven, {key: _powers(first, larger) for key, larger in wider.items()}

    first, uneven, powers = measured(COPIES)
    few = COPIES * sum(prod(shape) for shape in shapes.values()) <= ENOUGH
    if few and any(_open(name, powers[key], grows[key]) for key in powers for name in powers[key]):
        first, uneven, powers = measured(MORE)
    found: dict[str, dict[str, float | None]] = {
        key: {name: None if name in uneven & blocks[key] else _decided(name, of, grows[key]) for name in of}
        for key, of in powers.items()
    }
    return found, {name: sqrt(square) for name, (square, _) in first.items()}


@dataclass(frozen=True)
class _Power:
    """Powers of a size that fit how a parameter's values grow, nearest first; whether it can be told which it is."""

    fits: list[float]
    clear: bool


def _powers(first: Mapping[str, tuple[float, int]], larger: Mapping[str, tuple[float, int]]) -> dict[str, _Power]:
    found = {}
    for name, (square, count) in larger.items():
        old, old_count = first[name]
        if square and old:
            power = log(square / old) / log(2) / 2
            error = _error(count, old_count) / log(2)
            apart = {p: abs(power - p) for p in _POWERS}
            fits = sorted((p for p in _POWERS if apart[p] <= error), key=lambda p: apart[p])
            clear = error / sqrt(2) < sorted(apart.values())[1]  # of normal values the root mean square errs so much
            found[name] = _Power(fits, clear or len(fits) < 2)
    return found


def _weight(name: str) -> str:
    """Return the name of the weight beside a parameter."""
    return f"{name.rpartition('.')[0]}.weight"


def _open(name: str, powers: Mapping[str, _Power], grows: set[str]) -> bool:
    """Say whether more values must tell how a parameter grows that grows in shape."""
    beside = powers.get(_weight(name)) if _weight(name) in grows else None
    return name in grows and not powers[name].clear and not (beside is not None and beside.clear)


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


def _decided(name: str, powers: Mapping[str, _Power], grows: set[str]) -> float | None:
    """Return a parameter's power; where few values leave several open, that of the weight beside it, if it grows."""
    beside = [] if name in grows else [0.0]
    if _weight(name) in grows:
        beside = powers[_weight(name)].fits[:1] if _weight(name) in powers else []
    fits = powers[name].fits
    if len(fits) > 1 and beside and beside[0] in fits:
        return beside[0]
    return fits[0] if fits else None


def _pooled(
    build: Callable[..., nn.Module], at: Mapping[str, int], match: Mapping[str, str], seed: int, copies: int
) -> dict[str, tuple[float, int]]:
    """Return {name in the base: (mean square of the values, number of values)} over a few copies, blocks pooled."""
    sums: dict[str, tuple[float, int]] = {}
    for copy in range(copies):
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
