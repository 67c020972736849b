"""Copies of a family of models, built at sizes that are small enough to be filled with values and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import Any

from torch import nn

from deeplimits.errors import DeepLimitsError, InputError
from deeplimits.transfer.anatomy import initial
from deeplimits.transfer.anatomy.pairs import Pairs, grown, matched
from deeplimits.transfer.anatomy.products import Product
from deeplimits.transfer.anatomy.seen import followed, seen, tried
from deeplimits.transfer.anatomy.survey import Parameter, survey
from deeplimits.transfer.anatomy.width_factors import Wider

LARGE = 10_000_000
"""Entries of a base from which on a narrower copy stands for it."""
_PARTS = (2, 4, 8, 16, 32)

Sizes = dict[str, int]


@dataclass(frozen=True)
class Copies:
    """A family of models, and the sizes at which its copies are tried.

    Attributes:
        build: makes the model from its sizes.
        base: sizes of the base.
        target: sizes of the target.
        tried: sizes of what is run: the base, or where that is large a copy with the same blocks and narrower.
        doubled: {size that differs between base and target: what changes where it is doubled, from `tried` on}.
    """

    build: Callable[..., nn.Module]
    base: Sizes
    target: Sizes
    tried: Sizes
    doubled: Mapping[str, Sequence[Parameter]]

    def real(self, seed: int) -> nn.Module:
        """Return the model to be tried, with values."""
        return initial.materialised(self.build, self.tried, seed)

    def wider(self, seed: int) -> nn.Module | None:
        """Return the model to be tried with the sizes doubled that change no number of blocks; None without such."""
        keys = [key for key, pairs in self.doubled.items() if all(row.depth_ratio == 1 for row in pairs)]
        sizes = self.tried | {key: 2 * self.tried[key] for key in keys}
        return initial.materialised(self.build, sizes, seed) if keys else None

    def widths(self, seed: int) -> list[Wider]:
        """Return copies at other widths, one size at a time."""

        def make(key: str, times: int) -> nn.Module:
            return initial.materialised(self.build, self.tried | {key: times * self.tried[key]}, seed)

        return [
            Wider(partial(make, key), pairs, log2(self.target[key] / self.base[key]) / 2)
            for key, pairs in self.doubled.items()
            if all(row.depth_ratio == 1 for row in pairs)
        ]

    def pairs(self, inputs: Any, seed: int) -> Pairs:
        """Return the products of base and target, by the powers of the sizes that copies show.

        Args:
            inputs: what all of them take.
            seed: of the copies.
        """
        here = followed(self.real(seed), inputs).products
        sides: list[list[Product | None]] = [list(here), list(here)]
        for key, pairs in self.doubled.items():
            if any(row.depth_ratio != 1 for row in pairs):
                continue
            wider = (initial.materialised(self.build, self.tried | {key: n * self.tried[key]}, seed) for n in (2, 4))
            copies = list(
                zip(here, *(matched(here, tried(model, inputs).products, {}) for model in wider), strict=True)
            )
            for side, sizes in zip(sides, (self.base, self.target), strict=True):
                power = log2(sizes[key] / self.tried[key])
                side[:] = [p and grown(p, of, power) for p, of in zip(side, copies, strict=True)]
        return Pairs([a or b for a, b in zip(sides[0], here, strict=True)], sides[1])

    def laws(self, rows: Sequence[Parameter], seed: int) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return {name: size of the target's own initial values over the base's}, and {name: size of the base's}.

        Both follow from copies, by the powers of the sizes that are measured on them; where no power fits, the first is
        None, and the second is measured on the base.

        Args:
            rows: one record a parameter of the target.
            seed: of the copies.
        """
        matches = {key: {row.name: row.base_name for row in pairs} for key, pairs in self.doubled.items()}
        grows = {
            key: {row.base_name for row in pairs if row.fan_in_ratio != 1 or row.fan_out_ratio != 1}
            for key, pairs in self.doubled.items()
        }
        blocks = {
            key: {row.base_name for row in pairs if row.block and row.depth_ratio != 1}
            for key, pairs in self.doubled.items()
        }
        powers, sizes = initial.exponents(self.build, self.tried, matches, grows, blocks, seed)
        own = {row.name: initial.extrapolated(self.base, self.target, powers, row.base_name) for row in rows}
        to_base = {name: initial.extrapolated(self.tried, self.base, powers, name) for name in sizes}
        if self.tried != self.base and None in to_base.values():
            whole = initial.sizes(initial.materialised(self.build, self.base, seed))
            return own, {row.name: whole[row.base_name][0] for row in rows}
        return own, {row.name: sizes[row.base_name] * (to_base[row.base_name] or 1.0) for row in rows}


def copies(build: Callable[..., nn.Module], base: Sizes, target: Sizes, small: nn.Module, inputs: Any) -> Copies:
    """Choose the sizes at which a family is tried.

    Args:
        build: makes the model from its sizes.
        base: sizes of the base.
        target: sizes of the target.
        small: the base, on the meta device.
        inputs: what all of them take.

    Raises:
        InputError: doubling a size that differs between base and target changes nothing.
    """
    changed = [key for key in base if base[key] != target[key]]
    doubled = {key: _doubled(build, small, base, key) for key in changed}
    tried, stands = base, small
    widths = [key for key, pairs in doubled.items() if all(row.depth_ratio == 1 for row in pairs)]
    for part in _PARTS if widths else ():
        if sum(p.numel() for p in stands.parameters()) <= LARGE:
            break
        narrower = base | {key: base[key] // part for key in widths}
        try:
            model = initial.on_meta(build, narrower)
            fits = all(row.depth_ratio == 1 and row.name == row.base_name for row in survey(model, small))
            pairs = {key: _doubled(build, model, narrower, key) for key in changed}
        except (DeepLimitsError, ValueError, RuntimeError, AssertionError, ZeroDivisionError, TypeError):
            break  # the family has no such member: the last one that it has is taken
        if not fits or min(narrower.values()) < 1 or seen(model, inputs).failed != seen(small, inputs).failed:
            break
        tried, stands, doubled = narrower, model, pairs
    return Copies(build, base, target, tried, doubled)


def _doubled(build: Callable[..., nn.Module], model: nn.Module, at: Sizes, key: str) -> list[Parameter]:
    """Return what changes where a size is doubled."""
    try:
        return survey(model, initial.on_meta(build, {**at, key: 2 * at[key]}))
    except InputError as error:
        if "same width" not in error.why:
            raise
        why = f"doubling {key} changes nothing: build ignores it, or its blocks share their weights"
        fix = f"use {key} in the build function, or leave it out of base and target"
        raise InputError("transfer", why, fix) from None
