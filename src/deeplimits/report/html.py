"""`dl.html`: one self-contained page of a record, with its figures as PNG beside it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from deeplimits.errors import InputError
from deeplimits.plane.record import Comparison
from deeplimits.report import theme
from deeplimits.report.figures import agreement, depth, diagonal, plane, width
from deeplimits.report.plot import Panel, sheet
from deeplimits.report.view import family_view

PACKAGES = ("numpy", "scipy", "torch", "numba", "matplotlib")


@dataclass(frozen=True)
class Exhibit:
    """One figure of the page: panels side by side, a heading, and what to see in it."""

    key: str
    heading: str
    caption: str
    panels: tuple[Panel, ...]


def html(
    record: Comparison | Sequence[Comparison],
    path: str | os.PathLike[str],
    *,
    command: str | None = None,
    data: str | None = None,
) -> Path:
    """Write a record, or several side by side, as one self-contained HTML page with PNG figures beside it.

    The page asks nothing of the network, works from a file, follows the reader's light or dark setting, prints, and
    carries the whole record as JSON in its element `record`.

    Args:
        record: what `dl.compare` returned, or a list of such records.
        path: the page to write; the figures are written beside it as <stem>-<figure>.png.
        command: the command that makes the page again; by default the call of `dl.compare`.
        data: where the inputs came from, in words.

    Returns:
        The path of the page.

    Raises:
        InputError: a record of another type, or a folder that cannot be written.
    """
    records = [record] if isinstance(record, Comparison) else list(record)
    for one in records:
        if not isinstance(one, Comparison):
            raise InputError("html", f"a {type(one).__name__} has no page", "pass what dl.compare returned")
    if not records:
        raise InputError("html", "an empty list", "pass at least one comparison")
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        exhibits = [_drawn(exhibit, path) for exhibit in exhibits_of(records)]
        path.write_text(_page(records, exhibits, command, data), encoding="utf-8")
    except OSError as error:
        raise InputError("html", f"{str(path)!r} cannot be written ({error})", "name a file in a folder you can write to") from None
    return path


def exhibits_of(records: Sequence[Comparison]) -> list[Exhibit]:
    """Every figure of the page that these records can fill, in reading order."""
    planes = [plane.plane_data(record) for record in records]
    planes = [one for one in planes if one.cells]
    colour_range = plane.limits(planes)
    together = diagonal.diagonal_data(records)
    rows = {
        "diagonal": [] if together is None else [(diagonal.draw, (together,))],
        "plane": [(plane.draw, (one, colour_range)) for one in planes],
        "width": [(width.draw, (one,)) for record in records if (one := width.width_data(record))],
        "depth": [(depth.draw, (depth.depth_data(record),)) for record in records],
        "agreement": [(agreement.draw, (one,)) for record in records if (one := agreement.agreement_data(record))],
    }
    return [Exhibit(key, *_WORDS[key], tuple(panels)) for key, panels in rows.items() if panels]


_WORDS = {
    "diagonal": (
        "Width and depth together",
        "Depth grows in proportion to width. If the variance of log q falls as 1/n, the random network settles on its kernel "
        "and the order of the limits does not matter; if it stays level, it never does. Markers with bars are measured over "
        "sampled networks; the line is the exact law where one is known, otherwise the fitted power.",
    ),
    "plane": (
        "The plane",
        "Each cell is a place (width, depth) and its number says how far one random network stands from the infinitely wide "
        "one of the same depth: the root mean square of log(q/q∞), close to a relative error where it is small. All planes "
        "share one colour scale. Framed cells are theory: the kernel at infinite width and, top right, the corner.",
    ),
    "width": (
        "How wide is wide enough",
        "Distance of one network's kernel from its limit as the width grows, a colour for each depth. Lines are the joint fit "
        "rms² = a²/n + b²/L².",
    ),
    "depth": (
        "How deep is deep enough",
        "Theory alone: the kernel at infinite width and depth L against the kernel at infinite depth. A slope of −1 means that "
        "doubling the depth halves the distance.",
    ),
    "agreement": (
        "Predicted against measured",
        "Distance of the measured from the predicted numbers in standard errors; the marker is the median, the bar reaches "
        "from the smallest to the largest, and the band is four standard errors on either side.",
    ),
}


def _drawn(exhibit: Exhibit, path: Path) -> dict[str, Any]:
    """Write the figure's PNG and return what the template needs: the SVG of each panel and the words."""
    picture = path.with_name(f"{path.stem}-{exhibit.key}.png")
    with theme.applied():
        sheet(exhibit.panels, columns=2).savefig(picture, dpi=180, metadata={"Software": None})
    drawings = []
    for index, (draw, arguments) in enumerate(exhibit.panels):
        data = arguments[0]
        figure = sheet([(draw, arguments)], columns=1)
        drawings.append(theme.svg(figure, f"{exhibit.key}{index}", data.title, data.describe()))
    return {"exhibit": exhibit, "picture": picture.name, "drawings": drawings}


def _page(records: Sequence[Comparison], drawn: list[dict[str, Any]], command: str | None, data: str | None) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("deeplimits.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    families = [family_view(record) for record in records]
    return environment.get_template("comparison.html").render(
        families=families,
        drawn=drawn,
        command=command or "\n".join(family["call"] for family in families),
        data=data,
        versions=versions(records[0]),
        light=theme.css("light"),
        dark=theme.css("dark"),
        record=_json(records),
    )


def _json(records: Sequence[Comparison]) -> str:
    text = json.dumps({"comparisons": [json.loads(record.to_json()) for record in records]}, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def versions(record: Comparison) -> str:
    """The versions that made the numbers, in one line."""
    parts = [f"deeplimits {record.version}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(parts)
