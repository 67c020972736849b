"""One hidden layer in training: losses and movement of features; meta-learning; the Gram matrix of an embedding."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.limits.training.one_hidden.maml import Maml
from deeplimits.limits.training.one_hidden.projected import Projected
from deeplimits.limits.training.one_hidden.record import OneHidden
from deeplimits.limits.training.one_hidden.word2vec import Word2vec
from deeplimits.report import theme
from deeplimits.report.figures.axes import decades, short

POINTS = 200


@dataclass(frozen=True)
class Line:
    """A named line over steps, with a standard error or without."""

    name: str
    steps: np.ndarray
    values: np.ndarray
    error: np.ndarray | None = None


@dataclass(frozen=True)
class LinesData:
    """Lines over steps of training."""

    title: str
    label: str
    lines: tuple[Line, ...]
    logarithmic: bool = False

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        parts = [f"{self.label} over steps of training."]
        for line in self.lines:
            name = f"{line.name}: " if line.name else ""
            first, last = line.values[0], line.values[-1]
            parts.append(f"{name}from {short(first)} to {short(last)} after {line.steps[-1]:.0f} steps.")
        return " ".join(parts)


@dataclass(frozen=True)
class GramData:
    """A Gram matrix, and the largest entry of those beside which it is drawn."""

    title: str
    gram: np.ndarray
    low: float
    high: float

    def describe(self) -> str:
        """The drawing in words, for readers who do not see it."""
        apart = self.gram[~np.eye(len(self.gram), dtype=bool)]
        diagonal = np.diag(self.gram)
        return (
            f"{self.title}: {len(self.gram)} tokens, diagonal {short(diagonal.min())} to {short(diagonal.max())}, "
            f"other entries {short(apart.min())} to {short(apart.max())}."
        )


def panels_of(record: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing function and data of every drawing of a record."""
    drawings = {OneHidden: _trained, Projected: _trained, Maml: _learned, Word2vec: _embedded}
    kind = next(kind for kind in drawings if isinstance(record, kind))
    return [(draw_gram if isinstance(data, GramData) else draw, (data,)) for data in drawings[kind](record)]


def _trained(record: OneHidden | Projected) -> list[LinesData]:
    error = None if isinstance(record, Projected) else record.loss_error
    title = "Training in the π-limit" if isinstance(record, Projected) else f"Training at {_width(record.width)}"
    loss = Line("", record.times, record.loss, error)
    found = [LinesData(title, "loss", (loss,), logarithmic=bool(np.all(record.loss > 0)))]
    if len(record.kept) > 1:
        moved = Line("", record.kept, record.movement)
        found.append(LinesData("Features move", "|Φ(t) − Φ(0)| / |Φ(0)|", (moved,)))
    return found


def _learned(record: Maml) -> list[LinesData]:
    pairs = [("before adaptation", record.unadapted), ("after adaptation", record.losses)]
    if record.test_runs.shape[2]:
        pairs += [("new tasks, before", record.test_unadapted), ("new tasks, after", record.test_losses)]
    lines = tuple(Line(name, record.times, values.mean(axis=0)) for name, values in pairs)
    positive = all(bool(np.all(line.values > 0)) for line in lines)
    return [LinesData(f"Meta-learning at {_width(record.width)}", "loss at the queries", lines, positive)]


def _embedded(record: Word2vec) -> list[LinesData | GramData]:
    low, high = float(record.gram.min()), float(record.gram.max())
    places = sorted({0, len(record.kept) // 2, len(record.kept) - 1})
    grams = [GramData(f"Embedding after {record.kept[k]} steps", record.gram[k], low, high) for k in places]
    if not len(record.loss):
        return list(grams)
    pieces = [part for part in np.array_split(np.arange(len(record.loss)), min(POINTS, len(record.loss))) if len(part)]
    steps, values = (np.array([column[part].mean() for part in pieces]) for column in (record.times, record.loss))
    return [*grams, LinesData(f"Learning at {_width(record.width)}", "loss of a batch", (Line("", steps, values),))]


def _width(width: float) -> str:
    return "infinite width" if width == inf else f"width {width:.0f}"


def draw(axes: Any, data: LinesData) -> None:
    """Draw lines over steps, bands of two standard errors around them."""
    colours = (theme.LIGHT["ink"], theme.LIGHT["accent"], *theme.scales(range(2)).values())
    for rank, line in enumerate(data.lines):
        style = theme.family(rank)
        axes.plot(line.steps, line.values, color=colours[rank], linestyle=style.line, label=line.name)
        if line.error is not None and np.isfinite(line.error).all():
            low, high = line.values - 2 * line.error, line.values + 2 * line.error
            axes.fill_between(line.steps, low, high, color=colours[rank], alpha=0.2, linewidth=0)
    if data.logarithmic:
        decades(axes.yaxis)
    axes.set_xlabel("steps")
    axes.set_ylabel(data.label)
    several = len(data.lines) > 1
    if several:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.98), ncols=2, columnspacing=1.0, labelspacing=0.3)
    axes.set_title(data.title, pad=38 if len(data.lines) > 2 else 24 if several else 8)


def draw_gram(axes: Any, data: GramData) -> None:
    """Draw a Gram matrix as squares of colour, with their scale beside it."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("gram", list(theme.HEAT_RAMP))
    high = data.high if data.high > data.low else data.low + 1
    tokens = np.arange(len(data.gram))
    mesh = axes.pcolormesh(tokens, tokens, data.gram, cmap=colours, vmin=data.low, vmax=high, shading="nearest")
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.grid(False)
    axes.set_xlabel("token")
    axes.set_ylabel("token")
    axes.figure.colorbar(mesh, ax=axes, shrink=0.85, label="⟨e, e′⟩ / n")
    axes.set_title(data.title)
