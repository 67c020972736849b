"""Residual networks in muP with branches times depth^-1/2: one best learning rate over width and depth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deeplimits.claims import agreement, depth_limit, residual
from deeplimits.claims.claim import Claim, Measured, Panel, Part, Step
from deeplimits.claims.residual import Size, Sweep
from deeplimits.plane.record import Estimate
from deeplimits.transfer.evidence.side_by_side import Training
from deeplimits.transfer.rule import get

HEADLINE = "octaves the best learning rate moves by, least to largest depth, Adam"
ONE_STEP = 1.0  # factor 2 of the learning rate
NOT_CIFAR = "the paper trains on CIFAR-10 and ImageNet; here, digits"
WIDTH_ONLY = replace(get("mup"), name="mup at any depth", any_depth=True)


@dataclass(frozen=True)
class Setting:
    """One optimizer, and whether a norm stands before the readout.

    `rates` are powers of two of its learning rates; without the branches' factor, those and the depths are `unscaled_`.
    """

    training: Training
    norm: bool
    rates: tuple[float, ...]
    unscaled_rates: tuple[float, ...]
    unscaled_depths: tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """Depths at the base's width and at the larger one, seeds, the settings of both optimizers, and of the limit."""

    width: int
    wide: int
    depths: tuple[int, ...]
    wide_depths: tuple[int, ...]
    seeds: int
    adam: Setting
    sgd: Setting
    limit: depth_limit.Sizes


def _sweeps(sizes: Sizes, setting: Setting, places: list[Size], scaled: bool) -> dict[Size, Sweep]:
    base, build = (sizes.width, sizes.depths[0]), residual.build(norm=setting.norm)
    rule, rates = ("depth_mup", setting.rates) if scaled else (WIDTH_ONLY, setting.unscaled_rates)
    seeds = range(6000, 6000 + sizes.seeds)
    return {size: residual.sweep(build, base, size, rule, rates, seeds, setting.training) for size in places}


def _measured(sizes: Sizes, setting: Setting, name: str) -> Measured:
    narrow, wide = (
        [(width, depth) for depth in depths]
        for width, depths in ((sizes.width, sizes.depths), (sizes.wide, sizes.wide_depths))
    )
    scaled = _sweeps(sizes, setting, narrow + wide, scaled=True)
    plain = _sweeps(sizes, setting, [(sizes.width, depth) for depth in setting.unscaled_depths], scaled=False)
    base, last = scaled[narrow[0]], scaled[narrow[-1]]
    moved = {size: residual.drift(base, found) for size, found in scaled.items() if size != narrow[0]}
    titles = {
        narrow[-1]: HEADLINE if name == "Adam" else HEADLINE.replace("Adam", name),
        wide[0]: f"octaves it moves by from width {sizes.width} to {sizes.wide}, {name}",
        wide[-1]: f"octaves it moves by from width {sizes.width}, depth {sizes.depths[0]} to {wide[-1]}, {name}",
    }
    parts: list[Part] = [
        agreement.between(
            title, 0.0, moved[size], -ONE_STEP, ONE_STEP, networks=sizes.seeds, paper=False, note=NOT_CIFAR
        )
        for size, title in titles.items()
    ]
    parts += _unscaled(sizes, base, list(plain.values()), last, name)
    shown = [
        residual.best_curve(f"width {sizes.width}", [scaled[size] for size in narrow]),
        residual.best_curve(f"width {sizes.wide}", [scaled[size] for size in wide]),
        residual.best_curve("without the factor", [base, *(found for found in plain.values() if not found.at_edge)]),
    ]
    basins = [scaled[size].curve(f"width {size[0]}, depth {size[1]}") for size in (narrow[0], narrow[-1], wide[-1])]
    return Measured(
        parts,
        [
            Panel(f"{name}: the best learning rate", "depth L", "log₂ of the best learning rate", shown),
            Panel(
                f"{name}: one basin", "log₂ of the learning rate", "loss on all digits", basins, x_scale="linear",
                y_scale="log",
            ),
        ],
    )  # fmt: skip


def _unscaled(sizes: Sizes, base: Sweep, plain: list[Sweep], scaled: Sweep, name: str) -> list[Part]:
    """Judge networks without the branches' factor: where they train, how far their best learning rate has moved."""
    options = {"networks": sizes.seeds, "paper": False, "note": NOT_CIFAR}
    parts = [
        agreement.above(
            f"log of the best loss at depth {scaled.size[1]}, without the factor over with it, {name}", 0.0,
            agreement.average(np.log(plain[-1].lowest / scaled.lowest)), **options,
        )
    ]  # fmt: skip
    for found in plain[:-1]:
        moved = residual.drift(base, found)
        title = f"octaves it falls by from depth {base.size[1]} to {found.size[1]} without the factor, {name}"
        parts.append(agreement.above(title, ONE_STEP, Estimate(-moved.value, moved.error), **options))
    return parts


def adam(sizes: Sizes) -> Measured:
    """Measure best learning rates of Adam, whose rates in blocks fall as depth^-1/2."""
    return _measured(sizes, sizes.adam, "Adam")


def sgd(sizes: Sizes) -> Measured:
    """Measure best learning rates of SGD with momentum, whose rates keep the depth's factor in the gradient."""
    return _measured(sizes, sizes.sgd, "SGD")


def limit(sizes: Sizes) -> Measured:
    """Measure how trained networks approach the mean-field limit of infinite width and depth."""
    return depth_limit.limit(sizes.limit)


CLAIM = Claim(
    key="bordelon-2023-depthwise-transfer",
    statement=(
        "Residual networks in muP with branches scaled by depth^-1/2 keep the best learning rate over width and depth; "
        "without the factor it falls with the depth. They approach a limit of infinite width and depth while training."
    ),
    source="bordelon-2023-depthwise-transfer",
    headline=HEADLINE,
    steps=(Step("adam", adam, 30.0), Step("sgd", sgd, 40.0), Step("limit", limit, 20.0)),
    full=Sizes(
        width=32,
        wide=128,
        depths=(4, 12, 48),
        wide_depths=(4, 12),
        seeds=20,
        adam=Setting(
            Training(steps=40, batch=32, warmup=5), norm=True, rates=(-7.0, -6.0, -5.0, -4.0, -3.0),
            unscaled_rates=(-9.0, -8.0, -7.0, -6.0, -5.0), unscaled_depths=(48,),
        ),
        sgd=Setting(
            Training(steps=60, batch=64, warmup=5, optimizer="sgd", momentum=0.9), norm=False,
            rates=(-6.0, -5.0, -4.0, -3.0, -2.0), unscaled_rates=(-10.0, -9.0, -8.0, -7.0, -6.0),
            unscaled_depths=(12, 48),
        ),
        limit=depth_limit.Sizes(
            depths=(6, 12, 24, 48), place=(256, 16, 30), activations=("identity", "tanh"), widths=(32, 64, 128),
            diagonal=((32, 4), (64, 8), (128, 16)), networks=150,
        ),
    ),
    reduced=Sizes(
        width=32,
        wide=64,
        depths=(4, 8, 12),
        wide_depths=(4, 8),
        seeds=2,
        adam=Setting(
            Training(steps=10, batch=16, warmup=2), norm=True, rates=(-6.0, -5.0, -4.0),
            unscaled_rates=(-8.0, -7.0, -6.0), unscaled_depths=(12,),
        ),
        sgd=Setting(
            Training(steps=10, batch=16, warmup=2, optimizer="sgd", momentum=0.9), norm=False, rates=(-5.0, -4.0, -3.0),
            unscaled_rates=(-9.0, -8.0, -7.0), unscaled_depths=(8, 12),
        ),
        limit=depth_limit.Sizes(
            depths=(4, 8), place=(32, 4, 8), activations=("identity",), widths=(16, 32), diagonal=((16, 2), (32, 4)),
            networks=16,
        ),
    ),
)  # fmt: skip
