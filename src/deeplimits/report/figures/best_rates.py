"""Best learning rates of linear networks over the width, and how far one network lies from their limit."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from deeplimits.limits.training.linear.best_rate_record import BestRates
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, logarithmic, measured, short

NAMES = {"mup": "μP", "sp": "standard parametrization", "ntp": "NTK parametrization"}


@dataclass(frozen=True)
class RatesData:
    """Measured medians with standard errors over widths, beside a line."""

    title: str
    label: str
    widths: tuple[int, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    line: tuple[float, ...]
    named: str

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        rows = zip(self.widths, self.values, self.errors, strict=True)
        listed = "; ".join(f"width {n}: {short(value)} with standard error {short(error)}" for n, value, error in rows)
        return f"{self.label}: {listed}. {self.named}: {short(self.line[0])} to {short(self.line[-1])}."


def panels_of(record: BestRates) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing function and data: the rates, and their distance from the limit or from each other."""
    return [(draw, (rates_data(record),)), (draw, (distance_data(record),))]


def rates_data(record: BestRates) -> RatesData:
    """Take medians, beside the limit where there is one, else beside the fall of the standard parametrization."""
    values, errors = record.median
    widths = np.array(record.widths)
    if record.rule == "sp":
        line, named = values[-1] * widths[-1] / widths, "1/width through the last"
    elif isnan(record.limit):
        line, named = np.full(len(widths), values[-1]), "constant through the last"
    else:
        line, named = np.full(len(widths), record.limit), f"limit {short(record.limit)}"
    steps = f"{record.steps} step{'s' if record.steps > 1 else ''}"
    title = f"{NAMES[record.rule]}: best rate of {steps}"
    return _data(title, "best learning rate, median", record, values, errors, line, named)


def distance_data(record: BestRates) -> RatesData:
    """Take distances, beside the power -1/2 through the first."""
    values, errors = record.distance
    around = "their median" if isnan(record.limit) else "the limit"
    power = -1.0 if record.rule == "sp" else 0.0 if record.rule == "ntp" else -0.5
    line = values[0] * (np.array(record.widths) / record.widths[0]) ** power
    named = {-1.0: "1/width", 0.0: "constant", -0.5: "1/√width"}[power] + " through the first"
    return _data(f"How far one network is from {around}", "median distance", record, values, errors, line, named)


def _data(
    title: str, label: str, record: BestRates, values: Any, errors: Any, line: Any, named: str
) -> RatesData:  # fmt: skip
    values, errors, line = (tuple(float(v) for v in row) for row in (values, errors, line))
    return RatesData(title, label, record.widths, values, errors, line, named)


def draw(axes: Any, data: RatesData) -> None:
    """Draw measured points with bars over the line."""
    axes.plot(data.widths, data.line, color=theme.LIGHT["accent"], label=data.named)
    measured(axes, data.widths, data.values, data.errors, theme.LIGHT["ink"], theme.family(0), label="sampled networks")
    logarithmic(axes.xaxis, data.widths)
    axes.set_xlim(min(data.widths) / 1.3, max(data.widths) * 1.3)
    low, high = min(*data.values, *data.line), max(*data.values, *data.line)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.5, high * 1.5)
    decades(axes.yaxis)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0)
    axes.set_xlabel("width n")
    axes.set_ylabel(data.label)
    axes.set_title(data.title, pad=24)
