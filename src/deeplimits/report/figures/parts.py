"""Every part of a claim on one scale: where the measured number lies in the region that its test wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deeplimits.claims.claim import Part
from deeplimits.report import theme
from deeplimits.report.figures.axes import measured

OUTSIDE = 1.6


@dataclass(frozen=True)
class PartRow:
    """One part: its place in [-1, 1], the region of its test, with one standard error in the same unit.

    `rank` is its number, from 1, in the claim's table.
    """

    rank: int
    name: str
    place: float
    error: float
    verdict: str
    counts: bool


@dataclass(frozen=True)
class PartsData:
    """The parts of a claim whose region has two ends."""

    title: str
    rows: tuple[PartRow, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        inside = sum(abs(row.place) <= 1 for row in self.rows)
        text = f"Of {len(self.rows)} numbers with a region on both sides, {inside} lie inside the region of their test."
        out = [row.name for row in self.rows if abs(row.place) > 1]
        return text + (f" Outside: {'; '.join(out)}." if out else "")


def parts_data(parts: Sequence[Part]) -> PartsData | None:
    """Take the parts whose test wants a number between two ends; None where there is none."""
    rows = tuple(row for rank, part in enumerate(parts, start=1) if (row := _row(rank, part)) is not None)
    return PartsData("Every number in the region of its test", rows) if rows else None


def _row(rank: int, part: Part) -> PartRow | None:
    if part.low is None or part.high is None or not part.high > part.low:
        return None
    middle, half = (part.low + part.high) / 2, (part.high - part.low) / 2
    place, error = (part.measured - middle) / half, (part.standard_error or 0.0) / half
    return PartRow(rank, part.name, place, error, part.verdict, part.counts)


def draw(axes: Any, data: PartsData) -> None:
    """Draw one line a part: the band is the region, the marker the measured number, open where it does not count."""
    axes.axvspan(-1, 1, color=theme.LIGHT["band"], zorder=0)
    axes.axvline(0, color=theme.LIGHT["muted"], linewidth=0.8, zorder=1)
    count = len(data.rows)
    for index, row in enumerate(data.rows):
        colour = theme.LIGHT["ink" if row.verdict == "confirmed" else "accent"]
        style = theme.family(0 if row.counts else 1)
        place = min(max(row.place, -OUTSIDE), OUTSIDE)
        measured(axes, [place], [count - index], None, colour, style)
        axes.plot([place - row.error, place + row.error], [count - index] * 2, color=colour, linewidth=1.1, zorder=2)
    axes.set_xlim(-1.05 * OUTSIDE, 1.05 * OUTSIDE)
    axes.set_ylim(0.3, count + 0.7)
    axes.set_yticks([count - index for index in range(count)], [str(row.rank) for row in data.rows])
    axes.tick_params(axis="y", labelsize=7.0, length=0)
    axes.grid(False, axis="y")
    axes.set_xticks([-1, 0, 1], ["low end", "middle", "high end"])
    axes.set_ylabel("number in the table of parts")
    axes.set_xlabel("measured ± one standard error, in its test's region")
    axes.set_title(data.title)
