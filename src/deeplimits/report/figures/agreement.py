"""Predicted against measured, place by place, and the distance between them in standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.report import theme
from deeplimits.report.figures.axes import dodge, logarithmic, measured, size


@dataclass(frozen=True)
class Agreement:
    """One place: predicted and measured mean with its standard error."""

    width: int
    depth: int
    predicted: float
    measured: float
    error: float

    @property
    def z(self) -> float:
        """Distance in standard errors."""
        return (self.measured - self.predicted) / self.error if self.error > 0 else 0.0


@dataclass(frozen=True)
class AgreementData:
    """Every place of one kernel; `tolerance` in standard errors."""

    title: str
    quantity: str
    places: tuple[Agreement, ...]
    tolerance: float = 4.0

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        worst = max(self.places, key=lambda place: abs(place.z))
        inside = sum(abs(place.z) <= self.tolerance for place in self.places)
        return (
            f"Measured minus predicted {self.quantity} in standard errors: {inside} of {len(self.places)} places lie within "
            f"{self.tolerance:g}; the largest is {worst.z:.1f} at width {worst.width}, depth {worst.depth}."
        )


def draw(axes: Any, data: AgreementData) -> None:
    """Draw each place's z-score against width, coloured by depth, over the band of the tolerance."""
    depths = sorted({place.depth for place in data.places})
    widths = sorted({place.width for place in data.places})
    colours = theme.scales(depths)
    axes.axhspan(-data.tolerance, data.tolerance, color=theme.LIGHT["band"], linewidth=0, zorder=0)
    axes.axhline(0.0, color=theme.LIGHT["ink"], linewidth=1.2, zorder=1)
    for rank, depth in enumerate(depths):
        chosen = [place for place in data.places if place.depth == depth]
        x = dodge([place.width for place in chosen], rank, len(depths))
        measured(axes, x, [p.z for p in chosen], 1.0, colours[depth], theme.family(0), label=size(depth))
    logarithmic(axes.xaxis, widths)
    bound = max(1.9 * data.tolerance, *(1.5 * abs(place.z) + 1.5 for place in data.places))
    axes.set_ylim(-bound, bound)
    axes.set_xlim(widths[0] / 1.5, widths[-1] * 1.5)
    axes.grid(visible=False, axis="x")
    axes.legend(title="depth L", ncols=min(len(depths), 6), loc="upper center", columnspacing=0.9, handletextpad=0.1)
    axes.set_xlabel("width n")
    axes.set_ylabel("(measured − predicted) / standard error")
    axes.set_title(data.title)
