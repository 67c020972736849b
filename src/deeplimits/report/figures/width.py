"""At fixed depth: one network approaches the kernel as width to the power -1/2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from deeplimits.numerics.fit import Rate
from deeplimits.plane.record import Comparison, WidthNeeded
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, dodge, key, logarithmic, measured, short, size
from deeplimits.report.words import count, family_name

POOR = 3.0


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
    about: str
    curves: tuple[WidthCurve, ...]
    target: float | None = None
    needed: float | None = None

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        parts = [
            f"Relative rms over networks of the NNGP about the {self.about} against width, a curve for each depth."
        ]
        for curve in self.curves:
            parts.append(
                f"Depth {size(curve.depth)}: {short(curve.rms[0])} at width {curve.widths[0]}, "
                f"{short(curve.rms[-1])} at width {curve.widths[-1]}."
            )
        if self.needed is not None:
            parts.append(f"The fit reaches {self.target:.0%} at width {self.needed:.0f}.")
        return " ".join(parts)


def width_data(record: Comparison) -> WidthData | None:
    """Take the NNGP's rms at each place, about the corner where the joint fit a²/n + b²/L² holds, else the edge."""
    rate = next((r.rate for r in record.width_rates if r.kernel == "nngp"), None)
    about_corner = rate is not None and rate.chi_square <= POOR * max(rate.degrees, 1)
    curves = []
    for depth in record.depths:
        points = []
        for place in sorted((p for p in record.places if p.depth == depth), key=lambda p: p.width):
            check = place.nngp
            rms = None if check is None else check.rms_corner if about_corner else check.rms
            if rms is not None and rms.value > 0:
                points.append((place.width, rms.value, rms.error))
        if points:
            widths, values, errors = zip(*points, strict=True)
            fitted = _fit(rate, widths, depth) if rate is not None and about_corner else None
            curves.append(WidthCurve(depth, widths, values, errors, fitted))
    if not curves:
        return None
    needed = _needed(record)
    title = "no width measured is enough"
    if needed is not None:
        title = f"one network within {100 * needed.tolerance:g} % at width {count(needed.width or 0)}"
    title = f"{family_name(record)}: {title}"
    about = "corner" if about_corner else "right edge"
    if needed is None:
        return WidthData(title, about, tuple(curves))
    return WidthData(title, about, tuple(curves), needed.tolerance, needed.width)


def _needed(record: Comparison) -> WidthNeeded | None:
    """The width one network needs at the largest depth, where it is known."""
    chosen = (w for w in record.widths_needed if (w.kernel, w.ensemble, w.depth) == ("nngp", 1, record.depths[-1]))
    return next((w for w in chosen if w.width is not None), None)


def _fit(rate: Rate, widths: Sequence[int], depth: float) -> tuple[float, ...]:
    return tuple(sqrt(rate.a.value**2 / width + rate.b.value**2 / depth**2) for width in widths)


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
        measured(axes, x, curve.rms, curve.error, colour, style)
    logarithmic(axes.xaxis, every)
    decades(axes.yaxis)
    axes.set_xlim(every[0] / 1.5, every[-1] * 1.5)
    key(axes, "depth L", colours, style)
    axes.set_xlabel("width n")
    axes.set_ylabel(f"relative rms about the {data.about}")
    axes.set_title(data.title, pad=24)
