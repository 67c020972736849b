"""CompleteP: muP in width and branches scaled by 1/depth carry the best learning rate to wider and deeper networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf, log

import numpy as np

from deeplimits.claims.claim import CONFIRMED, UNDECIDED, Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.transfer.evidence.curves import Transfer, summarise
from deeplimits.transfer.evidence.optimum import minimum
from deeplimits.transfer.evidence.side_by_side import Training, side_by_side
from deeplimits.transfer.examples import mlp
from deeplimits.transfer.examples.data import digits
from deeplimits.transfer.examples.training import loss_of
from deeplimits.transfer.make import transfer
from deeplimits.transfer.rule import Rule, get

HEADLINE = "octaves between the best learning rates, width and depth together, CompleteP"
TRAINING = Training(steps=60, batch=128, warmup=5)
OTHERS = "the paper trains transformers on text; here, residual perceptrons on digits"
NAMES = {"sp": "standard", "mup": "μP alone", "depth_mup": "branches L^-0.5", "completep": "CompleteP"}
Rates = tuple[float, ...]
Size = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """Sizes that grow along one line, the base first, and what is tried there.

    Attributes:
        sizes: (width, depth).
        rates: {rule: base-2 logarithms of the base's learning rates}.
        drifts: bars; rules whose best learning rate falls by at least so many octaves.
        span: under the other rules it stays within so many octaves.
        seeds: number of initial values and orders of the data; more where optima are flat.
        ratio: bounds of the loss at the largest size over that of the base: from below for the standard rule, from
            above for the others.
    """

    sizes: tuple[Size, ...]
    rates: dict[str, Rates]
    drifts: dict[str, float]
    seeds: int = 3
    span: float = 0.75
    ratio: tuple[float, float] | None = None


@dataclass(frozen=True)
class Sizes:
    """The rows."""

    width: Row
    depth: Row
    joint: Row


def transfers(row: Row, done: Callable[[str], None] = lambda name: None) -> dict[str, Transfer]:
    """Return {rule: its learning-rate curves}, every learning rate and seed of a size trained side by side.

    Args:
        row: sizes, rules and seeds.
        done: called with each rule that is finished.
    """
    base, found = row.sizes[0], {}
    for name, rates in row.rates.items():
        losses = []
        for size in row.sizes:
            losses.append(_losses(base, size, _rule(name), rates, range(7000, 7000 + row.seeds)))
        named = [{"width": width, "depth": depth} for width, depth in row.sizes]
        words = f"{TRAINING.steps} steps, {TRAINING.warmup} of them warm-up, then linearly to zero"
        found[name] = summarise(NAMES[name], named, rates, np.array(losses), row.span, schedule=words)
        done(name)
    return found


@one_thread()
def _losses(base: Size, size: Size, rule: Rule, rates: Rates, seeds: range) -> np.ndarray:
    """Return the losses on all digits of one size, trained as the plan of a rule says, (learning rates, seeds)."""
    small, large = ({"width": width, "depth": depth} for width, depth in (base, size))
    plan = None if size == base else transfer(mlp.build, small, large, rule, "adam")
    with _without_denormals():
        runs = side_by_side(mlp.build, large, plan, [2.0**k for k in rates], seeds, loss_of, digits(), TRAINING)
        return runs.losses(loss_of, *digits())


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Take numbers below the smallest normal one for zero inside: they cost a hundred times a normal one."""
    import torch

    tiny = torch.full((1,), 1e-320, dtype=torch.float64)
    before = not bool(2 * tiny)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _rule(name: str) -> Rule:
    """Return a rule; muP for any depth, to see what it leaves out."""
    return replace(get(name), name="mup at any depth", any_depth=True) if name == "mup" else get(name)


def _measured(row: Row, where: str) -> Measured:
    found = transfers(row)
    parts: list[Part] = []
    for name, one in found.items():
        title = f"{where}, {NAMES[name]}"
        if name in row.drifts:
            low, words = row.drifts[name], f"octaves the best learning rate falls by, {title}"
            parts.append(_bar(words, -one.drift, _error(one, _drift), low, None))
        else:
            words = f"octaves between the best learning rates, {title}"
            parts.append(_bar(words, one.span, _error(one, _span), 0.0, row.span))
        if row.ratio is not None:
            words = f"loss at the optimum, largest over base, {title}"
            low, high = (row.ratio[0], None) if name == "sp" else (0.0, row.ratio[1])
            parts.append(_bar(words, one.loss_ratio, _error(one, _ratio), low, high))
    return Measured(parts, [_panel(one, where) for one in found.values()])


def width(sizes: Sizes) -> Measured:
    """Measure the best learning rates as the width grows."""
    return _measured(sizes.width, "width")


def depth(sizes: Sizes) -> Measured:
    """Measure the best learning rates, and the losses there, as the depth grows."""
    return _measured(sizes.depth, "depth")


def joint(sizes: Sizes) -> Measured:
    """Measure the best learning rates as width and depth grow together, and which rule ends lowest."""
    made = _measured(sizes.joint, "width and depth together")
    panels = {name: panel for name, panel in zip(sizes.joint.rates, made.panels, strict=True)}
    lowest = {name: _lowest(panel) for name, panel in panels.items()}
    margin = min(value for name, value in lowest.items() if name != "completep") - lowest["completep"]
    name = "log of the largest network's best loss, the better of the others over CompleteP"
    return Measured([*made.parts, _bar(name, margin, None, 0.0, None)], made.panels)


def _lowest(panel: Panel) -> float:
    return min(log(value) for value in panel.curves[-1].measured or [inf])


def _bar(name: str, value: float, error: float | None, low: float, high: float | None) -> Part:
    """Judge a number by a bar: the point estimate at fixed seeds, without a level."""
    ends = f"at least {low:g}" if high is None else f"at most {high:g}"
    test = f"{ends}, a bar set beforehand from other seeds, for the estimate at fixed seeds"
    verdict = CONFIRMED if low <= value <= (inf if high is None else high) else UNDECIDED
    return Part(name, low, value, error, test, verdict, low, high, paper=False, note=OTHERS)


def _error(one: Transfer, statistic: Callable[[list[tuple[float, float]]], float]) -> float:
    """Return the jackknife standard error over seeds of a function of the (place, loss) of every size's optimum."""
    losses = np.array([curve.losses for curve in one.curves])
    x, count = np.array(one.curves[0].log2_lrs), losses.shape[2]
    without = [np.delete(losses, seed, axis=2) for seed in range(count)]
    values = [statistic([minimum(x, at)[:2] for at in list(each)]) for each in without]
    return float(((count - 1) * np.var(values)) ** 0.5)


def _drift(best: list[tuple[float, float]]) -> float:
    return best[-1][0] - best[0][0]


def _span(best: list[tuple[float, float]]) -> float:
    return float(np.ptp([place for place, _ in best]))


def _ratio(best: list[tuple[float, float]]) -> float:
    return best[-1][1] / best[0][1]


def _panel(one: Transfer, where: str) -> Panel:
    curves = []
    for curve in one.curves:
        logs = np.log(np.array(curve.losses))
        kept = np.flatnonzero(np.isfinite(logs).all(axis=1))
        means = np.exp(logs[kept].mean(1))
        errors = means * logs[kept].std(1, ddof=1) / logs.shape[1] ** 0.5
        x = [curve.log2_lrs[place] for place in kept]
        best = f"{curve.best_log2_lr:.2f}".replace("-", "−")
        shown = f"width {curve.size['width']}, depth {curve.size['depth']}: best at {best}"
        curves.append(Curve(shown, x, means.tolist(), errors.tolist()))
    title = f"{one.rule}, {where}"
    return Panel(title, "log₂ of the base's learning rate", "loss on all digits", curves, "linear", "log")


def _powers(low: int, high: int) -> Rates:
    return tuple(float(k) for k in range(low, high + 1))


FULL = Sizes(
    Row(
        ((32, 2), (64, 2), (128, 2), (256, 2)),
        {"sp": _powers(-10, -3), "mup": _powers(-8, -2)},
        {"sp": 2.0},
        seeds=8,
    ),
    Row(
        ((32, 4), (32, 16), (32, 64)),
        {name: _powers(-9, -2) for name in ("sp", "depth_mup", "completep")},
        {"sp": 1.25},
        ratio=(3.0, 1.25),
    ),
    Row(
        ((32, 4), (64, 12), (128, 32)),
        {"sp": _powers(-12, -3), "mup": _powers(-9, -2), "completep": _powers(-8, -2)},
        {"sp": 2.5, "mup": 0.8},
    ),
)
REDUCED = Sizes(
    Row(((32, 2), (128, 2)), {"sp": _powers(-8, -3), "mup": _powers(-6, -3)}, {"sp": 1.0}),
    Row(
        ((32, 4), (32, 8)),
        {"sp": _powers(-7, -3), "completep": _powers(-6, -3)},
        {"sp": 0.25},
        ratio=(1.25, 1.25),
        seeds=2,
    ),
    Row(((32, 4), (64, 8)), {"sp": _powers(-7, -3), "completep": _powers(-6, -3)}, {"sp": 0.5}, seeds=2),
)
CLAIM = Claim(
    key="dey-2025-completep",
    statement=(
        "With μP in width and branches scaled by 1/depth, the learning rate that is best for a small network is best "
        "for a wider and deeper one; without, it falls, and the deeper network ends worse."
    ),
    source="dey-2025-completep",
    headline=HEADLINE,
    steps=(Step("width", width, 75.0), Step("depth", depth, 60.0), Step("joint", joint, 130.0)),
    full=FULL,
    reduced=REDUCED,
)
