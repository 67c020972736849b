"""Axes that read in powers of two, and the marks every figure shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deeplimits.report import theme

SUPERSCRIPT = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")


def superscript(number: int | float | str) -> str:
    """The number in superscript digits, so that no mathematics font is needed."""
    return str(number).translate(SUPERSCRIPT)


def logarithmic(axis: Any, values: Sequence[float]) -> None:
    """Make one axis logarithmic in base 2 with a tick, and no other, at each power of two within the values."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log", base=2)
    ticks = sorted(set(values))
    while len(ticks) > 8:
        ticks = ticks[::2]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))


def size(value: float) -> str:
    """A width or a depth as a short label: 64, 2048, ∞."""
    if value == float("inf"):
        return "∞"
    return f"{value:.0f}" if abs(value - round(value)) < 1e-9 else f"{value:g}"


def decades(axis: Any) -> None:
    """Make one axis logarithmic in base 10 with plain labels (0.01, 0.1, 1), powers outside that range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log")
    low, high = sorted(axis.get_view_interval())
    steps = (1.0,) if high > 30 * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(base=10.0, subs=steps, numticks=12))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(value: float) -> str:
    """A number in at most five characters, powers of ten in superscripts."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = f"10{superscript(int(exponent))}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def measured(axes: Any, x: Any, y: Any, error: Any, colour: str, style: theme.Style, **options: Any) -> Any:
    """Draw measured points: a marker with a bar, the marker open where the family's style is open."""
    face = colour if style.filled else theme.LIGHT["paper"]
    return axes.errorbar(
        x, y, yerr=error, linestyle="none", marker=style.marker, color=colour, ecolor=colour,
        markerfacecolor=face, markeredgecolor=colour, markeredgewidth=1.3, elinewidth=1.1, zorder=3, **options,
    )  # fmt: skip


def dodge(widths: Sequence[float], rank: int, count: int, room: float = 0.5) -> list[float]:
    """Shift the rank-th of count sets of points sideways, so that sets at the same widths do not hide each other."""
    return [width * 2 ** (room * ((rank + 0.5) / count - 0.5)) for width in widths]


def key(axes: Any, name: str, colours: dict[float, str], style: theme.Style) -> None:
    """Write the key of the sizes in one row between the title and the axes, where it hides nothing."""
    from matplotlib.lines import Line2D

    blank = Line2D([], [], linestyle="none", label=name)
    marks = [
        Line2D([], [], linestyle="none", marker=style.marker, color=colour, label=size(value))
        for value, colour in colours.items()
    ]
    axes.legend(
        handles=[blank, *marks],
        ncols=len(marks) + 1,
        loc="lower left",
        bbox_to_anchor=(-0.035, 0.985),
        columnspacing=0.7,
        handletextpad=0.0,
        handlelength=1.3,
    )


def beside(axes: Any, x: float, y: float, text: str, colour: str) -> None:
    """Label the end of a curve directly, to its right."""
    axes.annotate(
        text, (x, y), xytext=(6, 0), textcoords="offset points", va="center", ha="left", color=colour, fontsize=8.5
    )


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move sorted or unsorted label positions apart until neighbours are at least `gap` away, keeping their order."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    placed = [positions[i] for i in order]
    for _ in range(100):
        moved = False
        for low in range(len(placed) - 1):
            short_by = gap - (placed[low + 1] - placed[low])
            if short_by > 1e-9:
                placed[low] -= short_by / 2
                placed[low + 1] += short_by / 2
                moved = True
        if not moved:
            break
    result = [0.0] * len(positions)
    for place, index in zip(placed, order, strict=True):
        result[index] = place
    return result
