"""The mean ODE while it trains: outputs beside targets, the loss beside its bound, states along depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.limits.training.branches.record import MeanODE
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, short, size

SHOWN = 6
Panel = tuple[Callable[..., None], tuple[Any, ...]]


@dataclass(frozen=True)
class OutputsData:
    """Outputs at some training inputs over steps, with standard errors, and their targets."""

    title: str
    steps: tuple[int, ...]
    outputs: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    targets: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [
            f"from {short(f[0])} to {short(f[-1])}, target {short(y)}"
            for f, y in zip(self.outputs, self.targets, strict=True)
        ]
        return f"Outputs over {self.steps[-1]} steps: {'; '.join(parts)}."


@dataclass(frozen=True)
class LossData:
    """The loss over steps, and the bound by the smallest eigenvalues of Gram matrices."""

    title: str
    steps: tuple[int, ...]
    loss: tuple[float, ...]
    bound: tuple[float, ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        return (
            f"Loss over steps, from {short(self.loss[0])} to {short(self.loss[-1])}; the smallest eigenvalues of the "
            f"Gram matrices allow {short(self.bound[-1])}."
        )


@dataclass(frozen=True)
class StatesData:
    """Norms of states along the depth over those at the embedding, before and after training."""

    title: str
    times: tuple[float, ...]
    before: tuple[tuple[float, ...], ...]
    after: tuple[tuple[float, ...], ...]

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        before, after = ([row[-1] for row in rows] for rows in (self.before, self.after))
        return (
            f"How far states move along the depth over their norm at the start: by at most {short(max(before))} before "
            f"training, {short(min(after))} to {short(max(after))} after."
        )


def panels_of(record: MeanODE) -> list[Panel]:
    """Drawing functions and their data."""
    return [
        (draw_outputs, (outputs_data(record),)),
        (draw_loss, (loss_data(record),)),
        (draw_states, (states_data(record),)),
    ]


def outputs_data(record: MeanODE) -> OutputsData:
    """Take the first output, at inputs spread over the targets where there are many."""
    order = np.argsort(record.targets[:, 0], kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int))]
    some = "" if len(shown) == len(order) else f" ({len(shown)} of {len(order)} inputs)"
    scale = "lazy" if record.net.lazy else f"scale {short(record.net.scale)}"
    return OutputsData(
        f"Outputs, depth {size(record.depth)}, {scale}{some}", _steps(record),
        _rows(record.run.outputs[:, shown, 0].T), _rows(record.standard_error.outputs[:, shown, 0].T),
        tuple(record.targets[shown, 0].tolist()),
    )  # fmt: skip


def loss_data(record: MeanODE) -> LossData:
    """Take the loss and its bound."""
    title = "Loss beside the bound of Gram matrices"
    return LossData(title, _steps(record), tuple(record.loss.tolist()), tuple(record.loss_bound.tolist()))


def states_data(record: MeanODE) -> StatesData:
    """Take how far states are from the embedding, over its norm."""
    start = record.states[:, :1]
    norm = np.linalg.norm(start[0, 0], axis=-1)
    far = np.linalg.norm(record.states - start, axis=-1) / np.where(norm > 0, norm, 1.0)
    shown = np.unique(np.linspace(0, far.shape[2] - 1, min(SHOWN, far.shape[2])).round().astype(int))
    return StatesData(
        "How far states move along the depth", tuple(record.layer_times.tolist()),
        _rows(far[0][:, shown].T), _rows(far[1][:, shown].T),
    )  # fmt: skip


def _steps(record: MeanODE) -> tuple[int, ...]:
    return tuple(int(t) for t in record.times)


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in values.tolist())


def draw_outputs(axes: Any, data: OutputsData) -> None:
    """Draw a line an input with a band of two standard errors, its target as a thin line."""
    colours = theme.scales(range(len(data.targets)))
    for i, (f, error, y) in enumerate(zip(data.outputs, data.errors, data.targets, strict=True)):
        axes.axhline(y, color=theme.LIGHT["muted"], linewidth=0.7, linestyle=(0, (1.2, 1.6)))
        low, high = np.array(f) - 2 * np.array(error), np.array(f) + 2 * np.array(error)
        axes.fill_between(data.steps, low, high, color=colours[i], alpha=0.2, linewidth=0)
        axes.plot(data.steps, f, color=colours[i], marker="o" if len(f) <= 12 else "", markersize=3.5)
    _frame(axes, "steps", "output; dotted: target", data.title)


def draw_loss(axes: Any, data: LossData) -> None:
    """Draw the loss as a line and the bound dashed."""
    ink, muted = theme.LIGHT["ink"], theme.LIGHT["muted"]
    axes.plot(data.steps, data.loss, color=ink, label="loss")
    axes.plot(data.steps, data.bound, color=muted, linestyle=theme.family(1).line, label="bound")
    if min(*data.loss, *data.bound) > 0 and max(data.loss) < inf:
        decades(axes.yaxis)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0)
    _frame(axes, "steps", "½ Σ (f − y)²", data.title, pad=24)


def draw_states(axes: Any, data: StatesData) -> None:
    """Draw a line an input, before training dashed and after it solid."""
    colours = theme.scales(range(len(data.after)))
    for i, (before, after) in enumerate(zip(data.before, data.after, strict=True)):
        first = i == 0
        axes.plot(data.times, before, color=colours[i], linestyle=theme.family(1).line, label="before" if first else "")
        axes.plot(data.times, after, color=colours[i], label="after training" if first else "")
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0)
    _frame(axes, "layer time s", "|h(s) − h(0)| / |h(0)|", data.title, pad=24)


def _frame(axes: Any, x: str, y: str, title: str, pad: float = 8) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, pad=pad)
