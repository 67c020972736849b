"""States of fixed width at infinite depth: their norm over layer time, its law at the end, their correlations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.limits.diffusion.record import Diffusion
from deeplimits.report import theme
from deeplimits.report.figures import bands
from deeplimits.report.figures.axes import short, size
from deeplimits.report.figures.bands import BandsData, band

PAIRS = 3
CURVE = 400
Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class TerminalData:
    """Density of log q at the end over samples, and the known law's density where there is one."""

    title: str
    edges: tuple[float, ...]
    density: tuple[float, ...]
    known: tuple[tuple[float, float], ...]
    p_value: float | None
    dead: int

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        mode = self.edges[int(np.argmax(self.density))]
        ends = f"from {short(self.edges[0])} to {short(self.edges[-1])}, highest near {short(mode)}"
        text = f"Histogram of log q at the end, {ends}."
        if self.p_value is not None:
            text += f" The density of the closed-form law lies over it; Kolmogorov-Smirnov p = {self.p_value:.2g}."
        return text + (f" {self.dead} samples have q = 0 and are left out." if self.dead else "")


def panels_of(record: Diffusion) -> list[Panel]:
    """Drawing functions and their data for everything a diffusion can show."""
    found: list[Panel] = []
    if len(record.times) > 1:
        found.append((bands.draw, (norm_data(record),)))
    found.append((draw_terminal, (terminal_data(record),)))
    if len(record.times) > 1 and record.gram.shape[1] > 1:
        found.append((bands.draw, (correlation_data(record),)))
    return found


def norm_data(record: Diffusion) -> BandsData:
    """Take log q of the first input at every time."""
    q = record.path[:, :, 0, 0]
    logs = np.log(np.where(q > 0, q, np.nan))
    title = f"{_where(record)}: the norm over layer time"
    return BandsData(title, "log q, half and nine tenths of samples", tuple(record.times), (band("log q", logs),))


def correlation_data(record: Diffusion) -> BandsData:
    """Take the correlation of the first input with up to three others at every time."""
    q = np.diagonal(record.path, axis1=2, axis2=3)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [
            band(f"inputs 0 and {j}", record.path[:, :, 0, j] / np.sqrt(q[:, :, 0] * q[:, :, j]))
            for j in range(1, min(record.gram.shape[1], PAIRS + 1))
        ]
    return BandsData(f"{_where(record)}: correlations", "correlation", tuple(record.times), tuple(found))


def terminal_data(record: Diffusion) -> TerminalData:
    """Take log q of the first input at the end, beside its closed-form law where the state itself is looked at."""
    q = record.gram[:, 0, 0]
    logs = np.log(q[q > 0])
    low, high = (float(x) for x in np.quantile(logs, [0.002, 0.998])) if len(logs) else (-1.0, 1.0)
    margin = max(0.05 * (high - low), 1e-6)
    edges = np.linspace(low - margin, high + margin, max(8, min(60, int(len(logs) ** 0.5))) + 1)
    density = np.histogram(logs, edges)[0] / (max(len(logs), 1) * np.diff(edges))
    law, known, p_value = record.closed_form, (), None
    if law is not None and record.times[-1] == 1 and np.array_equal(record.path[-1], record.gram):
        grid = np.linspace(edges[0], edges[-1], CURVE + 1)
        slope = np.diff(law.cdf_log_square(grid)) / np.diff(grid)
        known = tuple((float(x), float(y)) for x, y in zip((grid[1:] + grid[:-1]) / 2, slope, strict=True))
        p_value = float(stats.kstest(logs, law.cdf_log_square).pvalue)
    title = f"{_where(record)}: log q at the end"
    return TerminalData(title, tuple(edges.tolist()), tuple(density.tolist()), known, p_value, int((q <= 0).sum()))


def _where(record: Diffusion) -> str:
    return f"width {record.width}, depth {size(record.depth)}"


def draw_terminal(axes: Any, data: TerminalData) -> None:
    """Draw the histogram as an outline, the closed-form density as a line."""
    axes.stairs(data.density, data.edges, fill=True, color=theme.LIGHT["band"])
    axes.stairs(data.density, data.edges, color=theme.LIGHT["muted"], linewidth=0.9, label="sampled")
    if data.known:
        x, y = zip(*data.known, strict=True)
        name = f"closed form (Kolmogorov-Smirnov p = {data.p_value:.2g})"
        axes.plot(x, y, color=theme.LIGHT["accent"], label=name)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("log q")
    axes.set_ylabel("density over samples")
    axes.set_title(data.title, pad=24 if data.known else 8)
