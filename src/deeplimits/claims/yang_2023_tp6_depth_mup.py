"""Depth-muP: branches and Adam's learning rates times depth^-1/2 keep the best learning rate of one-layer blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

import numpy as np
import torch

from deeplimits.claims import agreement, residual
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.residual import Sweep
from deeplimits.numerics.fit import slope
from deeplimits.plane.record import Estimate
from deeplimits.transfer.evidence.side_by_side import Runs, Training
from deeplimits.transfer.examples.data import digits
from deeplimits.transfer.exponents.depth import depth_class
from deeplimits.transfer.exponents.depth_measured import feature_diversity

HEADLINE = "octaves the best learning rate moves by, least to largest depth, Depth-muP"
ONE_STEP = 1.0  # factor 2 of the learning rate
NOT_CIFAR = "the paper trains on CIFAR-10; here, digits"
ALPHAS = {"depth_mup": 0.5, "completep": 1.0}


@dataclass(frozen=True)
class Sizes:
    """Width, depths, the powers of two of the learning rates, and the numbers of seeds of each step."""

    width: int
    depths: tuple[int, ...]
    rates: tuple[float, ...]
    unscaled_rates: tuple[float, ...]
    deep_rates: tuple[float, ...]
    seeds: int
    sweep: Training
    training: Training
    value_depth: int
    value_rates: tuple[float, ...]
    value_seeds: int
    value_training: Training
    diverse_depths: tuple[int, ...]
    diverse_seeds: int
    layers_seeds: int


def _sweeps(sizes: Sizes, rule: str, rates: tuple[float, ...]) -> list[Sweep]:
    base, seeds = (sizes.width, sizes.depths[0]), range(1000, 1000 + sizes.seeds)
    return [
        residual.sweep(residual.build(), base, (sizes.width, depth), rule, rates, seeds, sizes.sweep)
        for depth in sizes.depths
    ]


def transfers(sizes: Sizes) -> Measured:
    """Measure where the best learning rate lies at each depth, under Depth-muP and without any factor of the depth."""
    scaled = _sweeps(sizes, "depth_mup", sizes.rates)
    plain = _sweeps(sizes, "sp", sizes.unscaled_rates)
    (first, *_, last), count = sizes.depths, sizes.seeds
    parts = [
        agreement.between(
            HEADLINE, 0.0, residual.drift(scaled[0], scaled[-1]), -ONE_STEP, ONE_STEP, networks=count, paper=False,
            note=NOT_CIFAR,
        ),
        agreement.between(
            f"octaves it moves by from depth {first} to {sizes.depths[1]}, Depth-muP", 0.0,
            residual.drift(scaled[0], scaled[1]), -ONE_STEP, ONE_STEP, networks=count, paper=False, note=NOT_CIFAR,
        ),
        agreement.above(
            f"octaves it falls by from depth {first} to {last}, standard parametrization", ONE_STEP,
            _negative(residual.drift(plain[0], plain[-1])), networks=count, paper=False, note=NOT_CIFAR,
        ),
        agreement.above(
            f"log of the best loss at depth {last}, standard parametrization over Depth-muP", 0.0,
            _log_ratio(plain[-1], scaled[-1]), networks=count, paper=False, note=NOT_CIFAR,
        ),
    ]  # fmt: skip
    curves = [residual.best_curve(name, found) for name, found in (("Depth-μP", scaled), ("standard", plain))]
    return Measured(
        parts,
        [
            Panel("Where the best learning rate lies", "depth L", "log₂ of the best learning rate", curves),
            _basins("Depth-μP: one basin at every depth", scaled),
            _basins("Standard: the basin moves and closes", plain),
        ],
    )


def _basins(title: str, sweeps: list[Sweep]) -> Panel:
    curves = [found.curve(f"depth {found.size[1]}") for found in sweeps]
    return Panel(title, "log₂ of the learning rate", "loss on all digits", curves, x_scale="linear", y_scale="log")


def _negative(found: Estimate) -> Estimate:
    return Estimate(-found.value, found.error)


def _log_ratio(worse: Sweep, better: Sweep) -> Estimate:
    return agreement.average(np.log(worse.lowest / better.lowest))


def absolute_value(sizes: Sizes) -> Measured:
    """Measure the loss of networks with the absolute value beside ReLU's, each at its own best learning rate."""
    base, size = (sizes.width, sizes.depths[0]), (sizes.width, sizes.value_depth)
    seeds = range(2000, 2000 + sizes.value_seeds)
    relu, absolute = (
        residual.sweep(
            residual.build(activation), base, size, "depth_mup", sizes.value_rates, seeds, sizes.value_training
        )
        for activation in (torch.relu, torch.abs)
    )
    name = f"log of the best loss at depth {size[1]}, ReLU over the absolute value"
    ratio = _log_ratio(relu, absolute)
    return Measured(
        [agreement.above(name, 0.0, ratio, networks=sizes.value_seeds, paper=False, note=NOT_CIFAR)],
        [
            Panel(
                "The absolute value beside ReLU", "log₂ of the learning rate", "loss on all digits",
                [relu.curve("ReLU"), absolute.curve("absolute value")], x_scale="linear", y_scale="log",
            )
        ],
    )  # fmt: skip


def diversity(sizes: Sizes) -> Measured:
    """Measure what blocks of trained networks add to each other, with branches scaled by depth^-1/2 and by 1/depth."""
    depths, base = sizes.diverse_depths, (sizes.width, sizes.depths[0])
    seeds = range(3000, 3000 + sizes.diverse_seeds)
    parts: list[Part] = []
    curves, rough = [], {}
    for rule, alpha in ALPHAS.items():
        predicted = depth_class(alpha, 1 - alpha)
        states = [
            _states(residual.trained(residual.build(), base, (sizes.width, L), rule, (-5.0,), seeds, sizes.training))
            for L in depths
        ]
        found = [agreement.average([_variation(h) for h in at]) for at in states]
        fitted = slope(depths, [v.value for v in found], [v.error for v in found], CONFIDENCE)
        name = f"exponent in the depth of sum |h_l - h_(l-1)|^2 / |h_(l-1)|^2, trained, branches L^-{alpha:g}"
        parts.append(
            agreement.inside(name, predicted.variation, fitted, predicted.variation - 0.2, predicted.variation + 0.2)
        )
        rough[rule] = feature_diversity(states[-1])
        line = [found[0].value * (L / depths[0]) ** predicted.variation for L in depths]
        curves.append(
            Curve(f"branches {_power(-alpha)}; line: {_power(predicted.variation)}", [float(L) for L in depths],
                  [v.value for v in found], [v.error for v in found], line)
        )  # fmt: skip
    smooth, broken = rough["completep"], rough["depth_mup"]
    gap = Estimate(smooth.value - broken.value, hypot(smooth.standard_error, broken.standard_error))
    parts.append(
        agreement.above(
            f"feature diversity exponent at depth {depths[-1]}, branches 1/L minus L^-0.5", 0.0, gap, predicted=0.5,
            note=f"{smooth.value:.2f} and {broken.value:.2f}; 1 and 1/2 in the limit, but the start's 1/2 still shows",
        )
    )  # fmt: skip
    title = "Every block brings features of its own"
    return Measured(parts, [Panel(title, "depth L", "sum over blocks of |Δh|² / |h|²", curves, y_scale="log")])


def _states(runs: Runs) -> list[torch.Tensor]:
    """Return the hidden states of each network on a few digits, (blocks + 1, samples, width)."""
    x = digits()[0][:64]
    found = runs.each(lambda model, x: torch.stack(model.states(x)), x)[0]
    return list(found)


def _variation(states: torch.Tensor) -> float:
    """Return the sum over blocks of |h_l - h_(l-1)|^2 / |h_(l-1)|^2."""
    before = states[:-1].double()
    return float(((states[1:] - before).square().mean((1, 2)) / before.square().mean((1, 2))).sum())


def two_layers(sizes: Sizes) -> Measured:
    """Measure blocks of two layers under Depth-muP: where the best learning rate lies, and how lazily weights move."""
    seeds, base = range(4000, 4000 + sizes.layers_seeds), (sizes.width, sizes.depths[0])
    deep, last, parts = sizes.depths, sizes.depths[-1], []
    curves, sweeps = [], []
    middle = sizes.deep_rates.index(-6.0)
    for rule, alpha in ALPHAS.items():
        rates = sizes.deep_rates if rule == "depth_mup" else (-6.0,)
        moved = []
        for depth in deep:
            runs = residual.trained(
                residual.build(layers=2), base, (sizes.width, depth), rule, rates, seeds, sizes.training
            )
            moved.append(agreement.average(_relative(runs, middle if rule == "depth_mup" else 0)))
            if rule == "depth_mup":
                sweeps.append(residual.swept(runs, (sizes.width, depth), rates))
        predicted = depth_class(alpha, 1 - alpha).layer
        fitted = slope(deep, [m.value for m in moved], [m.error for m in moved], CONFIDENCE)
        name = f"exponent in the depth of the relative change of a block's inner weights, branches L^-{alpha:g}"
        parts.append(agreement.inside(name, predicted, fitted, predicted - 0.15, predicted + 0.15))
        line = [moved[0].value * (depth / deep[0]) ** predicted for depth in deep]
        curves.append(
            Curve(f"branches {_power(-alpha)}; line: {_power(predicted)}", [float(d) for d in deep],
                  [m.value for m in moved], [m.error for m in moved], line)
        )  # fmt: skip
    found = residual.drift(sweeps[0], sweeps[-1])
    parts.append(
        agreement.above(
            f"octaves the best learning rate moves by from depth {deep[0]} to {last}, two-layer blocks, Depth-muP",
            ONE_STEP, Estimate(abs(found.value), found.error), networks=sizes.layers_seeds, paper=False,
            note="the limitation shows in lazy inner weights, and on digits not yet in the best learning rate",
        )
    )  # fmt: skip
    title = "Two layers a block: lazy under Depth-μP"
    return Measured(parts, [Panel(title, "depth L", "relative change of inner weights", curves, y_scale="log")])


def _power(exponent: float) -> str:
    return {-1.0: "1/L", -0.5: "1/√L", 0.0: "1"}[exponent]


def _relative(runs: Runs, rate: int) -> np.ndarray:
    """Return |W after - W before| / |W before| of the first layers of all blocks, for each seed."""
    names = [name for name in runs.parameters if name.endswith("first.weight")]
    before = torch.stack([runs.start[name] for name in names], dim=1)
    after = torch.stack([runs.parameters[name][rate] for name in names], dim=1)
    return ((after - before).flatten(1).norm(dim=1) / before.flatten(1).norm(dim=1)).double().numpy()


CLAIM = Claim(
    key="yang-2023-tp6-depth-mup",
    statement=(
        "In residual networks with one layer a block, Depth-muP keeps the best learning rate at every depth and "
        "features diverse, most of all with the absolute value; blocks of two layers have no such parametrization."
    ),
    source="yang-2023-tp6-depth-mup",
    headline=HEADLINE,
    steps=(
        Step("transfers", transfers, 20.0),
        Step("absolute value", absolute_value, 30.0),
        Step("diversity", diversity, 8.0),
        Step("two layers", two_layers, 10.0),
    ),
    full=Sizes(
        width=32,
        depths=(4, 16, 64),
        rates=(-7.0, -6.0, -5.0, -4.0),
        unscaled_rates=(-9.0, -8.0, -7.0, -6.0, -5.0, -4.0),
        deep_rates=(-8.0, -7.0, -6.0, -5.0, -4.0),
        seeds=20,
        sweep=Training(steps=60, batch=64, warmup=5),
        training=Training(steps=40, batch=32, warmup=5),
        value_depth=8,
        value_rates=(-6.75, -5.75, -4.75),
        value_seeds=80,
        value_training=Training(steps=140, batch=64, warmup=5),
        diverse_depths=(32, 64, 128),
        diverse_seeds=8,
        layers_seeds=10,
    ),
    reduced=Sizes(
        width=32,
        depths=(4, 8, 16),
        rates=(-6.0, -5.0, -4.0),
        unscaled_rates=(-7.0, -6.0, -5.0),
        deep_rates=(-7.0, -6.0, -5.0),
        seeds=2,
        sweep=Training(steps=10, batch=16, warmup=2),
        training=Training(steps=10, batch=16, warmup=2),
        value_depth=4,
        value_rates=(-6.5, -5.5, -4.5),
        value_seeds=2,
        value_training=Training(steps=10, batch=16, warmup=2),
        diverse_depths=(8, 16),
        diverse_seeds=4,
        layers_seeds=2,
    ),
)
