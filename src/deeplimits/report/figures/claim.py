"""One drawing of a claim: measured numbers as markers with bars, predictions as lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.claims.claim import Curve, Panel
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, logarithmic, measured, short, size


@dataclass(frozen=True)
class ClaimData:
    """A drawing and its title."""

    title: str
    panel: Panel

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        panel = self.panel
        parts = [f"{panel.y_label} against {panel.x_label}."]
        for curve in panel.curves:
            values = curve.measured or curve.predicted or []
            if values:
                parts.append(
                    f"{curve.name}: from {short(values[0])} at {size(round(curve.x[0], 3))} to "
                    f"{short(values[-1])} at {size(round(curve.x[-1], 3))}."
                )
        return " ".join(parts)


def claim_data(panel: Panel) -> ClaimData:
    """Put a drawing and its title together."""
    return ClaimData(panel.title, panel)


def draw(axes: Any, data: ClaimData) -> None:
    """Draw every curve in the style of its rank: the prediction as a line, the measurement as markers with bars."""
    panel = data.panel
    colours = (theme.LIGHT["ink"], theme.LIGHT["accent"], theme.scales([0, 1, 2])[1], theme.LIGHT["muted"])
    for index, curve in enumerate(panel.curves):
        _curve(axes, curve, theme.family(index), colours[index % len(colours)])
    _scales(axes, panel)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.legend(
        handles=[_handle(curve, theme.family(i), colours[i % len(colours)]) for i, curve in enumerate(panel.curves)],
        loc="lower left",
        bbox_to_anchor=(-0.03, 0.98),
        labelspacing=0.3,
    )
    axes.set_title(panel.title, pad=12 + 13 * len(panel.curves))


def _curve(axes: Any, curve: Curve, style: theme.Style, colour: str) -> None:
    if curve.predicted is not None:
        axes.plot(curve.x, curve.predicted, linestyle=style.line, color=colour, zorder=2)
    if curve.measured is not None:
        error = curve.error if curve.error is not None else [0.0] * len(curve.x)
        measured(axes, curve.x, curve.measured, error, colour, style)


def _scales(axes: Any, panel: Panel) -> None:
    every = sorted({value for curve in panel.curves for value in curve.x})
    if panel.x_scale == "log2":
        logarithmic(axes.xaxis, every)
        axes.set_xlim(every[0] / 1.4, every[-1] * 1.4)
    elif panel.x_scale == "log":
        decades(axes.xaxis)
        axes.set_xlim(every[0] / 1.4, every[-1] * 1.4)
    if panel.y_scale == "log":
        decades(axes.yaxis)
    elif panel.y_scale == "symlog":
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_locator(FixedLocator([0.0, 0.5, 1.0, 10.0, 100.0]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.set_ylim(bottom=-0.1, top=1.8 * axes.get_ylim()[1])


def _handle(curve: Curve, style: theme.Style, colour: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        color=colour,
        linestyle="none" if curve.predicted is None else style.line,
        marker="" if curve.measured is None else style.marker,
        markerfacecolor=colour if style.filled else theme.LIGHT["paper"],
        label=curve.name,
    )
