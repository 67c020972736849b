"""Width and depth infinite at a fixed ratio: norms and correlations over the depth, and their laws at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.limits.proportional.record import Array, Proportional
from deeplimits.report import theme
from deeplimits.report.figures import bands
from deeplimits.report.figures.axes import short
from deeplimits.report.figures.bands import BandsData, band

PAIRS = 3
CURVE = 201
Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class LawData:
    """Histogram of one number over samples, and the density of its known law where there is one."""

    title: str
    label: str
    edges: tuple[float, ...]
    density: tuple[float, ...]
    known: tuple[tuple[float, float], ...] = ()
    name: str = ""

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        mode = self.edges[int(np.argmax(self.density))]
        text = f"Histogram of {self.label}, from {short(self.edges[0])} to {short(self.edges[-1])}, highest near "
        return text + short(mode) + (f"; over it the density of {self.name}." if self.known else ".")


def panels_of(record: Proportional) -> list[Panel]:
    """Drawing functions and their data for everything a proportional limit can show."""
    found: list[Panel] = []
    pairs = record.path.shape[-1] > 1
    if len(record.times) > 1:
        found.append((bands.draw, (norm_data(record),)))
        if pairs:
            found.append((bands.draw, (pair_data(record),)))
    if record.steps:
        found.append((draw_law, (norm_law(record),)))
        if pairs:
            found.append((draw_law, (pair_law(record),)))
    return found


def norm_data(record: Proportional) -> BandsData:
    """Take log V of the first input at every time."""
    title = f"{_where(record)}: the norm"
    label = "log V, half and nine tenths of samples"
    return BandsData(title, label, _times(record), (band("log V", record.path_log_norm[:, :, 0]),))


def pair_data(record: Proportional) -> BandsData:
    """Take, of the first input and up to three others, correlations or the angles that close, at every time."""
    others = range(1, min(record.path.shape[-1], PAIRS + 1))
    title = f"{_where(record)}: {'correlations' if record.angles is None else 'angles'}"
    if record.angles is None:
        rho = record.path_correlation
        found = tuple(band(f"inputs 0 and {b}", rho[:, :, 0, b]) for b in others)
        return BandsData(title, "correlation", _times(record), found)
    angles = record.angles
    found = tuple(band(f"inputs 0 and {b}", _logs(angles[:, :, 0, b])) for b in others)
    return BandsData(title, "log of l² (1 − ρ)", _times(record), found)


def norm_law(record: Proportional) -> LawData:
    """Take the histogram of log V of the first input beside its normal law, where it has one."""
    values = record.log_norm[:, 0]
    title = f"{_where(record)}: log V at the end"
    edges, density = _histogram(values)
    if record.log_moments is None:
        return LawData(title, "log V", edges, density)
    mean, variance = record.log_moments
    center, deviation = mean + float(np.log(record.start[0, 0])), variance**0.5
    grid = np.linspace(edges[0], edges[-1], CURVE)
    height = np.exp(-((grid - center) ** 2) / (2 * variance)) / (deviation * np.sqrt(2 * np.pi))
    known = tuple((float(x), float(y)) for x, y in zip(grid, height, strict=True))
    return LawData(title, "log V", edges, density, known, f"N({short(mean)}, {short(variance)}) about its start")


def pair_law(record: Proportional) -> LawData:
    """Take the histogram of the correlation of the first two inputs, or of the angle that closes."""
    title = f"{_where(record)}: inputs 0 and 1 at the end"
    if record.angles is None:
        return LawData(title, "correlation", *_histogram(record.correlation[:, 0, 1]))
    return LawData(title, "log of l² (1 − ρ)", *_histogram(_logs(record.angles[-1][:, 0, 1])))


def _where(record: Proportional) -> str:
    return f"depth/width {record.ratio:g}"


def _times(record: Proportional) -> tuple[float, ...]:
    return tuple(float(time) * record.ratio for time in record.times)


def _logs(angles: Array) -> Array:
    return np.log(np.where(angles > 0, angles, np.nan))


def _histogram(values: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    kept = values[np.isfinite(values)]
    low, high = (float(x) for x in np.quantile(kept, [0.002, 0.998])) if len(kept) else (-1.0, 1.0)
    margin = max(0.05 * (high - low), 1e-6)
    edges = np.linspace(low - margin, high + margin, max(8, min(60, int(len(kept) ** 0.5))) + 1)
    density = np.histogram(kept, edges)[0] / (max(len(kept), 1) * np.diff(edges))
    return tuple(edges.tolist()), tuple(density.tolist())


def draw_law(axes: Any, data: LawData) -> None:
    """Draw the histogram as an outline, the known density as a line."""
    axes.stairs(data.density, data.edges, fill=True, color=theme.LIGHT["band"])
    axes.stairs(data.density, data.edges, color=theme.LIGHT["muted"], linewidth=0.9, label="sampled")
    if data.known:
        x, y = zip(*data.known, strict=True)
        axes.plot(x, y, color=theme.LIGHT["accent"], label=data.name)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(data.label)
    axes.set_ylabel("density over samples")
    axes.set_title(data.title, pad=24 if data.known else 8)
