"""Comparisons of laws or of training as one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deeplimits.plane import law_table, training_table
from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.training_record import TrainingComparison
from deeplimits.report import theme
from deeplimits.report.figures import laws, training
from deeplimits.report.plot import sheet
from deeplimits.report.words import family_name

Record = LawComparison | TrainingComparison
MARKS = {"agrees": "✓", "differs": "✗"}
TONES = {"agrees": "yes", "differs": "no"}


@dataclass(frozen=True)
class Kind:
    """Words of a page, and the modules that make the table and the figure of a record."""

    subject: str
    lead: str
    caption: str
    table: Any
    figures: Any


KINDS = {
    LawComparison: Kind(
        "Laws",
        "Where the limit is random, not means but laws are compared: sampled networks of growing size beside samples "
        "of the limit that theory predicts.",
        "On the left the largest Kolmogorov-Smirnov distance over all laws of a place, with its interval. Then "
        "quantiles over networks as markers with standard errors, those of the limit as lines.",
        law_table,
        laws,
    ),
    TrainingComparison: Kind(
        "Training",
        "Networks trained at every size, each from its own random start, beside the limit of training that theory "
        "predicts.",
        "Markers are trained networks with standard errors, lines the limit. First the loss, then outputs over the "
        "steps, then how far means and standard deviations over networks are from the limit against the width.",
        training_table,
        training,
    ),
}


def page(records: Sequence[Record], path: Path, command: str | None, data: str | None) -> Path:
    """Write comparisons as one HTML page, each one's figure as PNG beside it."""
    from deeplimits.report.html import environment, versions

    path.parent.mkdir(parents=True, exist_ok=True)
    kind = KINDS[type(records[0])]
    views = [_view(record, kind, _drawn(record, kind, path, rank)) for rank, record in enumerate(records)]
    content = json.dumps({"comparisons": [json.loads(record.to_json()) for record in records]}, allow_nan=False)
    text = environment().get_template("beside.html").render(
        families=views,
        subject=kind.subject,
        lead=kind.lead,
        caption=kind.caption,
        command=command or "\n".join(view["call"] for view in views),
        data=data,
        versions=versions(records[0].version),
        light=theme.css("light"),
        dark=theme.css("dark"),
        record=content.translate({60: "\\u003c", 62: "\\u003e", 38: "\\u0026"}),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    return path


def _drawn(record: Record, kind: Kind, path: Path, rank: int) -> dict[str, Any]:
    """Write the figure's PNG; return its name and the SVG of each panel."""
    stem = f"{kind.subject.lower()}{rank}"
    picture = path.with_name(f"{path.stem}-{stem}.png")
    panels = kind.figures.panels_of(record)
    with theme.applied():
        sheet(panels, columns=2).savefig(picture, dpi=180, metadata={"Software": None})
    drawings = []
    for index, (draw, arguments) in enumerate(panels):
        figure = sheet([(draw, arguments)], columns=1)
        drawings.append(theme.svg(figure, f"{stem}-{index}", arguments[0].title, arguments[0].describe()))
    return {"picture": picture.name, "drawings": drawings}


def _view(record: Record, kind: Kind, drawn: dict[str, Any]) -> dict[str, Any]:
    """Everything the template shows of one comparison, as text."""
    word = record.verdict.word
    where = kind.table.where(record)
    return {
        "name": family_name(record),
        "network": record.network,
        "title": kind.figures.title(record),
        "where": where[0].upper() + where[1:],
        "mark": MARKS.get(word, "?"),
        "tone": TONES.get(word, "open"),
        "reason": record.verdict.reason,
        "test": record.verdict.test,
        "notes": record.notes,
        "header": kind.table.HEADER,
        "table": kind.table.table(record),
        "size": kind.table.heading(record),
        "call": kind.table.call(record),
        **drawn,
    }
