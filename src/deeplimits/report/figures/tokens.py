"""Tokens moving: their paths on the circle, the sphere or the plane, with energy and clusters below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimits.limits.tokens.record import Tokens
from deeplimits.report import theme
from deeplimits.report.figures import token_places
from deeplimits.report.figures.axes import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = list(theme.scales(list(range(theme.STOPS))).values())
TITLES = {
    "softmax": "Softmax attention on the {place}",
    "unnormalised": "Unnormalised attention on the {place}",
    "hardmax": "Hardmax attention",
    "sinkhorn": "Doubly stochastic attention",
}
PLACES = {
    "circle": token_places.circle,
    "ball": token_places.ball,
    "plane": token_places.plane,
    "line": token_places.line,
}
NOTES = {
    "circle": "rings are moments: time runs outwards",
    "ball": "the near side is strong, the far side faint",
    "plane": "colour is time",
    "line": "time runs to the right",
}


@dataclass(frozen=True)
class TokensData:
    """What is drawn.

    Attributes:
        title: of the figure.
        note: how to read it.
        shape: "circle" (time runs outwards), "ball", "plane" or "line" (time runs to the right).
        times: shape (T,).
        paths: places on the paper, shape (T, m, 2).
        front: 1 where a token is on the near side of the sphere, fading on the far one, shape (T, m).
        ends: (place, tokens) of every cluster at the end.
        leaders: tokens that never move.
        hull: corners around the tokens at the start, shape (K, 2); empty unless "hardmax" in a plane.
        energy: shape (T,).
        steps: (time, clusters) of their number, as a staircase.
        logarithmic: whether time is.
    """

    title: str
    note: str
    shape: str
    times: np.ndarray
    paths: np.ndarray
    front: np.ndarray
    ends: list[tuple[np.ndarray, int]]
    leaders: np.ndarray
    hull: np.ndarray
    energy: np.ndarray
    steps: tuple[np.ndarray, np.ndarray]
    logarithmic: bool

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        first, last = int(self.steps[1][0]), int(self.steps[1][-1])
        sizes = ", ".join(str(size) for size in sorted((size for _, size in self.ends), reverse=True)[:6])
        return (
            f"{self.title}: {self.paths.shape[1]} tokens from time {short(self.times[0])} to {short(self.times[-1])}; "
            f"{first} clusters become {last}, the largest of {sizes} tokens; the energy goes from "
            f"{short(self.energy[0])} to {short(self.energy[-1])}."
        )


def tokens_data(record: Tokens) -> TokensData:
    """Take the paths of a record to the paper, and its energy and clusters."""
    shape = _shape(record)
    title = TITLES[record.kind].format(place="circle" if shape == "circle" else "sphere")
    paths, front, share = PLACES[shape](record)
    groups = record.clusters[-1]
    ends = [(paths[-1][groups == group].mean(axis=0), int(np.sum(groups == group))) for group in np.unique(groups)]
    if shape in ("circle", "ball"):
        ends = [(paths[-1][np.argmax(groups == group)], size) for group, (_, size) in enumerate(ends)]
    hull = token_places.hull(paths[0]) if record.kind == "hardmax" and shape == "plane" else np.empty((0, 2))
    note = f"{record.trajectory.shape[1]} tokens; {NOTES[shape]}"
    note += "; shaded: the hull of their start" if len(hull) else ""
    note += f"; a projection: {100 * share:.0f} % of the squares" if share < 1 else ""
    times = record.times
    skewed = len(times) > 2 and times[-1] > 0 and float(np.median(times)) < 0.1 * times[-1]
    steps = _staircase(record)
    return TokensData(title, note, shape, times, paths, front, ends, record.leaders, hull, record.energy, steps, skewed)


def _shape(record: Tokens) -> str:
    dimension = record.trajectory.shape[2]
    if dimension == 1:
        return "line"
    if not record.sphere:
        return "plane"
    return "circle" if dimension == 2 else "ball"


def _staircase(record: Tokens) -> tuple[np.ndarray, np.ndarray]:
    start, end = record.times[0], record.times[-1]
    inside = (record.merge_times > start) & (record.merge_times <= end)
    times = np.concatenate([[start], record.merge_times[inside], [end]])
    counts = np.concatenate([[record.cluster_count[0]], record.merge_counts[inside], [record.cluster_count[-1]]])
    return times, counts


def figure(record: Tokens) -> Figure:
    """Draw the paths above, the energy and the number of clusters below."""
    from matplotlib.figure import Figure

    data = tokens_data(record)
    with theme.applied():
        sheet = Figure(figsize=(6.3, 7.6), layout="constrained")
        sheet.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # type: ignore[union-attr]
        grid = sheet.subplot_mosaic([["paths", "paths"], ["energy", "clusters"]], height_ratios=[3.3, 1.0])
        sheet.suptitle(data.title, x=0.02, ha="left", fontsize=12.5, fontweight="bold", color=theme.LIGHT["ink"])
        sheet.text(0.02, 0.958, data.note, ha="left", va="top", color=theme.LIGHT["muted"], fontsize=9)
        draw(grid["paths"], data)
        draw_energy(grid["energy"], data)
        draw_clusters(grid["clusters"], data)
    return sheet


def draw(axes: Any, data: TokensData) -> None:
    """Draw every path coloured by time, rings where tokens start, dots as large as the clusters where they end."""
    _ground(axes, data)
    _paths(axes, data.paths, data.front)
    start = {"s": 11, "facecolor": theme.LIGHT["paper"], "edgecolor": COLOURS[0], "linewidth": 1.1, "zorder": 4}
    axes.scatter(*data.paths[0].T, alpha=data.front[0], label="start", **start)
    for place, size in data.ends:
        axes.scatter(
            *place, s=26 + 13 * size, color=COLOURS[-1], edgecolor=theme.LIGHT["paper"], linewidth=1.2, zorder=5
        )
    axes.scatter([], [], s=60, color=COLOURS[-1], label="end, larger for more tokens")
    if len(data.leaders):
        ring = {"s": 210, "facecolor": "none", "edgecolor": theme.LIGHT["accent"], "linewidth": 1.8, "zorder": 6}
        axes.scatter(*data.paths[0][data.leaders].T, label="leader", **ring)
    axes.set_title(" ", fontsize=9, pad=2)
    below = {"plane": -0.05, "line": -0.13}.get(data.shape, 0.01)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, below), ncols=3, handletextpad=0.4, columnspacing=1.6)


def draw_energy(axes: Any, data: TokensData) -> None:
    """Draw the energy, coloured by time like the paths."""
    from matplotlib.collections import LineCollection

    points = np.stack([data.times, data.energy], axis=1)
    colours = _colours(len(points) - 1)
    axes.add_collection(LineCollection(_pairs(points), colors=colours, linewidths=2.2, capstyle="round"))
    axes.autoscale_view()
    axes.margins(x=0.02, y=0.12)
    axes.set_title("Energy")
    _time(axes, data)


def draw_clusters(axes: Any, data: TokensData) -> None:
    """Draw the number of clusters as a staircase."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    axes.step(*data.steps, where="post", color=theme.LIGHT["ink"], linewidth=1.8)
    most = int(data.steps[1].max())
    axes.set_yscale("log", base=2)
    marks = sorted({2**power for power in range(most.bit_length())} | {1})
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.set_ylim(0.85, 1.25 * most)
    axes.margins(x=0.02)
    axes.set_title("Clusters")
    _time(axes, data)


def _time(axes: Any, data: TokensData) -> None:
    if data.logarithmic:
        first = data.times[data.times > 0][0]
        axes.set_xscale("symlog", linthresh=float(first))
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        low, high = int(np.ceil(np.log10(first))), int(np.floor(np.log10(data.times[-1])))
        marks = [0.0, *(10.0**power for power in range(low, high + 1, max(1, (high - low + 3) // 4)))]
        axes.xaxis.set_major_locator(FixedLocator(marks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xlabel("step" if data.title == TITLES["hardmax"] else "time")


def _paths(axes: Any, paths: np.ndarray, front: np.ndarray) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    colours = np.array([to_rgba(colour) for colour in _colours(len(paths) - 1)]).reshape(-1, 4)
    for token in range(paths.shape[1]):
        shades = colours.copy()
        shades[:, 3] *= 0.85 * (front[1:, token] + front[:-1, token]) / 2
        axes.add_collection(
            LineCollection(_pairs(paths[:, token]), colors=shades, linewidths=1.5, capstyle="round", zorder=3)
        )
    axes.autoscale_view()


def _pairs(points: np.ndarray) -> list[np.ndarray]:
    return list(np.stack([points[:-1], points[1:]], axis=1))


def _colours(count: int) -> list[str]:
    return [COLOURS[round((theme.STOPS - 1) * index / max(count - 1, 1))] for index in range(count)]


def _ground(axes: Any, data: TokensData) -> None:
    """Draw what the tokens live on: rings of time, the sphere's net, or the hull of the tokens at the start."""
    rule = {"color": theme.LIGHT["rule"], "linewidth": 0.8, "zorder": 1}
    if data.shape in ("plane", "line"):
        if len(data.hull):
            from matplotlib.patches import Polygon

            axes.add_patch(Polygon(data.hull, closed=True, facecolor=theme.LIGHT["band"], edgecolor="none", zorder=0))
        axes.margins(0.08)
        if data.shape == "plane":
            axes.set_aspect("equal", adjustable="datalim")
            return
        axes.set_xlabel("time")
        return
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-1.12, 1.12)
    axes.set_ylim(-1.12, 1.12)
    turn = np.linspace(0, 2 * np.pi, 361)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    if data.shape == "ball":
        axes.fill(*circle, color=theme.LIGHT["band"], alpha=0.55, zorder=0)
        axes.plot(*circle, **{**rule, "color": theme.LIGHT["muted"], "linewidth": 1.0})
        for level in (0.25, 0.5, 0.75):
            axes.plot(*(level * circle), **rule, alpha=0.7)
        return
    angle = token_places.free_angle(data.paths)
    for index in np.unique(np.linspace(0, len(data.times) - 1, 4).astype(int)):
        radius = token_places.INNER + (1 - token_places.INNER) * index / max(len(data.times) - 1, 1)
        axes.plot(*(radius * circle), **rule)
        box = {"boxstyle": "round,pad=0.12", "facecolor": theme.LIGHT["paper"], "edgecolor": "none"}
        place = radius * np.cos(angle), radius * np.sin(angle)
        text = {"ha": "center", "va": "center", "fontsize": 8, "color": theme.LIGHT["muted"], "zorder": 2}
        axes.text(*place, f"t = {short(float(data.times[index]))}", bbox=box, **text)
