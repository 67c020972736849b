"""The phase diagram: how many layers a correlation lives, over weight_std and bias_std, and the edge of chaos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.limits.flow.criticality import Criticality
from deeplimits.limits.flow.phase_diagram import PhaseDiagram
from deeplimits.report import theme

DEEPEST = 1000.0
_LEVELS = 64


@dataclass(frozen=True)
class PhaseData:
    """Lengths over the grid, `lengths[bias, weight]`, NaN where variances explode; the edge; the point asked about."""

    title: str
    weights: np.ndarray
    biases: np.ndarray
    lengths: np.ndarray
    chi: np.ndarray
    edge: np.ndarray
    here: tuple[float, float]

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        finite = self.lengths[np.isfinite(self.lengths)]
        reach = f"from {finite.min():.3g} to {finite.max():.3g} layers" if finite.size else "nowhere finite"
        edge = "no edge of chaos in this range"
        if len(self.edge):
            ends = [f"({x:.3g}, {y:.3g})" for x, y in (self.edge[0], self.edge[-1])]
            edge = f"the edge of chaos runs from (weight_std, bias_std) = {ends[0]} to {ends[1]}"
        return f"Correlation length over weight_std and bias_std, {reach}; {edge}."


def panels_of(record: PhaseDiagram | Criticality) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing function and data of the one drawing; a criticality has the diagram around it drawn."""
    return [(draw, (phase_data(record if isinstance(record, PhaseDiagram) else record.diagram()),))]


def phase_data(record: PhaseDiagram) -> PhaseData:
    """Take the lengths and the edge of a diagram."""
    title = f"{type(record.activation).__name__}: phases at infinite width"
    values = (record.weight_std, record.bias_std, record.correlation_length, record.chi, record.edge)
    return PhaseData(title, *values, record.here)


def draw(axes: Any, data: PhaseData) -> None:
    """Draw lengths as shades, the edge as a line, the point as a ring, and name the phases where they are."""
    from matplotlib.colors import ListedColormap, LogNorm

    colours = ListedColormap([theme.heat(i / (_LEVELS - 1))[0] for i in range(_LEVELS)])
    seen = np.ma.masked_invalid(np.clip(data.lengths, 0.1, DEEPEST))
    norm = LogNorm(max(0.1, float(seen.min())) if seen.count() else 0.1, DEEPEST)
    axes.patch.set(facecolor=theme.LIGHT["paper"], edgecolor=theme.LIGHT["rule"], hatch="////", linewidth=0)
    mesh = axes.pcolormesh(data.weights, data.biases, seen, cmap=colours, norm=norm, shading="gouraud", rasterized=True)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label("correlation length (layers)")
    bar.outline.set_visible(False)
    _edge(axes, data)
    ring = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "markeredgewidth": 1.8, "linestyle": "none"}
    axes.plot(*data.here, color=theme.LIGHT["paper"], **{**ring, "markeredgewidth": 3.6})
    axes.plot(*data.here, color=theme.LIGHT["accent"], label="the point asked about", clip_on=False, **ring)
    _names(axes, data)
    axes.set_xlim(data.weights[0], data.weights[-1])
    axes.set_ylim(data.biases[0], data.biases[-1])
    axes.grid(False)
    axes.set_xlabel("weight_std")
    axes.set_ylabel("bias_std")
    axes.set_title(data.title)
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _edge(axes: Any, data: PhaseData) -> None:
    if not len(data.edge):
        return
    style = {"color": theme.LIGHT["accent"], "label": "edge of chaos, χ = 1"}
    if len(data.edge) == 1:
        axes.plot(*data.edge[0], marker="D", markersize=6, linestyle="none", clip_on=False, **style)
        return
    axes.plot(*data.edge.T, color=theme.LIGHT["paper"], linewidth=4)
    axes.plot(*data.edge.T, linewidth=2, **style)


def _names(axes: Any, data: PhaseData) -> None:
    """Write each phase's name in the middle of its largest free stretch."""
    regions = {"ordered": data.chi < 1, "chaotic": data.chi > 1, "variance explodes": np.isnan(data.chi)}
    box = {"boxstyle": "round,pad=0.25", "facecolor": theme.LIGHT["paper"], "edgecolor": "none", "alpha": 0.92}
    for name, inside in regions.items():
        if inside.mean() < 0.02:
            continue
        rows, columns = np.nonzero(inside)
        row = np.bincount(rows, minlength=len(data.biases)).argmax() if name == "ordered" else int(np.median(rows))
        row = min(max(row, len(data.biases) // 6), len(data.biases) * 5 // 6)
        place = columns[rows == row] if (rows == row).any() else columns
        where = data.weights[int(np.median(place))], data.biases[row]
        axes.text(*where, name, ha="center", va="center", color=theme.LIGHT["ink"], fontsize=8.5, bbox=box)
