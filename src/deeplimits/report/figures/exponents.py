"""How each module's update scales along one axis: exponents with intervals beside their predictions, worst first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import measured
from deeplimits.transfer.evidence.coordinates import Coordinate, CoordinateCheck

ROWS = 14
REACH = 1.6


@dataclass(frozen=True)
class ExponentsData:
    """Exponents along one axis, the worst first; `left_out` of those that follow are not drawn."""

    title: str
    axis: str
    margin: float
    rows: tuple[Coordinate, ...]
    left_out: int

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        words = "; ".join(f"{row.module} {row.slope.value:+.2f} ({row.verdict})" for row in self.rows[:4])
        return f"Exponents of updates in {self.axis}, the worst first: {words}. Margin {self.margin:g}."


def exponents_data(check: CoordinateCheck, axis: str) -> ExponentsData | None:
    """Take the modules with the largest deviations along one axis."""
    every = [c for c in check.coordinates if c.axis == axis]
    if not every:
        return None
    failed = sum(c.verdict == "fail" for c in every)
    title = f"{check.rule}, {axis}: {failed} of {len(every)} fail"
    return ExponentsData(title, axis, check.margin, tuple(every[:ROWS]), len(every) - ROWS)


def draw(axes: Any, data: ExponentsData) -> None:
    """Draw a line a module: the band is what passes, the marker the exponent with its interval, open if undecided."""
    from matplotlib.patches import Rectangle

    count = len(data.rows)
    for index, row in enumerate(data.rows):
        y, (low, high) = count - index, row.predicted
        corner, width = (low - data.margin, y - 0.42), high - low + 2 * data.margin
        axes.add_patch(Rectangle(corner, width, 0.84, color=theme.LIGHT["band"], linewidth=0, zorder=0))
        axes.plot([low, high], [y, y], color=theme.LIGHT["muted"], linewidth=1.0, marker="|", markersize=8, zorder=1)
        colour = theme.LIGHT["accent" if row.verdict == "fail" else "ink"]
        place = min(max(row.slope.value, -REACH), REACH)
        ends = [min(max(end, -REACH), REACH) for end in (row.slope.low, row.slope.high)]
        axes.plot(ends, [y, y], color=colour, linewidth=1.1, zorder=2)
        measured(axes, [place], [y], None, colour, theme.family(1 if row.verdict == "undecided" else 0))
    axes.set_xlim(-1.05 * REACH, 1.05 * REACH)
    axes.set_ylim(0.3, count + 0.7)
    axes.set_yticks([count - index for index in range(count)], [_short(row.module) for row in data.rows])
    axes.tick_params(axis="y", labelsize=7.5, length=0)
    axes.grid(False, axis="y")
    axes.set_xticks([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])
    after = f"; {data.left_out} better ones left out" if data.left_out > 0 else ""
    axes.set_xlabel(f"exponent of the update in {data.axis}{after}")
    axes.set_title(data.title)


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else f"…{name[1 - most :]}"
