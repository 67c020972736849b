"""Networks beside a random limit: how far their laws are, and quantiles side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

from deeplimits.plane.law_check import interval
from deeplimits.plane.law_record import LEVELS, LawComparison
from deeplimits.report import theme
from deeplimits.report.figures.axes import key, logarithmic, measured, short
from deeplimits.report.words import family_name

Panel = tuple[Callable[..., None], tuple[Any, ...]]
NOISE = 0.87
"""Mean of Kolmogorov's law, sqrt(pi/2) log 2: the distance of two samples of one law times the root of their size."""


@dataclass(frozen=True)
class DistanceCurve:
    """The furthest law's distance at every size of one row, with the half-width of its interval."""

    width: int | None
    sizes: tuple[int, ...]
    distance: tuple[float, ...]
    half: tuple[float, ...]


@dataclass(frozen=True)
class DistanceData:
    """Kolmogorov-Smirnov distances to the predicted law against the size."""

    title: str
    label: str
    curves: tuple[DistanceCurve, ...]
    margin: float
    noise: float

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [
            f"Largest Kolmogorov-Smirnov distance to the predicted law against the {self.label}, "
            f"margin {self.margin:g}."
        ]
        for one in self.curves:
            row = "" if one.width is None else f"Width {one.width}: "
            parts.append(f"{row}{one.distance[0]:.3f} at {one.sizes[0]}, {one.distance[-1]:.3f} at {one.sizes[-1]}.")
        return " ".join(parts)


@dataclass(frozen=True)
class QuantileData:
    """Quantiles of one number at `LEVELS` for each width, measured with errors and predicted."""

    title: str
    statistic: str
    widths: tuple[int, ...]
    measured: tuple[tuple[float, ...], ...]
    error: tuple[tuple[float, ...], ...]
    predicted: tuple[tuple[float, ...], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        middle = LEVELS.index(0.5)
        rows = zip(self.widths, self.measured, self.predicted, strict=True)
        return f"Quantiles of {self.statistic}. " + "; ".join(
            f"width {n}: median {short(m[middle])} measured, {short(p[middle])} predicted" for n, m, p in rows
        )


def panels_of(record: LawComparison) -> list[Panel]:
    """Drawing functions and their data for everything a comparison of laws can show."""
    names = [law.statistic for law in record.places[0].laws]
    shown = [names[0], *(name for name in names if not name.startswith("log q"))][:2]
    found: list[Panel] = [(draw_distances, (distance_data(record),))]
    return found + [(draw_quantiles, (quantile_data(record, name),)) for name in shown]


def title(record: LawComparison) -> str:
    """The verdict as a title."""
    words = {"agrees": "laws as predicted", "differs": "laws not as predicted"}
    return f"{family_name(record)}: {words.get(record.verdict.word, record.verdict.word)}"


def distance_data(record: LawComparison) -> DistanceData:
    """Take the furthest law of every place."""
    top = record.ratio is None
    last = len(record.places[-1].laws) * (len(record.widths) if top else 1)
    curves = []
    for width in record.widths if top else [None]:
        row = [place for place in record.places if width in (None, place.width)]
        curves.append(
            DistanceCurve(
                width,
                tuple(place.depth if top else place.width for place in row),
                tuple(max(law.distance for law in place.laws) for place in row),
                tuple(interval(place, last) for place in row),
            )
        )
    noise = NOISE * sqrt(1 / record.networks + 1 / record.samples)
    label = "depth L" if top else f"width n, with depth L = {record.ratio:g} n"
    return DistanceData(title(record), label, tuple(curves), record.verdict.margin, noise)


def quantile_data(record: LawComparison, statistic: str) -> QuantileData:
    """Take one number at the largest size of every width."""
    places = [[place for place in record.places if place.width == width][-1] for width in record.widths]
    laws = [next(law for law in place.laws if law.statistic == statistic) for place in places]
    at = f"depth {record.depths[-1]}" if record.ratio is None else f"depth = {record.ratio:g} width"
    return QuantileData(
        f"{statistic} at {at}",
        statistic,
        tuple(record.widths),
        tuple(tuple(law.measured) for law in laws),
        tuple(tuple(law.measured_error) for law in laws),
        tuple(tuple(law.predicted) for law in laws),
    )


def draw_distances(axes: Any, data: DistanceData) -> None:
    """Draw every row in the colour of its width with intervals, the margin as a line, what sampling does as a band."""
    every = sorted({size for curve in data.curves for size in curve.sizes})
    rows = [curve.width for curve in data.curves if curve.width is not None]
    colours: dict[Any, str] = {**theme.scales(rows), None: theme.LIGHT["ink"]}
    axes.axhspan(0, data.noise, color=theme.LIGHT["band"], zorder=0)
    axes.axhline(data.margin, color=theme.LIGHT["accent"], linewidth=1.1, linestyle=(0, (5, 2)))
    axes.annotate(
        "agrees if surely below", (every[-1] * 1.35, data.margin), xytext=(0, 3), textcoords="offset points",
        ha="right", fontsize=8, color=theme.LIGHT["accent"],
    )  # fmt: skip
    axes.annotate(
        "sampling alone", (every[0] / 1.3, 0), xytext=(2, 3), textcoords="offset points", fontsize=8,
        color=theme.LIGHT["muted"],
    )  # fmt: skip
    for rank, curve in enumerate(data.curves):
        shift = 2 ** (0.3 * ((rank + 0.5) / len(data.curves) - 0.5))
        x = [size * shift for size in curve.sizes]
        low = [min(half, distance) for half, distance in zip(curve.half, curve.distance, strict=True)]
        measured(axes, x, curve.distance, [low, curve.half], colours[curve.width], theme.family(0))
        axes.plot(x, curve.distance, color=colours[curve.width], linewidth=0.9)
    logarithmic(axes.xaxis, every)
    axes.set_xlim(every[0] / 1.4, every[-1] * 1.4)
    axes.set_ylim(0, max(1.15 * max(max(c.distance) + max(c.half) for c in data.curves), 1.5 * data.margin))
    if len(rows) > 1:
        key(axes, "width", {width: colours[width] for width in rows}, theme.family(0))
    axes.set_xlabel(data.label)
    axes.set_ylabel("Kolmogorov-Smirnov distance, largest")
    axes.set_title(data.title, pad=24 if len(rows) > 1 else 8)


def draw_quantiles(axes: Any, data: QuantileData) -> None:
    """Draw the predicted quantiles as lines and the measured ones as markers with bars, a colour for each level."""
    colours, widths = theme.scales(LEVELS), list(data.widths)
    span = widths if len(widths) > 1 else [widths[0] / 1.2, widths[0] * 1.2]
    for index, level in enumerate(LEVELS):
        colour = colours[level]
        predicted = [row[index] for row in data.predicted]
        axes.plot(span, predicted if len(predicted) > 1 else predicted * 2, color=colour, linewidth=1.2)
        points, errors = [row[index] for row in data.measured], [row[index] for row in data.error]
        measured(axes, widths, points, errors, colour, theme.family(0))
        axes.annotate(
            f"{100 * level:g} %", (span[-1], predicted[-1]), xytext=(8, 0), textcoords="offset points", va="center",
            fontsize=8, color=colour,
        )  # fmt: skip
    logarithmic(axes.xaxis, widths)
    axes.set_xlim(widths[0] / 1.4, widths[-1] * 2.0)
    axes.set_xlabel("width n; markers measured, lines predicted")
    axes.set_ylabel(f"quantiles of {data.statistic}")
    axes.set_title(data.title)
