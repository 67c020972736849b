"""At infinite width: the kernel of depth L approaches the kernel of depth infinity as 1/L."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from math import exp, log
from typing import Any

from deeplimits.plane.record import Comparison
from deeplimits.report import theme
from deeplimits.report.figures.axes import beside, decades, logarithmic, short, spread
from deeplimits.report.words import family_name


@dataclass(frozen=True)
class DepthCurve:
    """Relative distance |kernel(L) - kernel(inf)| of one kernel, and the fitted exponent."""

    name: str
    depths: tuple[int, ...]
    distance: tuple[float, ...]
    exponent: float | None


@dataclass(frozen=True)
class DepthData:
    """NNGP and NTK distances to depth infinity; `missing` says why there are none."""

    title: str
    curves: tuple[DepthCurve, ...]
    missing: str = ""

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        if not self.curves:
            return self.missing
        parts = [
            "Relative distance of the infinite-width kernel at depth L from depth infinity, both axes logarithmic."
        ]
        for curve in self.curves:
            slope = "" if curve.exponent is None else f", slope {curve.exponent:.2f}"
            parts.append(
                f"{curve.name}: {short(curve.distance[0])} at depth {curve.depths[0]}, "
                f"{short(curve.distance[-1])} at depth {curve.depths[-1]}{slope}."
            )
        return " ".join(parts)


def depth_data(record: Comparison) -> DepthData:
    """Take the distances of the right edge from the corner; where there is no corner, its reason."""
    curves = []
    for rate in record.depth_rates:
        points = [(d, v) for d, v in zip(rate.depths, rate.difference, strict=True) if v > 0]
        if len(points) > 1:
            depths, distance = zip(*points, strict=True)
            exponent = None if rate.slope is None else rate.slope.value
            curves.append(DepthCurve(rate.kernel.upper(), depths, distance, exponent))
    if not curves:
        return DepthData(f"{family_name(record)}: no limit in depth to approach", (), record.corner)
    exponents = [curve.exponent for curve in curves if curve.exponent is not None]
    first_order = bool(exponents) and all(abs(exponent + 1) < 0.2 for exponent in exponents)
    words = "depth error falls as 1/L" if first_order else "distance of depth L from depth ∞"
    return DepthData(f"{family_name(record)}: {words}", tuple(curves))


def draw(axes: Any, data: DepthData) -> None:
    """Draw both kernels as lines (they are predictions) with a thin guide of slope -1."""
    axes.set_title(data.title)
    if not data.curves:
        words = "\n".join(textwrap.wrap(data.missing, 48))
        axes.text(0.0, 0.95, words, transform=axes.transAxes, ha="left", va="top")
        axes.set_axis_off()
        return
    ink, muted = theme.LIGHT["ink"], theme.LIGHT["muted"]
    every = sorted({depth for curve in data.curves for depth in curve.depths})
    first = data.curves[0]
    guide = [0.5 * first.distance[0] * first.depths[0] / depth for depth in every]
    axes.plot(every, guide, color=muted, linewidth=0.9, linestyle=(0, (1, 2)))
    for index, curve in enumerate(data.curves):
        axes.plot(curve.depths, curve.distance, linestyle=theme.family(index).line, color=ink, zorder=2)
    logarithmic(axes.xaxis, every)
    decades(axes.yaxis)
    axes.set_xlim(every[0] / 1.15, every[-1] * (every[-1] / every[0]) ** 0.4)
    low, high = axes.get_ylim()
    ends = [log(guide[-1]), *(log(curve.distance[-1]) for curve in data.curves)]
    names = ["slope −1", *(_name(curve) for curve in data.curves)]
    colours = [muted, *(ink for _ in data.curves)]
    for name, colour, place in zip(names, colours, spread(ends, 0.07 * log(high / low)), strict=True):
        beside(axes, every[-1], exp(place), name, colour)
    axes.set_xlabel("depth L, width infinite")
    axes.set_ylabel("relative distance to depth ∞")


def _name(curve: DepthCurve) -> str:
    return curve.name if curve.exponent is None else f"{curve.name}: {curve.exponent:.2f}".replace("-", "−")
