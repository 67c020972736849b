"""Growth of log|relu(X)| against the width: negative up to 3, positive from 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.limits.diffusion.regime import Regime
from deeplimits.report import theme
from deeplimits.report.figures.axes import logarithmic, measured, short

SURE = 2.0  # standard errors from zero


@dataclass(frozen=True)
class RegimeData:
    """Measured growth with its standard error, the small-time drift, and exact numbers where they are known."""

    title: str
    widths: tuple[int, ...]
    measured: tuple[float, ...]
    error: tuple[float, ...]
    exact: tuple[tuple[int, float], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        rows = zip(self.widths, self.measured, self.error, strict=True)
        return "Mean growth of log R over layer time 1. " + "; ".join(
            f"width {n}: {short(value)} with standard error {short(error)}" for n, value, error in rows
        )


def panels_of(record: Regime) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing function and data of the one drawing."""
    return [(draw, (regime_data(record),))]


def regime_data(record: Regime) -> RegimeData:
    """Take every width, in order."""
    points = sorted(record.points, key=lambda point: point.width)
    below = [point.width for point in points if point.value + SURE * point.error < 0]
    above = [point.width for point in points if point.value - SURE * point.error > 0]
    exact = tuple((point.width, point.exact) for point in points if point.exact is not None)
    return RegimeData(
        _title(below, above),
        tuple(point.width for point in points),
        tuple(point.value for point in points),
        tuple(point.error for point in points),
        exact,
    )


def _title(below: list[int], above: list[int]) -> str:
    if below and above:
        return f"the sign changes between widths {max(below)} and {min(above)}"
    if below:
        return f"surely negative up to width {max(below)}"
    return f"surely positive from width {min(above)}" if above else "no sign is sure"


def draw(axes: Any, data: RegimeData) -> None:
    """Draw measured points with bars over the small-time drift, which is a line, and the line of no growth."""
    low, high = data.widths[0], data.widths[-1]
    n = np.geomspace(low / 1.2, high * 1.2, 200)
    drift = 1 / (4 * (1 - 2.0**-n)) - 1 / n
    axes.axhline(0.0, color=theme.LIGHT["muted"], linewidth=0.8)
    axes.axhline(0.25, color=theme.LIGHT["muted"], linewidth=0.8, linestyle=(0, (1.2, 1.6)))
    axes.annotate("infinite width, 1/4", (low, 0.25), xytext=(0, 3), textcoords="offset points", fontsize=8)
    axes.plot(n, drift, color=theme.LIGHT["ink"], label="drift at t = 0: 1/(4(1 − 2⁻ⁿ)) − 1/n")
    if data.exact:
        x, y = zip(*data.exact, strict=True)
        axes.plot(
            x, y, linestyle="none", marker="s", markersize=9, markerfacecolor="none",
            markeredgecolor=theme.LIGHT["accent"], label="exact (width 1; width 2, PDE)",
        )  # fmt: skip
    measured(axes, data.widths, data.measured, data.error, theme.LIGHT["ink"], theme.family(0), label="sampled")
    logarithmic(axes.xaxis, data.widths)
    axes.set_xlim(low / 1.3, high * 1.3)
    axes.set_ylim(top=max(0.32, 1.1 * max(data.measured)))
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), labelspacing=0.3)
    axes.set_xlabel("width n")
    axes.set_ylabel("mean of log(R₁/R₀), R = |relu(X)|")
    axes.set_title(data.title, pad=50)
