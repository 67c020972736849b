"""Quantile bands over layer time: a median as a line, the middle half and nine tenths as bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.report import theme
from deeplimits.report.figures.axes import short

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Band:
    """Quantiles at `LEVELS` of one number over samples at every time, and what it is called."""

    name: str
    quantiles: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class BandsData:
    """Bands over layer time."""

    title: str
    label: str
    times: tuple[float, ...]
    bands: tuple[Band, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [f"{self.label} against layer time, median with bands of 50 % and 90 % of the samples."]
        for band in self.bands:
            first, last = band.quantiles[0], band.quantiles[-1]
            parts.append(
                f"{band.name}: median from {short(first[2])} to {short(last[2])}, at the end 90 % between "
                f"{short(last[0])} and {short(last[4])}."
            )
        return " ".join(parts)


def band(name: str, values: Any) -> Band:
    """Take the quantiles of values, (T, S); numbers that are not finite are left out."""
    rows = [
        np.quantile(row[np.isfinite(row)], LEVELS) if np.isfinite(row).any() else np.full(5, np.nan) for row in values
    ]
    return Band(name, tuple(tuple(float(value) for value in row) for row in rows))


def draw(axes: Any, data: BandsData) -> None:
    """Draw every band in the colour of its rank, its name at the end of its median."""
    colours = _colours(len(data.bands))
    times = list(data.times)
    marker = "o" if len(times) <= 12 else ""
    for one, colour in zip(data.bands, colours, strict=True):
        q = np.array(one.quantiles).T
        if len(data.bands) == 1:
            axes.fill_between(times, q[0], q[4], color=colour, alpha=0.15, linewidth=0)
        axes.fill_between(times, q[1], q[3], color=colour, alpha=0.25, linewidth=0)
        axes.plot(times, q[2], color=colour, marker=marker, markersize=3.5, label=one.name)
    axes.set_xlabel("layer time t")
    axes.set_ylabel(data.label)
    axes.set_xlim(times[0], times[-1])
    if len(data.bands) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=min(len(data.bands), 3), columnspacing=1.0)
    axes.set_title(data.title, pad=24 if len(data.bands) > 1 else 8)


def _colours(count: int) -> Sequence[str]:
    return list(theme.scales(range(count)).values()) if count > 1 else [theme.LIGHT["ink"]]
