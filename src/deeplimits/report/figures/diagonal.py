"""Along L = r n: does the law of one network settle when width and depth grow together?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from deeplimits.plane.record import Comparison, Ray
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, logarithmic, measured, short
from deeplimits.report.words import family_name, verdict


@dataclass(frozen=True)
class DiagonalSeries:
    """var(log q) of one family along the diagonal: measured, fitted as n^s, and predicted where a law is known."""

    name: str
    widths: tuple[int, ...]
    variance: tuple[float, ...]
    error: tuple[float, ...]
    predicted: tuple[float, ...] | None
    fitted: tuple[float, ...] | None
    exponent: tuple[float, float, float] | None

    def exponent_text(self) -> str:
        """The fitted power with its interval, as it stands beside the points."""
        if self.exponent is None:
            return self.name
        value, low, high = self.exponent
        text = f"{self.name}: slope {value:.2f} (99 %: {low:.2f} to {high:.2f})"
        return text.replace("-", "−")


@dataclass(frozen=True)
class DiagonalData:
    """Several families along one ray L = ratio * n."""

    title: str
    ratio: float
    statistic: str
    series: tuple[DiagonalSeries, ...]

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        parts = [f"{self.statistic} over networks along depth = {self.ratio:g} times width, both axes logarithmic."]
        for one in self.series:
            ends = [f"{short(one.variance[at])} at width {one.widths[at]}" for at in (0, -1)]
            line = f"{one.name}: from {ends[0]} to {ends[1]}"
            if one.exponent is not None:
                value, low, high = one.exponent
                line += f", fitted exponent {value:.2f}, 99 % interval {low:.2f} to {high:.2f}"
            parts.append(line + ".")
        return " ".join(parts)


def diagonal_ray(record: Comparison) -> Ray | None:
    """The diagonal ray of var(log q) where the features were sampled, else the first diagonal ray."""
    rays = [ray for ray in record.rays if ray.kind == "diagonal" and len(ray.widths) > 1 and min(ray.values) > 0]
    return min(rays, key=lambda ray: ray.statistic != "var(log q)", default=None)


def diagonal_data(records: Sequence[Comparison]) -> DiagonalData | None:
    """Take each comparison's diagonal ray; None where no comparison has two places on one."""
    found = [(record, ray) for record in records if (ray := diagonal_ray(record)) is not None]
    if not found:
        return None
    series = tuple(_series(record, ray) for record, ray in found)
    title = "; ".join(verdict(record) for record, _ in found) if len(found) == 1 else _together([r for r, _ in found])
    return DiagonalData(title, found[0][1].fixed, found[0][1].statistic, series)


def _together(records: Sequence[Comparison]) -> str:
    verbs = {"commutes": "commutes", "does not commute": "does not", "undecided": "is undecided"}
    parts = [f"{family_name(record)} {verbs.get(record.verdict.word, record.verdict.word)}" for record in records]
    return ", ".join(parts)


def _series(record: Comparison, ray: Ray) -> DiagonalSeries:
    fit = ray.slope
    fitted = None if fit is None else tuple(exp(fit.intercept) * width**fit.value for width in ray.widths)
    exponent = None if fit is None else (fit.value, fit.low, fit.high)
    predicted = None if ray.predicted is None else tuple(ray.predicted)
    name = family_name(record)
    return DiagonalSeries(name, tuple(ray.widths), tuple(ray.values), tuple(ray.errors), predicted, fitted, exponent)


def draw(axes: Any, data: DiagonalData) -> None:
    """Draw points with bars, the predicted law as a line in the family's style, and the fitted exponent beside them."""
    ink = theme.LIGHT["ink"]
    every = sorted({width for one in data.series for width in one.widths})
    for index, one in enumerate(data.series):
        style = theme.family(index)
        line = one.predicted or one.fitted
        if line is not None:
            axes.plot(one.widths, line, linestyle=style.line, color=ink, zorder=2)
        measured(axes, one.widths, one.variance, one.error, ink, style)
    logarithmic(axes.xaxis, every)
    decades(axes.yaxis)
    axes.set_xlim(every[0] / 1.4, every[-1] * 1.4)
    handles = [_handle(theme.family(index), one) for index, one in enumerate(data.series)]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.03, 0.98), labelspacing=0.3)
    axes.set_xlabel(f"width n, with depth L = {_times(data.ratio)}n")
    axes.set_ylabel(data.statistic)
    axes.set_title(data.title, pad=12 + 13 * len(data.series))


def _times(ratio: float) -> str:
    return "" if ratio == 1 else f"{ratio:g} "


def _handle(style: theme.Style, one: DiagonalSeries) -> Any:
    from matplotlib.lines import Line2D

    ink = theme.LIGHT["ink"]
    face = ink if style.filled else theme.LIGHT["paper"]
    return Line2D(
        [], [], color=ink, linestyle=style.line, marker=style.marker, markerfacecolor=face, label=one.exponent_text()
    )
