"""At fixed depth: one network approaches the kernel as width to the power -1/2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, dodge, logarithmic, measured, short, size


@dataclass(frozen=True)
class WidthCurve:
    """Relative rms over networks at one depth, measured, and the joint fit through it."""

    depth: float
    widths: tuple[int, ...]
    rms: tuple[float, ...]
    error: tuple[float, ...]
    fitted: tuple[float, ...] | None


@dataclass(frozen=True)
class WidthData:
    """Relative rms against width, a curve for each depth; `needed` is the width at which the fit crosses `target`."""

    title: str
    curves: tuple[WidthCurve, ...]
    target: float | None = None
    needed: float | None = None

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        parts = ["Relative rms over networks against width, one curve a depth, both axes logarithmic."]
        for curve in self.curves:
            parts.append(
                f"Depth {size(curve.depth)}: {short(curve.rms[0])} at width {curve.widths[0]}, "
                f"{short(curve.rms[-1])} at width {curve.widths[-1]}."
            )
        if self.needed is not None:
            parts.append(f"The fit reaches {self.target:.0%} at width {self.needed:.0f}.")
        return " ".join(parts)


def draw(axes: Any, data: WidthData) -> None:
    """Draw each depth in the colour of its size: markers with bars measured, lines fitted."""
    colours = theme.scales([curve.depth for curve in data.curves])
    every = sorted({width for curve in data.curves for width in curve.widths})
    style = theme.family(0)
    for rank, curve in enumerate(data.curves):
        colour = colours[curve.depth]
        if curve.fitted is not None:
            axes.plot(curve.widths, curve.fitted, linestyle=style.line, color=colour, linewidth=1.1, zorder=2)
        x = dodge(curve.widths, rank, len(data.curves))
        measured(axes, x, curve.rms, curve.error, colour, style, label=size(curve.depth))
    logarithmic(axes.xaxis, every)
    decades(axes.yaxis)
    axes.set_xlim(every[0] / 1.5, every[-1] * 1.5)
    axes.legend(title="depth L", loc="best", ncols=1 + (len(data.curves) > 4), columnspacing=0.9, handletextpad=0.1)
    axes.set_xlabel("width n")
    axes.set_ylabel("relative rms over networks")
    axes.set_title(data.title)
