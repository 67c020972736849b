"""What the worst exponents look like: sizes of updates over that of the base, with the power that is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, dodge, logarithmic, measured, short
from deeplimits.transfer.evidence.coordinates import Coordinate, CoordinateCheck

SHOWN = 4


@dataclass(frozen=True)
class GrowthData:
    """Updates along one axis of the modules with the largest deviations, and of the logits."""

    title: str
    axis: str
    rows: tuple[Coordinate, ...]

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        ratios = [f"{row.module} times {short(row.updates[-1] / row.updates[0])}" for row in self.rows]
        return (
            f"From {self.axis} {self.rows[0].sizes[0]} to {self.rows[0].sizes[-1]} updates change: {', '.join(ratios)}."
        )


def growth_data(check: CoordinateCheck, axis: str) -> GrowthData | None:
    """Take the worst modules along one axis that should stay level, and the logits."""
    level = [c for c in check.coordinates if c.axis == axis and c.predicted == (0.0, 0.0)]
    if not level:
        return None
    logits = [c for c in level if c.module == "logits"]
    same = [c.updates for c in logits]
    rows = [c for c in level if c.updates not in same][: SHOWN - len(logits)] + logits
    return GrowthData(f"{check.rule}: updates as the {axis} grows", axis, tuple(rows))


def draw(axes: Any, data: GrowthData) -> None:
    """Draw a module a style: markers with standard errors measured, the line its fitted power."""
    colours = (theme.LIGHT["accent"], theme.scales([0, 1, 2])[1], theme.LIGHT["ink"], theme.LIGHT["muted"])
    sizes = data.rows[0].sizes
    axes.axhline(1.0, color=theme.LIGHT["muted"], linewidth=0.8, zorder=1)
    for index, row in enumerate(data.rows):
        style, colour = theme.family(index), colours[index]
        base = row.updates[0]
        fitted = [(size / sizes[0]) ** row.slope.value for size in sizes]
        axes.plot(sizes, fitted, linestyle=style.line, color=colour, linewidth=1.1, zorder=2)
        errors = [error / base for error in row.errors]
        x = dodge(sizes, index, len(data.rows), 0.2)
        measured(axes, x, [value / base for value in row.updates], errors, colour, style, label=row.module)
    logarithmic(axes.xaxis, sizes)
    low, high = axes.get_ylim()
    axes.set_yscale("log")
    axes.set_ylim(min(0.4, low) if low > 0 else 0.04, max(2.5, 1.1 * high))
    decades(axes.yaxis)
    axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, labelspacing=0.3, columnspacing=1.0)
    axes.set_xlabel(data.axis)
    axes.set_ylabel("update over that of the base")
    axes.set_title(data.title, pad=12 + 13 * ((len(data.rows) + 1) // 2))
