"""The one look of every figure: colour is scale, style is family, predicted is a line, measured is a marker with a bar.

Figures are drawn in named light colours; in a page each becomes a CSS variable: one SVG serves light, dark and print.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT = {
    "ink": "#1d2433",
    "muted": "#566076",
    "rule": "#d3d8e2",
    "paper": "#fffffe",
    "band": "#e4eff3",
    "accent": "#b3461f",
}
DARK = {
    "ink": "#e6e9f0",
    "muted": "#a7b0c2",
    "rule": "#3a4254",
    "paper": "#151922",
    "band": "#20333d",
    "accent": "#ff9a6b",
}
STOPS = 17
LIGHT_RAMP = ("#c8622b", "#c23b5c", "#8f2a8a", "#4d2f9e", "#161f6b")
DARK_RAMP = ("#8a5bd6", "#c65bc7", "#f0718f", "#fda45f", "#fbe08a")
HEAT_RAMP = ("#d9ebef", "#9fd0d6", "#5fa9bf", "#3b7ba6", "#304f86", "#22265a", "#120f2e")


@dataclass(frozen=True)
class Style:
    """How one family is drawn, whatever its scale."""

    line: Any
    marker: str
    filled: bool


FAMILIES = (
    Style("-", "o", True),
    Style((0, (5, 2)), "s", False),
    Style((0, (1.2, 1.6)), "^", True),
    Style((0, (6, 1.6, 1.2, 1.6)), "D", False),
)


def family(index: int) -> Style:
    """Style of the index-th family of a figure."""
    return FAMILIES[index % len(FAMILIES)]


def _blend(ramp: Sequence[str], place: float) -> str:
    """Colour at place in [0, 1] along a ramp, interpolated in linear light so that equal steps look equal."""
    place = min(max(place, 0.0), 1.0) * (len(ramp) - 1)
    start = min(int(place), len(ramp) - 2)
    mixed = []
    for low, high in zip(_channels(ramp[start]), _channels(ramp[start + 1]), strict=True):
        linear = (1 - (place - start)) * (low / 255) ** 2.2 + (place - start) * (high / 255) ** 2.2
        mixed.append(round(255 * linear ** (1 / 2.2)))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def scales(values: Sequence[float]) -> dict[float, str]:
    """Line colour of each size: small sizes warm and light, large sizes cool and deep (the reverse on dark paper)."""
    ordered = sorted(set(values))
    last = max(len(ordered) - 1, 1)
    return {
        value: _blend(LIGHT_RAMP, round((STOPS - 1) * rank / last) / (STOPS - 1)) for rank, value in enumerate(ordered)
    }


def heat(place: float) -> tuple[str, str]:
    """Fill and text colour of a cell at place in [0, 1]; the same on light and dark paper."""
    fill = _blend(HEAT_RAMP, place)
    return fill, max("#000000", "#ffffff", key=lambda text: contrast(fill, text))


def luminance(colour: str) -> float:
    """Relative luminance of a hex colour, as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _variables() -> list[tuple[str, str, str]]:
    """(CSS name, light colour, dark colour) of everything that changes with the paper."""
    named = [(name, LIGHT[name], DARK[name]) for name in LIGHT]
    ramp = [
        (f"size-{i}", _blend(LIGHT_RAMP, i / (STOPS - 1)), _blend(DARK_RAMP, i / (STOPS - 1))) for i in range(STOPS)
    ]
    return named + ramp


def css(paper: str) -> str:
    """CSS declarations of the variables on light or dark paper."""
    column = {"light": 1, "dark": 2}[paper]
    return " ".join(f"--{row[0]}: {row[column]};" for row in _variables())


@contextmanager
def applied() -> Iterator[None]:
    """Matplotlib settings of the theme, for the time of one drawing; nothing global is left changed."""
    import matplotlib

    ink, muted = LIGHT["ink"], LIGHT["muted"]
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "deeplimits",
        "font.family": "sans-serif",
        "font.size": 9.0,
        "axes.titlesize": 10.0,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 8.0,
        "axes.titlecolor": ink,
        "axes.labelsize": 9.0,
        "axes.labelcolor": ink,
        "axes.edgecolor": muted,
        "axes.facecolor": "none",
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.which": "major",
        "axes.unicode_minus": True,
        "grid.color": LIGHT["rule"],
        "grid.linewidth": 0.6,
        "text.color": ink,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "xtick.minor.size": 0.0,
        "ytick.minor.size": 0.0,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "legend.handlelength": 2.2,
        "lines.linewidth": 1.6,
        "lines.markersize": 5.5,
        "errorbar.capsize": 2.0,
        "figure.facecolor": LIGHT["paper"],
        "savefig.facecolor": LIGHT["paper"],
        "figure.dpi": 100.0,
    }
    with matplotlib.rc_context(settings):
        yield


def svg(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as inline SVG: text stays text, colours are CSS variables, ids start with name, no date."""
    stream = io.StringIO()
    with applied():
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"(font: [^;\"]*?)'[^;\"]*sans-serif", r"\1sans-serif", text)
    for variable, light, _ in _variables():
        text = re.sub(f"{light}(?![0-9a-f])", f"var(--{variable})", text)
    head = f'<svg role="img" aria-labelledby="{name}-title {name}-desc"'
    label = f'<title id="{name}-title">{_escape(title)}</title><desc id="{name}-desc">{_escape(description)}</desc>'
    text = text.replace("<svg", head, 1)
    end = text.index(">", text.index("<svg")) + 1
    return text[:end] + label + text[end:]


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
