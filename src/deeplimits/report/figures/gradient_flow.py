"""Networks in lazy training: their loss over time, the modes that carry the targets, and their law at the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.limits.training.lazy.record import GradientFlow
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, short

CURVE = 120
FASTER, SLOWER = 0.1, 10.0  # than the fastest and the slowest mode
VISIBLE = 1e-8  # of the largest eigenvalue: slower modes are left out
FALL = 1e-8  # of the loss at the start: less is not drawn
TALL = 1e5  # ratio of ends from which labels are thinned out
MOST = 4  # times drawn at the points
Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class LossData:
    """The loss over time, averaged over networks: of the mean, and with the spread of networks."""

    title: str
    label: str
    times: tuple[float, ...]
    total: tuple[float, ...]
    of_mean: tuple[float, ...]
    asked: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        return (
            f"Loss over {self.label}, from {short(self.total[0])} at {short(self.times[0])} to {short(self.total[-1])} "
            f"at {short(self.times[-1])}; of the mean alone {short(self.of_mean[0])} to {short(self.of_mean[-1])}."
        )


@dataclass(frozen=True)
class ModesData:
    """How long every mode lives, and which share of the targets it carries."""

    title: str
    label: str
    lifetimes: tuple[float, ...]
    shares: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        ends = f"{short(min(self.lifetimes))} to {short(max(self.lifetimes))}"
        largest = self.lifetimes[int(np.argmax(self.shares))]
        text = f"{len(self.lifetimes)} modes that live {ends}; the one that carries most of the targets lives "
        return f"{text}{short(largest)}, with a share of {short(max(self.shares))}."


@dataclass(frozen=True)
class LawData:
    """Mean and spread of networks at points, time by time."""

    title: str
    label: str
    x: tuple[float, ...]
    times: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    stds: tuple[tuple[float, ...], ...]
    rows: tuple[tuple[float, float], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [
            f"At time {_time(time)} means from {short(min(mean))} to {short(max(mean))}, standard deviations from "
            f"{short(min(std))} to {short(max(std))}."
            for time, mean, std in zip(self.times, self.means, self.stds, strict=True)
        ]
        return f"Mean and two standard deviations over networks, by {self.label}. " + " ".join(parts)


def panels_of(record: GradientFlow) -> list[Panel]:
    """Drawing functions and their data for everything a gradient flow can show."""
    found: list[Panel] = [(draw_law, (law_data(record),))]
    if _lifetimes(record).size:
        found += [(draw_loss, (loss_data(record),)), (draw_modes, (modes_data(record),))]
    return found


def loss_data(record: GradientFlow) -> LossData:
    """Take the loss from before the fastest mode moves until after the slowest has."""
    lifetimes = _lifetimes(record)
    times = np.geomspace(FASTER * lifetimes.min(), SLOWER * lifetimes.max(), CURVE)
    if record.law.dynamics.rule != "flow":
        times = np.unique(np.round(np.maximum(times, 1.0)))
    of_mean, of_spread = record.losses_at(times)
    asked = tuple(float(t) for t in np.unique(record.time) if times[0] <= t <= times[-1])
    total, mean = _tuples(of_mean + of_spread, of_mean)
    return LossData("Loss while training", _unit(record), tuple(times.tolist()), total, mean, asked)


def modes_data(record: GradientFlow) -> ModesData:
    """Take every mode that moves, and its share of |y|^2."""
    moves = _moves(record)
    shares = (record.law.mode_targets**2).sum(1)
    total = shares.sum()
    title = "Which modes carry the targets"
    lifetimes, parts = _tuples(_lifetimes(record), shares[moves] / (total if total else 1.0))
    return ModesData(title, _unit(record), lifetimes, parts)


def law_data(record: GradientFlow) -> LawData:
    """Take the first output at the first and the last times, over x where inputs are numbers."""
    mean = record.mean if record.mean.ndim == record.variance.ndim else record.mean[..., 0]
    times = np.atleast_1d(record.time)
    chosen = np.unique(np.linspace(0, len(times) - 1, min(MOST, len(times))).round().astype(int))
    means, stds = np.atleast_2d(mean)[chosen], np.atleast_2d(record.std)[chosen]
    line = record.points.shape[1] == 1
    order = np.argsort(record.points[:, 0] if line else means[-1], kind="stable")
    x = record.points[order, 0] if line else np.arange(len(order), dtype=float)
    label = "input" if line else "points, in the order of the last mean"
    output = "" if mean is record.mean else ", first output"
    title = f"Networks at {len(order)} points{output}"
    rows = tuple(zip(*_tuples(record.rows[:, 0], record.law.targets[:, 0]), strict=True)) if line else ()
    mean_lines, std_lines = _tuples(*means[:, order]), _tuples(*stds[:, order])
    return LawData(title, label, tuple(x.tolist()), tuple(times[chosen].tolist()), mean_lines, std_lines, rows)


def draw_loss(axes: Any, data: LossData) -> None:
    """Draw the loss as a line, that of the mean dashed, the times asked for as ticks on it."""
    ink, muted = theme.LIGHT["ink"], theme.LIGHT["muted"]
    axes.plot(data.times, data.total, color=ink, label="networks")
    axes.plot(data.times, data.of_mean, color=muted, linestyle=theme.family(1).line, label="their mean")
    if data.asked:
        at = np.interp(np.log(data.asked), np.log(data.times), np.log(np.maximum(data.total, 1e-300)))
        axes.plot(data.asked, np.exp(at), linestyle="none", marker="o", color=ink, label="asked for")
    top = max(data.total)
    axes.set_xlabel(data.label)
    axes.set_ylabel("½ Σ (f − y)²")
    _few_decades(axes.xaxis)
    decades(axes.yaxis)
    axes.set_ylim(max(min(data.of_mean), FALL * top), 2 * top)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=3, columnspacing=1.0)
    axes.set_title(data.title, pad=24)


def draw_modes(axes: Any, data: ModesData) -> None:
    """Draw one marker a mode."""
    axes.plot(data.lifetimes, data.shares, linestyle="none", marker="o", markersize=4, color=theme.LIGHT["ink"])
    axes.set_xlabel(f"lifetime of the mode, {data.label}")
    axes.set_ylabel("share of |y|²")
    _few_decades(axes.xaxis)
    if min(data.shares) > 0:
        decades(axes.yaxis)
        axes.set_ylim(bottom=max(axes.get_ylim()[0], FALL))
    axes.set_title(data.title)


def draw_law(axes: Any, data: LawData) -> None:
    """Draw means as lines with bands of two standard deviations, in the colour of their time."""
    colours = theme.scales(range(len(data.times)))
    x = np.array(data.x)
    for place, (time, mean, std) in enumerate(zip(data.times, data.means, data.stds, strict=True)):
        low, high = np.array(mean) - 2 * np.array(std), np.array(mean) + 2 * np.array(std)
        axes.fill_between(x, low, high, color=colours[place], alpha=0.18, linewidth=0)
        marker = "" if data.rows or len(x) > 60 else "o"
        axes.plot(x, mean, color=colours[place], marker=marker, markersize=3, label=f"t = {_time(time)}")
    if data.rows:
        axes.plot(*zip(*data.rows, strict=True), linestyle="none", marker="x", color=theme.LIGHT["accent"], zorder=3)
    axes.set_xlabel(data.label)
    axes.set_ylabel("mean and 2 standard deviations")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=4, columnspacing=1.0)
    axes.set_title(data.title, pad=24)


def _few_decades(axis: Any) -> None:
    """Make the axis logarithmic, with room between its labels."""
    from matplotlib.ticker import LogLocator

    decades(axis)
    low, high = axis.get_view_interval()
    if high > TALL * low:
        axis.set_major_locator(LogLocator(base=10.0, numticks=6))


def _moves(record: GradientFlow) -> Any:
    mu = record.eigenvalues + record.law.dynamics.ridge
    return (mu > VISIBLE * mu[-1]) & (record.convergence_times > 0)


def _lifetimes(record: GradientFlow) -> Any:
    return record.convergence_times[_moves(record)]


def _unit(record: GradientFlow) -> str:
    return "rate × steps" if record.law.dynamics.rule == "flow" else "steps"


def _time(value: float) -> str:
    return "∞" if value == inf else short(value)


def _tuples(*columns: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in column) for column in columns)
