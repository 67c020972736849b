"""How a network uses its depth, each curve beside that of a network that has learnt nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import Any

from deeplimits.claims.claim import Curve, Panel
from deeplimits.diagnostics.record import DepthUse, Lens, Skips
from deeplimits.report import theme
from deeplimits.report.figures import claim
from deeplimits.report.figures.axes import short

NULL = "untrained, 1/√(l + 1)"


@dataclass(frozen=True)
class SkipData:
    """What skipping block s changes in block l: rows s, columns l."""

    title: str
    skips: Skips

    def describe(self) -> str:
        """The figure in words, for readers who do not see it."""
        last = len(self.skips.updates) - 1
        return (
            f"Relative change of each block's update when an earlier one is skipped, {self.skips.over} over positions. "
            f"Skipping block 0 changes block 1 by {short(self.skips.updates[0][1])} and block {last} by "
            f"{short(self.skips.updates[0][last])}."
        )


def panels_of(record: DepthUse) -> list[tuple[Any, tuple[Any, ...]]]:
    """Drawing functions and their data for everything a record holds."""
    curves = [contributions(record), cosines(record)]
    found: list[tuple[Any, tuple[Any, ...]]] = []
    if record.skips is not None and len(record.names) > 1:
        curves.append(next_blocks(record.skips))
        found = [(draw_skips, (SkipData("Skipping block s changes block l", record.skips),))]
    if record.lens is not None:
        curves.append(answers(record.lens))
    return [*((claim.draw, (claim.claim_data(panel),)) for panel in curves), *found]


def contributions(record: DepthUse) -> Panel:
    """Relative contributions of blocks, with the null and the null that starts as the measured curve does."""
    places = _places(len(record.names))
    curves = [
        Curve(f"{record.model}, measured", places, list(record.contribution)),
        Curve(NULL, places, predicted=record.null),
        Curve("untrained, from the first block's", places, predicted=record.matched_null),
    ]
    return Panel("Contribution of blocks", "block l", "|update| / |stream|", curves, "linear", "log")


def cosines(record: DepthUse) -> Panel:
    """Cosines of updates with the stream, whole blocks and sub-layers; 0 untrained."""
    places = _places(len(record.names))
    parts = [Curve(part.name, places, list(part.cosine)) for part in record.sublayers]
    zero = Curve("untrained", places, predicted=[0.0] * len(places))
    curves = [Curve("blocks", places, list(record.cosine)), *parts[:2], zero]
    return Panel("Below 0 erases, above 0 amplifies", "block l", "cosine of update and stream", curves, "linear")


def next_blocks(skips: Skips) -> Panel:
    """What skipping a block changes in the next, with the null, and in the output."""
    places = _places(len(skips.updates))
    curves = [
        Curve(f"next block, {skips.over} over positions", places[:-1], list(skips.next_block)),
        Curve("output", places, list(skips.output)),
        Curve("untrained, skipped everywhere: 1/√(s + 2)", places[:-1], predicted=skips.null),
    ]
    return Panel("Skipping block s", "block s", "change", curves, "linear")


def answers(lens: Lens) -> Panel:
    """What each layer would answer, beside the final answer."""
    places = _places(len(lens.overlap))
    curves = [
        Curve(f"top-{lens.top} overlap", places, list(lens.overlap)),
        Curve("divergence from the final answer, nats", places, list(lens.divergence)),
    ]
    return Panel("What layers would answer", "after l blocks", "overlap, divergence", curves, "linear")


def draw_skips(axes: Any, data: SkipData) -> None:
    """Draw the changes as a square of colours, dark where they are large; the key gives three values."""
    updates = data.skips.updates
    depth = len(updates)
    top = max(max(row) for row in updates) or 1.0
    for skip, row in enumerate(updates):
        for later in range(skip + 1, depth):
            fill, _ = theme.heat(min(1.0, row[later] / top))
            axes.add_patch(_square(later, skip, fill))
    axes.set_xlim(-0.5, depth - 0.5)
    axes.set_ylim(depth - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    _key(axes, top)
    axes.set_xlabel("later block l")
    axes.set_ylabel("skipped block s")
    axes.set_title(data.title, pad=12)


def _square(x: float, y: float, fill: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=fill, edgecolor="none")


def _key(axes: Any, top: float) -> None:
    from matplotlib.patches import Patch

    digits = max(0, 1 - floor(log10(top)))
    marks = [
        Patch(facecolor=theme.heat(share)[0], label=f"{share * top:.{digits}f}")
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    axes.legend(handles=marks, loc="lower left", title="change", handlelength=1.2, labelspacing=0.25)


def _places(count: int) -> list[float]:
    return [float(place) for place in range(count)]
