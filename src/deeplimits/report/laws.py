"""Comparisons of laws as one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.law_table import HEADER, cells, where
from deeplimits.report import theme
from deeplimits.report.figures import laws
from deeplimits.report.plot import sheet
from deeplimits.report.words import family_name

MARKS = {"agrees": "✓", "differs": "✗"}
TONES = {"agrees": "yes", "differs": "no"}


def page(records: Sequence[LawComparison], path: Path, command: str | None, data: str | None) -> Path:
    """Write comparisons of laws as one HTML page, each one's figure as PNG beside it."""
    from deeplimits.report.html import environment, versions

    path.parent.mkdir(parents=True, exist_ok=True)
    views = [_view(record, _drawn(record, path, rank)) for rank, record in enumerate(records)]
    content = json.dumps({"comparisons": [json.loads(record.to_json()) for record in records]}, allow_nan=False)
    text = environment().get_template("laws.html").render(
        families=views,
        command=command or "\n".join(view["call"] for view in views),
        data=data,
        versions=versions(records[0].version),
        light=theme.css("light"),
        dark=theme.css("dark"),
        record=content.translate({60: "\\u003c", 62: "\\u003e", 38: "\\u0026"}),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    return path


def _drawn(record: LawComparison, path: Path, rank: int) -> dict[str, Any]:
    """Write the figure's PNG; return its name and the SVG of each panel."""
    picture = path.with_name(f"{path.stem}-laws{rank}.png")
    panels = laws.panels_of(record)
    with theme.applied():
        sheet(panels, columns=2).savefig(picture, dpi=180, metadata={"Software": None})
    drawings = []
    for index, (draw, arguments) in enumerate(panels):
        figure = sheet([(draw, arguments)], columns=1)
        drawings.append(theme.svg(figure, f"laws{rank}-{index}", arguments[0].title, arguments[0].describe()))
    return {"picture": picture.name, "drawings": drawings}


def _view(record: LawComparison, drawn: dict[str, Any]) -> dict[str, Any]:
    """Everything the template shows of one comparison, as text."""
    word = record.verdict.word
    sizes = f"depths={[*record.depths, float('inf')]}" if record.ratio is None else f"ratio={record.ratio:g}"
    return {
        "name": family_name(record),
        "network": record.network,
        "title": laws.title(record),
        "where": where(record),
        "mark": MARKS.get(word, "?"),
        "tone": TONES.get(word, "open"),
        "reason": record.verdict.reason,
        "test": record.verdict.test,
        "notes": record.notes,
        "header": HEADER,
        "table": [cells(place, law) for place in record.places for law in place.laws],
        "size": f"{record.inputs} inputs of {record.features} features, {record.networks} networks a place, "
        f"{record.samples} samples of the limit, seed {record.seed}",
        "call": f"dl.compare({record.network}, X, widths={record.widths}, {sizes}, networks={record.networks}, "
        f"seed={record.seed})",
        **drawn,
    }
