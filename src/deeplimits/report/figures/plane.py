"""The (width, depth) plane: how far one network stands from its limit, and what theory says at the edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

from deeplimits.plane.record import Comparison, Place
from deeplimits.report import theme
from deeplimits.report.figures.axes import short, size
from deeplimits.report.words import family_name

RANGE = (0.06, 8.0)


@dataclass(frozen=True)
class PlaneData:
    """Measured `cells[depth, width]`, predicted `edge[depth]` at infinite width, `edge[inf]` the corner."""

    title: str
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    cells: dict[tuple[int, int], float]
    edge: dict[float, float | None]
    quantity: str
    edge_quantity: str

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        worst, best = max(self.cells, key=self.cells.__getitem__), min(self.cells, key=self.cells.__getitem__)
        corner = self.edge.get(inf)
        end = f"the corner is {corner:.4g}" if corner is not None else "there is no corner"
        ends = [f"{short(self.cells[at])} at width {at[1]}, depth {at[0]}" for at in (best, worst)]
        return (
            f"Grid of widths {_listed(self.widths)} and depths {_listed(self.depths)}, coloured by the "
            f"{self.quantity}: from {ends[0]} to {ends[1]}. On the right edge stands the {self.edge_quantity}; {end}."
        )


def plane_data(record: Comparison) -> PlaneData:
    """Take the distance of one network from the right edge at each place: the rms over networks of log(q/q_edge).

    Without it, the relative rms of the NNGP, or the spread of a neural function.
    """
    cells, quantity = {}, ""
    for name, read in _QUANTITIES.items():
        found = {(p.depth, p.width): read(p) for p in record.places}
        cells = {place: value for place, value in found.items() if value is not None and 0 < value < inf}
        if cells:
            quantity = name
            break
    edge: dict[float, float | None] = {}
    for place in record.places:
        if place.nngp is not None and place.nngp.predicted is not None:
            edge[place.depth] = _mean_diagonal(place.nngp.predicted)
    if edge:
        edge[inf] = None if record.corner_nngp is None else _mean_diagonal(record.corner_nngp)
    title = f"{family_name(record)}: {_pattern(record)}"
    return PlaneData(
        title, tuple(record.widths), tuple(record.depths), cells, edge, quantity, "predicted mean diagonal of the NNGP"
    )


_QUANTITIES: dict[str, Callable[[Place], float | None]] = {
    "rms over networks of log(q/q∞)": lambda p: p.log_rms.value if p.log_rms else None,
    "relative rms of the NNGP over networks": lambda p: p.nngp.rms.value if p.nngp and p.nngp.rms else None,
    "spread of the function over networks": lambda p: sqrt(p.function.spread.value) if p.function else None,
}


def _pattern(record: Comparison) -> str:
    words = {"commutes": "only width matters", "does not commute": "depth / width matters"}
    return words.get(record.verdict.word, record.verdict.word)


def _mean_diagonal(matrix: Sequence[Sequence[float]]) -> float:
    return sum(matrix[i][i] for i in range(len(matrix))) / len(matrix)


def _listed(values: Sequence[int]) -> str:
    return ", ".join(str(value) for value in values)


def draw(axes: Any, data: PlaneData) -> None:
    """Draw the plane: cells with their number inside, the edges at infinity as framed cells, a hairline along L = n."""
    rows, columns = {d: i for i, d in enumerate(data.depths)}, {w: i for i, w in enumerate(data.widths)}
    right, above = len(columns) + 0.25, len(rows) + 0.25
    for (depth, width), value in data.cells.items():
        fill, text = theme.heat(_place(value))
        _cell(axes, columns[width], rows[depth], fill, None)
        _write(axes, columns[width], rows[depth], short(float(f"{value:.2g}")), text)
    x, y = [c + 0.5 for c in columns.values()], [r + 0.5 for r in rows.values()]
    x_names, y_names = [size(w) for w in columns], [size(d) for d in rows]
    if data.edge:
        for depth, row in rows.items():
            _edge(axes, right, row, data.edge.get(depth))
        _edge(axes, right, above, data.edge.get(inf), corner=True)
        _note(axes, len(columns), above)
        x, y = [*x, right + 0.5], [*y, above + 0.5]
        x_names, y_names = [*x_names, "∞"], [*y_names, "∞"]
    axes.set_xticks(x, x_names)
    axes.set_yticks(y, y_names)
    axes.set_xlim(-0.04, max(x) + 0.54)
    axes.set_ylim(-0.04, max(y) + 0.54)
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("width n")
    axes.set_ylabel("depth L")
    axes.set_title(data.title)


def _cell(axes: Any, column: float, row: float, fill: str, frame: str | None) -> None:
    from matplotlib.patches import Rectangle

    edge = frame or theme.LIGHT["paper"]
    inset = 0.03 if frame else 0.0
    shape = (column + inset, row + inset), 1 - 2 * inset, 1 - 2 * inset
    axes.add_patch(Rectangle(*shape, facecolor=fill, edgecolor=edge, linewidth=1.4 if frame else 1.2))


def _write(axes: Any, column: float, row: float, text: str, colour: str, **options: Any) -> None:
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour, fontsize=8.5, **options)


def _place(value: float) -> float:
    low, high = RANGE
    return log(min(max(value, low), high) / low) / log(high / low)


def _note(axes: Any, columns: int, row: float) -> None:
    text = "inside: measured, one network's distance\nframed: predicted mean q, width first"
    axes.text(columns - 0.06, row + 0.5, text, ha="right", va="center", color=theme.LIGHT["muted"], fontsize=8)


def _edge(axes: Any, column: float, row: float, value: float | None, corner: bool = False) -> None:
    _cell(axes, column, row, theme.LIGHT["band"], theme.LIGHT["ink"])
    text = "none" if value is None else "∞" if value == inf else f"{value:.4g}"
    _write(axes, column, row, text, theme.LIGHT["ink"], fontweight="bold" if corner else "normal")
