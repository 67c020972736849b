"""A deep linear network while it trains: strength of its modes and its loss over time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.limits.training.linear.record import DeepLinear
from deeplimits.report import theme
from deeplimits.report.figures.axes import beside, decades, short, spread

SHOWN = 6


@dataclass(frozen=True)
class ModesData:
    """Strengths of modes over time, with the targets they tend to."""

    title: str
    label: str
    times: tuple[float, ...]
    strengths: tuple[tuple[float, ...], ...]
    targets: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [
            f"mode {i} from {short(u[0])} to {short(u[-1])}, target {short(s)}"
            for i, (u, s) in enumerate(zip(self.strengths, self.targets, strict=True))
        ]
        return f"Strength of modes up to {self.label} = {short(self.times[-1])}: {'; '.join(parts)}."


@dataclass(frozen=True)
class LossData:
    """Loss over time, above the least that is possible."""

    title: str
    label: str
    times: tuple[float, ...]
    excess: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        return f"Loss above its least, from {short(self.excess[0])} to {short(self.excess[-1])}."


def panels_of(record: DeepLinear) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing functions and data: modes, and the loss."""
    return [(draw_modes, (modes_data(record),)), (draw_loss, (loss_data(record),))]


def modes_data(record: DeepLinear) -> ModesData:
    """Take the modes, a few of them spread over their targets where there are many."""
    count = len(record.targets)
    shown = np.unique(np.linspace(0, count - 1, min(SHOWN, count)).round().astype(int))
    number = "∞" if record.layers == inf else f"{record.layers:g}"
    some = "" if len(shown) == count else f" ({len(shown)} of {count})"
    return ModesData(
        f"{number} matri{'x' if record.layers == 1 else 'ces'}: strength of the modes{some}", _label(record),
        tuple(record.times.tolist()), tuple(tuple(record.strengths[:, i].tolist()) for i in shown),
        tuple(record.targets[shown].tolist()),
    )  # fmt: skip


def loss_data(record: DeepLinear) -> LossData:
    """Take the loss without its floor."""
    excess = (record.speeds * (record.strengths - record.targets) ** 2).sum(1) / 2
    return LossData(
        f"Loss above {short(record.floor)}", _label(record), tuple(record.times.tolist()), tuple(excess.tolist())
    )


def _label(record: DeepLinear) -> str:
    return "matrices × rate × steps" if record.layers == inf else "rate × steps"


def draw_modes(axes: Any, data: ModesData) -> None:
    """Draw a line a mode, small targets warm and large ones cool, and a thin line at its target."""
    colours = theme.scales(range(len(data.targets)))
    top = max(max(data.targets), max(max(u) for u in data.strengths), 1e-300)
    places = spread([u[-1] for u in data.strengths], 0.06 * top)
    for i, (u, s, place) in enumerate(zip(data.strengths, data.targets, places, strict=True)):
        colour = colours[len(data.targets) - 1 - i]
        axes.axhline(s, color=theme.LIGHT["muted"], linewidth=0.7, linestyle=(0, (1.2, 1.6)))
        axes.plot(data.times, u, color=colour, marker="o" if len(u) <= 12 else "", markersize=3.5)
        beside(axes, data.times[-1], place, f"s = {short(s)}", colour)
    _frame(axes, data.times, data.label, "strength of the product", data.title)
    axes.set_ylim(bottom=0)


def draw_loss(axes: Any, data: LossData) -> None:
    """Draw the loss, logarithmic as far as rounding lets it be."""
    least = 1e-14 * max(data.excess)
    shown = np.where(np.array(data.excess) > least, data.excess, np.nan)
    axes.plot(data.times, shown, color=theme.LIGHT["ink"], marker="o" if len(shown) <= 12 else "", markersize=3.5)
    if np.isfinite(shown).any():
        axes.set_yscale("log")
        decades(axes.yaxis)
    _frame(axes, data.times, data.label, "excess of ½ Σ (f − y)²", data.title)


def _frame(axes: Any, times: tuple[float, ...], x: str, y: str, title: str) -> None:
    if len(times) > 1:
        axes.set_xlim(times[0], times[-1])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
