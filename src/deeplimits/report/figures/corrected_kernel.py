"""Kernels at finite width: how their means move and how far one network is from them, against the width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from deeplimits.limits.corrections.record import CorrectedKernel
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, logarithmic, short

Panel = tuple[Callable[..., None], tuple[Any, ...]]
OCTAVES = 6


@dataclass(frozen=True)
class WidthData:
    """One kernel's change and spread against width: root mean squares over entries, relative to the kernel's."""

    title: str
    widths: tuple[float, ...]
    shift: tuple[float, ...]
    spread: tuple[float, ...]
    valid_from: float

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        return (
            f"{self.title}: at width {self.widths[-1]:g} the mean moves by {short(self.shift[-1])} of itself and one "
            f"network lies {short(self.spread[-1])} from it; first order holds well above width {self.valid_from:.0f}."
        )


def panels_of(record: CorrectedKernel) -> list[Panel]:
    """Drawing functions and their data for kernels with corrections."""
    kernels = (
        ("NNGP kernel", record.nngp, record.nngp_shift, record.nngp_variance),
        ("NTK", record.ntk, record.ntk_shift, record.ntk_variance),
    )
    first = max(int(log2(max(record.fluctuation, 2.0))) - 1, ceil(log2(record.least_width)))
    widths = tuple(2.0**power for power in range(first, first + OCTAVES + 1))
    return [
        (draw_width, (width_data(title, widths, kernel, shift, variance, record.fluctuation),))
        for title, kernel, shift, variance in kernels
        if kernel is not None
    ]


def width_data(
    title: str, widths: tuple[float, ...], kernel: Any, shift: Any, variance: Any, first: float
) -> WidthData:
    """Average over entries."""
    size, moved, wide = (
        float(np.sqrt(np.mean(np.asarray(part, dtype=float)))) for part in (kernel**2, shift**2, variance)
    )
    return WidthData(
        title, widths, tuple(moved / size / n for n in widths), tuple(wide / size / n**0.5 for n in widths), first
    )


def draw_width(axes: Any, data: WidthData) -> None:
    """Draw both curves and the width where fluctuations are as large as the kernel."""
    axes.plot(data.widths, data.spread, color=theme.LIGHT["accent"], marker="s", markersize=4, label="one network")
    if any(data.shift):
        axes.plot(
            data.widths, data.shift, color=theme.LIGHT["ink"], marker="o", markersize=4, label="mean over networks"
        )
    axes.axvline(max(data.valid_from, data.widths[0]), color=theme.LIGHT["muted"], linewidth=0.9, linestyle=(0, (4, 3)))
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2)
    logarithmic(axes.xaxis, data.widths)
    axes.set_yscale("log")
    decades(axes.yaxis)
    axes.set_xlabel(f"width n; first order holds well above {data.valid_from:.0f}")
    axes.set_ylabel("relative distance to the limit")
    axes.set_title(data.title, pad=24)
