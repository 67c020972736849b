"""The figures of a page of comparisons, in reading order, each with its heading and caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deeplimits.plane.record import Comparison
from deeplimits.report.figures import agreement, depth, diagonal, plane, width
from deeplimits.report.plot import Panel

CAPTIONS = {
    "diagonal": (
        "Width and depth together",
        "Depth grows in proportion to width. If the variance of log q over random networks falls as 1/n, one "
        "network settles on its kernel and the order of the limits does not matter; if the variance stays "
        "level, it matters. Markers with bars are measured; the line is the exact law where one is known, "
        "otherwise the fitted power.",
    ),
    "plane": (
        "The plane",
        "Each cell is a place (width, depth). Its number says how far one random network stands from the "
        "infinitely wide one of the same depth: the root mean square of log(q/q∞), close to a relative error "
        "where it is small. The colours mean the same on every plane. Framed cells are theory: the kernel at "
        "infinite width and, top right, the corner.",
    ),
    "width": (
        "How wide is wide enough",
        "Distance of one network's kernel from its limit as the width grows, a colour for each depth. The "
        "lines, where there are any, are the joint fit rms² = a²/n + b²/L².",
    ),
    "depth": (
        "How deep is deep enough",
        "Theory alone: the kernel at infinite width and depth L against the kernel at infinite depth. A slope "
        "of −1 means that doubling the depth halves the distance.",
    ),
    "agreement": (
        "Predicted against measured",
        "Distance between measured and predicted numbers in standard errors. The marker is the median, the "
        "bar reaches from the smallest to the largest, and the band is four standard errors on either side.",
    ),
}


@dataclass(frozen=True)
class Exhibit:
    """One figure of the page: panels side by side, a heading, and what to see in it."""

    key: str
    heading: str
    caption: str
    panels: tuple[Panel, ...]


def exhibits(records: Sequence[Comparison]) -> list[Exhibit]:
    """Every figure that these records can fill."""
    planes = [one for record in records if (one := plane.plane_data(record)).cells]
    together = diagonal.diagonal_data(records)
    rows = {
        "diagonal": [] if together is None else [(diagonal.draw, (together,))],
        "plane": [(plane.draw, (one,)) for one in planes],
        "width": [(width.draw, (one,)) for record in records if (one := width.width_data(record))],
        "depth": [(depth.draw, (depth.depth_data(record),)) for record in records],
        "agreement": [(agreement.draw, (one,)) for record in records if (one := agreement.agreement_data(record))],
    }
    return [Exhibit(key, *CAPTIONS[key], tuple(panels)) for key, panels in rows.items() if panels]
