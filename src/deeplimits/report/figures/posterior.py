"""Feature kernels of a Bayesian network: what data change in them, and from which width on that is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from deeplimits.limits.corrections.posterior_record import STRONG, PosteriorKernel, named
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, logarithmic, short

Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class MovedData:
    """Entries of the last layer's kernel at infinite width, and their change: the diagonal, and pairs of inputs."""

    title: str
    diagonal: tuple[tuple[float, float], ...]
    pairs: tuple[tuple[float, float], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        moved = max(abs(change) for _, change in (*self.diagonal, *self.pairs))
        return f"Change of the mean kernel's entries against their limit; the largest change is {short(moved)}."


@dataclass(frozen=True)
class StrengthData:
    """Strength of the leading order against width."""

    title: str
    widths: tuple[float, ...]
    strength: tuple[float, ...]
    valid_from: int

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        ends = f"from {short(self.strength[0])} at width {self.widths[0]:g} to {short(self.strength[-1])}"
        return (
            f"Strength of the order 1/width, {ends} at width {self.widths[-1]:g}; at most 1 from {self.valid_from} on."
        )


def panels_of(record: PosteriorKernel) -> list[Panel]:
    """Drawing functions and their data for a posterior kernel."""
    return [(draw_moved, (moved_data(record),)), (draw_strength, (strength_data(record),))]


def moved_data(record: PosteriorKernel) -> MovedData:
    """Take the last layer's entries at the widths asked for."""
    before, change = record.limit[-1], record.kernels[-1] - record.limit[-1]
    upper, own = np.triu_indices(len(before), 1), np.diag_indices(len(before))
    points = [tuple(zip(before[at].tolist(), change[at].tolist(), strict=True)) for at in (own, upper)]
    return MovedData(f"Last hidden layer, width {named(record.widths)}", *points)


def strength_data(record: PosteriorKernel) -> StrengthData:
    """Take the strength at powers of two around the widths asked for and the first valid one."""
    asked = [one for one in record.widths if isfinite(one)]
    low, high = np.log2([min([*asked, record.valid_from]), max([*asked, record.valid_from])])
    widths = tuple(2.0**power for power in range(max(0, int(low) - 1), int(np.ceil(high)) + 2))
    strength = tuple(record.strength(int(width)) for width in widths)
    return StrengthData("How far the order 1/width reaches", widths, strength, record.valid_from)


def draw_moved(axes: Any, data: MovedData) -> None:
    """Draw the changes as markers, none as a line."""
    axes.axhline(0.0, color=theme.LIGHT["muted"], linewidth=0.9)
    for points, marker, name in ((data.pairs, "o", "two inputs"), (data.diagonal, "s", "one input")):
        if points:
            x, y = zip(*points, strict=True)
            face = theme.LIGHT["accent"] if marker == "s" else theme.LIGHT["paper"]
            axes.plot(
                x, y, linestyle="none", marker=marker, markersize=5, color=theme.LIGHT["accent"],
                markerfacecolor=face, label=name,
            )  # fmt: skip
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2)
    axes.set_xlabel("kernel at infinite width")
    axes.set_ylabel("change of its mean given the data")
    axes.set_title(data.title, pad=24)


def draw_strength(axes: Any, data: StrengthData) -> None:
    """Draw the curve, the level 1, and the first width that is valid."""
    axes.plot(data.widths, data.strength, color=theme.LIGHT["accent"])
    axes.axhline(STRONG, color=theme.LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
    axes.axvline(data.valid_from, color=theme.LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
    logarithmic(axes.xaxis, data.widths)
    decades(axes.yaxis)
    axes.set_xlabel(f"width n; the order kept leads from {data.valid_from} on")
    axes.set_ylabel("strength of the order 1/n")
    axes.set_title(data.title)
