"""Predicted against measured, place by place: the distance between them in standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from deeplimits.plane.record import Comparison, Estimate, KernelCheck
from deeplimits.report import theme
from deeplimits.report.figures.axes import dodge, key, logarithmic, measured
from deeplimits.report.words import family_name


@dataclass(frozen=True)
class Agreement:
    """One place: the z-scores (measured - predicted) / standard error of everything predicted there."""

    width: int
    depth: int
    low: float
    middle: float
    high: float

    @property
    def worst(self) -> float:
        """The z-score farthest from zero."""
        return self.low if abs(self.low) > abs(self.high) else self.high


@dataclass(frozen=True)
class AgreementData:
    """Every place of one family; the marker is the median entry, the bar reaches from the smallest to the largest."""

    title: str
    quantity: str
    places: tuple[Agreement, ...]
    tolerance: float = 4.0

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        worst = max(self.places, key=lambda place: abs(place.worst))
        inside = sum(abs(place.worst) <= self.tolerance for place in self.places)
        return (
            f"Measured minus predicted {self.quantity}, in standard errors: within {self.tolerance:g} at {inside} of "
            f"{len(self.places)} places; the largest is {worst.worst:.1f} at width {worst.width}, depth {worst.depth}."
        )


def agreement_data(record: Comparison) -> AgreementData | None:
    """Take the law of log q where theory gives it at finite width, else every entry of the mean kernels."""
    places, quantity = _law(record), "mean and variance of log q"
    if not places:
        places, quantity = _entries(record), "entries of the mean " + " and ".join(name.upper() for name in record.get)
    if not places:
        return None
    worst = max(abs(place.worst) for place in places)
    title = f"{family_name(record)}: measured within {worst:.1f} standard errors"
    return AgreementData(title, quantity, tuple(places))


def _law(record: Comparison) -> list[Agreement]:
    found = []
    for place in record.places:
        pairs = ((place.log_mean, place.log_mean_predicted), (place.log_variance, place.log_variance_predicted))
        scores = [_score(estimate, predicted) for estimate, predicted in pairs if estimate and predicted is not None]
        if scores:
            found.append(Agreement(place.width, place.depth, min(scores), median(scores), max(scores)))
    return found


def _score(estimate: Estimate, predicted: float) -> float:
    return (estimate.value - predicted) / estimate.error if estimate.error > 0 else 0.0


def _entries(record: Comparison) -> list[Agreement]:
    found = []
    for place in record.places:
        scores = [score for check in (place.nngp, place.ntk) if check for score in _scores(check)]
        if scores:
            found.append(Agreement(place.width, place.depth, min(scores), median(scores), max(scores)))
    return found


def _scores(check: KernelCheck) -> list[float]:
    if check.predicted is None:
        return []
    rows = zip(check.mean, check.error, check.predicted, strict=True)
    return [
        (mean - predicted) / error
        for index, (means, errors, expected) in enumerate(rows)
        for mean, error, predicted in zip(means[: index + 1], errors[: index + 1], expected[: index + 1], strict=True)
        if error > 0
    ]


def draw(axes: Any, data: AgreementData) -> None:
    """Draw each place's z-scores against width, coloured by depth, over the band of the tolerance."""
    depths = sorted({place.depth for place in data.places})
    widths = sorted({place.width for place in data.places})
    colours = theme.scales(depths)
    axes.axhspan(-data.tolerance, data.tolerance, color=theme.LIGHT["band"], linewidth=0, zorder=0)
    axes.axhline(0.0, color=theme.LIGHT["ink"], linewidth=1.2, zorder=1)
    for rank, depth in enumerate(depths):
        chosen = [place for place in data.places if place.depth == depth]
        x = dodge([place.width for place in chosen], rank, len(depths))
        bars = [[p.middle - p.low for p in chosen], [p.high - p.middle for p in chosen]]
        measured(axes, x, [p.middle for p in chosen], bars, colours[depth], theme.family(0))
    logarithmic(axes.xaxis, widths)
    bound = max(1.3 * data.tolerance, *(1.1 * abs(place.worst) for place in data.places))
    axes.set_ylim(-bound, bound)
    axes.set_xlim(widths[0] / 1.5, widths[-1] * 1.5)
    axes.grid(visible=False, axis="x")
    key(axes, "depth L", colours, theme.family(0))
    axes.set_xlabel("width n")
    axes.set_ylabel("(measured − predicted) / standard error")
    axes.set_title(data.title, pad=24)
