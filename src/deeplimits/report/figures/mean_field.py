"""Training in the mean-field limit: outputs beside targets, the loss, the kernel against stability, moving features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.limits.training.mean_field.record import MeanField
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, short, size
from deeplimits.report.figures.mean_ode import SHOWN, OutputsData, draw_outputs

FALL = 1e-8  # of the largest value: less is not drawn
LAYERS = 3  # drawn
Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class CurvesData:
    """Curves over the steps, each with a standard error; a level that means something, and whether to use decades."""

    title: str
    label: str
    steps: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    level: float | None = None
    level_name: str = ""
    powers: bool = False

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        ends = [
            f"{name}{': ' if name else ''}from {short(v[0])} to {short(v[-1])}, at most {short(max(v))}"
            for name, v in zip(self.names, self.values, strict=True)
        ]
        level = "" if self.level is None else f" {self.level_name}: {short(self.level)}."
        return f"{self.label} over {self.steps[-1]} steps, {'; '.join(ends)}.{level}"


def panels_of(record: MeanField) -> list[Panel]:
    """Drawing functions and their data."""
    return [
        (draw_outputs, (outputs_data(record),)),
        *((draw_curves, (made(record),)) for made in (loss_data, kernel_data, features_data)),
    ]


def outputs_data(record: MeanField) -> OutputsData:
    """Take the first output, at inputs spread over the targets where there are many."""
    order = np.argsort(record.targets[:, 0], kind="stable")
    shown = order[_spread(len(order), SHOWN)]
    some = "" if len(shown) == len(order) else f" ({len(shown)} of {len(order)} inputs)"
    outputs, errors = (part.outputs[:, shown, 0].T for part in (record.course, record.standard_error))
    return OutputsData(
        f"Outputs, depth {size(record.depth)}, γ = {short(record.gamma)}{some}",
        _steps(record), _rows(outputs), _rows(errors), tuple(record.targets[shown, 0].tolist()),
    )  # fmt: skip


def loss_data(record: MeanField) -> CurvesData:
    """Take the loss."""
    values, errors = _rows(record.loss[None]), _rows(record.loss_error[None])
    return CurvesData("Loss while training", "½ Σ (f − y)²", _steps(record), ("",), values, errors, powers=True)


def kernel_data(record: MeanField) -> CurvesData:
    """Take the kernel's largest eigenvalue, by which steps may overshoot."""
    values = record.rate * record.sharpness
    return CurvesData(
        "The kernel beside what steps can follow", "rate × largest eigenvalue of the NTK", _steps(record), ("",),
        _rows(values[None]), _rows(np.zeros_like(values)[None]), 2.0, "errors grow above",
    )  # fmt: skip


def features_data(record: MeanField) -> CurvesData:
    """Take how far the features' kernel of each layer is from its start, relative to it."""
    now, error = (np.einsum("lttij->ltij", part.features) for part in (record.course, record.standard_error))
    layers = _spread(len(now), LAYERS)
    start = now[layers, :1]
    norm = np.sqrt((start**2).sum((2, 3)))
    norm = np.where(norm > 0, norm, 1.0)
    moved = np.sqrt(((now[layers] - start) ** 2).sum((2, 3))) / norm
    noise = np.sqrt((error[layers] ** 2).sum((2, 3))) / norm
    noise[:, 0] = 0.0
    names = tuple(_layer_name(record, int(layer), len(now)) for layer in layers)
    title = "How far features move"
    return CurvesData(title, "|Φ(t) − Φ(0)| / |Φ(0)|", _steps(record), names, _rows(moved), _rows(noise))


def _spread(count: int, most: int) -> Any:
    """Return places of at most `most` of that many, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _layer_name(record: MeanField, layer: int, count: int) -> str:
    if record.depth == inf:
        return f"τ = {short(layer / (count - 1))}"
    return f"layer {layer + 1}" if record.depth == count else f"block {layer}"


def _steps(record: MeanField) -> tuple[int, ...]:
    return tuple(int(t) for t in record.times)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.asarray(values).tolist())


def draw_curves(axes: Any, data: CurvesData) -> None:
    """Draw a line a curve with a band of two standard errors, and the level as a thin line with its name."""
    several = len(data.names) > 1
    named = several or data.level is not None
    colours = theme.scales(range(len(data.names))) if several else {0: theme.LIGHT["ink"]}
    for i, (name, curve, error) in enumerate(zip(data.names, data.values, data.errors, strict=True)):
        value, spread = np.array(curve), np.array(error)
        axes.fill_between(data.steps, value - 2 * spread, value + 2 * spread, color=colours[i], alpha=0.2, linewidth=0)
        axes.plot(data.steps, value, color=colours[i], linestyle=theme.family(i).line, label=name)
    if data.level is not None:
        dots = (0, (1.2, 1.6))
        axes.axhline(data.level, color=theme.LIGHT["accent"], linewidth=0.9, linestyle=dots, label=data.level_name)
        axes.set_ylim(0, 1.12 * max(data.level, max(max(row) for row in data.values)))
    top = max(max(row) for row in data.values)
    if data.powers and min(min(row) for row in data.values) > 0 and np.isfinite(top):
        decades(axes.yaxis)
        axes.set_ylim(max(0.5 * min(min(row) for row in data.values), FALL * top), 2 * top)
    if named:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=3, columnspacing=1.0)
    axes.set_xlabel("steps")
    axes.set_ylabel(data.label)
    axes.set_title(data.title, pad=24 if named else 8)
