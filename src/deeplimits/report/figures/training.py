"""Trained networks beside the limit of training: loss and outputs over the steps, and the distance over the width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.plane.training_check import ERRORS
from deeplimits.plane.training_record import TrainingComparison
from deeplimits.report import theme
from deeplimits.report.figures.axes import beside, decades, key, logarithmic, measured, short, spread
from deeplimits.report.words import family_name

Panel = tuple[Callable[..., None], tuple[Any, ...]]
SHOWN = 4


@dataclass(frozen=True)
class LossData:
    """Mean loss over the steps at the largest width of each depth."""

    title: str
    label: str
    times: tuple[int, ...]
    depths: tuple[int, ...]
    measured: tuple[tuple[float, ...], ...]
    error: tuple[tuple[float, ...], ...]
    predicted: tuple[tuple[float, ...], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        rows = zip(self.depths, self.measured, self.predicted, strict=True)
        return f"{self.label}. " + "; ".join(
            f"depth {depth}: {short(m[-1])} measured, {short(p[-1])} predicted after step {self.times[-1]}"
            for depth, m, p in rows
        )


@dataclass(frozen=True)
class OutputsData:
    """A few outputs over the steps at the largest size, with the spread over networks."""

    title: str
    times: tuple[int, ...]
    names: tuple[str, ...]
    measured: np.ndarray
    spread: np.ndarray
    predicted: np.ndarray
    predicted_spread: np.ndarray

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        return "Outputs over the steps. " + "; ".join(
            f"{name}: mean {short(self.measured[-1, i])} and standard deviation {short(self.spread[-1, i])} measured, "
            f"{short(self.predicted[-1, i])} and {short(self.predicted_spread[-1, i])} predicted"
            for i, name in enumerate(self.names)
        )


@dataclass(frozen=True)
class GapData:
    """Distances from the limit over the width, one curve for each depth and statistic."""

    title: str
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    names: tuple[str, ...]
    distance: tuple[tuple[tuple[float, ...], ...], ...]
    noise: tuple[tuple[tuple[float, ...], ...], ...]
    margin: float

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [
            f"depth {depth}, {name}: {short(self.distance[i][j][0])} at width {self.widths[0]}, "
            f"{short(self.distance[i][j][-1])} at width {self.widths[-1]}"
            for i, depth in enumerate(self.depths)
            for j, name in enumerate(self.names)
        ]
        return f"Distance from the limit against the width, margin {self.margin:g}. " + "; ".join(parts) + "."


def panels_of(record: TrainingComparison) -> list[Panel]:
    """Drawing functions and their data for everything a comparison of training can show."""
    found: list[Panel] = [(draw_loss, (loss_data(record),)), (draw_outputs, (outputs_data(record, tests=False),))]
    if record.tests:
        found.append((draw_outputs, (outputs_data(record, tests=True),)))
    return [*found, (draw_gaps, (gap_data(record),))]


def title(record: TrainingComparison) -> str:
    """The verdict as a title."""
    words = {"agrees": "trains as predicted", "differs": "does not train as predicted"}
    return f"{family_name(record)}: {words.get(record.verdict.word, record.verdict.word)}"


def loss_data(record: TrainingComparison) -> LossData:
    """Take the largest width of every depth."""
    last = [record.place(record.widths[-1], depth) for depth in record.depths]
    return LossData(
        f"Loss at width {record.widths[-1]}",
        "mean loss over networks",
        tuple(record.times),
        tuple(record.depths),
        tuple(tuple(place.loss) for place in last),
        tuple(tuple(place.loss_error) for place in last),
        tuple(tuple(place.predicted_loss) for place in last),
    )


def outputs_data(record: TrainingComparison, tests: bool) -> OutputsData:
    """Take the first output of a few inputs at the largest size."""
    place = record.place(record.widths[-1], record.depths[-1])
    first, count = (record.inputs, record.tests) if tests else (0, record.inputs)
    rows = first + np.unique(np.linspace(0, count - 1, SHOWN).round().astype(int))
    columns = rows * record.outputs
    kind = "test" if tests else "input"
    return OutputsData(
        f"{'Test' if tests else 'Training'} outputs at width {place.width}, depth {place.depth}",
        tuple(record.times),
        tuple(f"{kind} {row - first}" for row in rows),
        np.array(place.measured.mean)[:, columns],
        np.array(place.measured.spread)[:, columns],
        np.array(place.predicted.mean)[:, columns],
        np.array(place.predicted.spread)[:, columns],
    )


def gap_data(record: TrainingComparison) -> GapData:
    """Take the distances of every place."""
    names = [gap.statistic for gap in record.places[0].gaps]
    grid = [[record.place(width, depth) for width in record.widths] for depth in record.depths]

    def table(value: str) -> tuple[tuple[tuple[float, ...], ...], ...]:
        return tuple(
            tuple(tuple(getattr(place.gaps[j], value) for place in row) for j in range(len(names))) for row in grid
        )

    at = (tuple(record.widths), tuple(record.depths), tuple(names))
    return GapData(title(record), *at, table("distance"), table("noise"), record.verdict.margin)


def draw_loss(axes: Any, data: LossData) -> None:
    """Draw predicted losses as lines and measured ones as markers, a colour for each depth."""
    colours = theme.scales(data.depths)
    for row, depth in enumerate(data.depths):
        axes.plot(data.times, data.predicted[row], color=colours[depth], linewidth=1.2)
        measured(axes, data.times, data.measured[row], data.error[row], colours[depth], theme.family(0))
    if min(min(row) for row in data.predicted) > 0:
        axes.set_yscale("log")
    if len(data.depths) > 1:
        key(axes, "depth", {depth: colours[depth] for depth in data.depths}, theme.family(0))
    axes.set_xlabel("step; markers trained, lines the limit")
    axes.set_ylabel(data.label)
    axes.set_title(data.title, pad=24 if len(data.depths) > 1 else 8)


def draw_outputs(axes: Any, data: OutputsData) -> None:
    """Draw means with the band of one standard deviation of the limit, and of networks as bars."""
    colours = list(theme.scales(range(len(data.names))).values())
    reach = np.concatenate([data.predicted - data.predicted_spread, data.predicted + data.predicted_spread])
    ends = spread(list(data.predicted[-1]), 0.06 * float(np.ptp(reach) or 1.0))
    for column, (name, colour) in enumerate(zip(data.names, colours, strict=True)):
        line, width = data.predicted[:, column], data.predicted_spread[:, column]
        axes.fill_between(data.times, line - width, line + width, color=colour, alpha=0.15, linewidth=0)
        axes.plot(data.times, line, color=colour, linewidth=1.2)
        measured(axes, data.times, data.measured[:, column], data.spread[:, column], colour, theme.family(0))
        beside(axes, data.times[-1], ends[column], name, colour)
    axes.set_xlabel("step; bars and bands: standard deviation over networks")
    axes.set_ylabel("output")
    axes.set_title(data.title)


def draw_gaps(axes: Any, data: GapData) -> None:
    """Draw every distance with its interval, the margin as a line."""
    colours = theme.scales(data.depths)
    axes.axhline(data.margin, color=theme.LIGHT["accent"], linewidth=1.1, linestyle=(0, (5, 2)))
    for row, depth in enumerate(data.depths):
        for rank, name in enumerate(data.names):
            distance, noise = np.array(data.distance[row][rank]), np.array(data.noise[row][rank])
            shift = 2 ** (0.12 * (row * len(data.names) + rank))
            x = np.array(data.widths) * shift
            low = np.minimum(ERRORS * noise, 0.999 * distance)
            measured(axes, x, distance, [low, ERRORS * noise], colours[depth], theme.family(rank))
            label = name if row == 0 else None
            axes.plot(
                x, distance, color=colours[depth], linewidth=0.9, linestyle="-" if rank == 0 else ":", label=label
            )
    logarithmic(axes.xaxis, data.widths)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5 * min(min(min(row) for row in table) for table in data.distance))
    decades(axes.yaxis)
    axes.set_xlim(data.widths[0] / 1.4, data.widths[-1] * 1.8)
    axes.legend(loc="lower left", fontsize=8)
    axes.set_xlabel("width n")
    axes.set_ylabel("distance over the labels' size")
    axes.set_title(data.title)
