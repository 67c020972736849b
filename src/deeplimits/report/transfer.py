"""The proof that settings carry over, as one self-contained page and as figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deeplimits.plane.record import encode
from deeplimits.report import theme
from deeplimits.report.figures import exponents, growth, optima, rates
from deeplimits.report.plot import Panel, sheet
from deeplimits.report.transfer_view import cards, headline, plan_view, tables
from deeplimits.transfer.evidence.audit import Audit, audit
from deeplimits.transfer.evidence.coordinates import CoordinateCheck
from deeplimits.transfer.evidence.curves import Transfer
from deeplimits.transfer.evidence.proof import Proof, plain, proof

CAPTIONS = {
    "coordinates": (
        "The coordinate check",
        "How the update of each module's output scales, the worst first: markers are fitted exponents with 99 % "
        "intervals, the band is the prediction with its margin. Filled markers are decided; those outside fail.",
    ),
    "growth": (
        "Updates as the model grows",
        "The worst modules and the logits: root mean square of what a few steps changed, over that of the smallest "
        "model. A rule that carries over keeps it level; lines are fitted powers.",
    ),
    "rates": (
        "Loss against learning rate",
        "A colour a size; lines join means over seeds, dots are seeds. At the top, crosses are rates at which a run "
        "diverged, triangles means beyond the axis. The ring is the optimum, the bar below it its 99 % interval. "
        "Learning rates are those of the smallest model.",
    ),
    "optima": (
        "Where the optimum lies, and how good it is",
        "Left, the best learning rate in octaves from that of the smallest model: inside the band it carries over, "
        "and an arrow starts where the optimum is at the edge of the grid and may lie further. "
        "Right, the loss there: a larger model should not be worse.",
    ),
}


def exhibits(found: Proof) -> dict[str, list[Panel]]:
    """Drawing functions and their data, by figure, of everything that was measured."""
    pairs = [(check, axis) for check in found.checks for axis in ("width", "depth")]
    own = found.transfers
    both = [optima.optima_data(own, of) for of in ("rate", "loss")] if own else []
    every: dict[str, list[Panel]] = {
        "coordinates": [(exponents.draw, (d,)) for c, axis in pairs if (d := exponents.exponents_data(c, axis))],
        "growth": [(growth.draw, (d,)) for c, axis in pairs if (d := growth.growth_data(c, axis))],
        "rates": [(rates.draw, (rates.rates_data(each, own),)) for each in own],
        "optima": [(optima.draw, (data,)) for data in both if data is not None],
    }
    return {name: panels for name, panels in every.items() if panels}


def panels_of(record: Proof | CoordinateCheck | Transfer) -> list[Panel]:
    """Drawing functions and their data of one figure; a check or a sweep alone is drawn as a proof of one part."""
    found = record if isinstance(record, Proof) else proof([record])
    return [panel for panels in exhibits(found).values() for panel in panels]


def page(found: Proof, path: Path, command: str | None = None) -> Path:
    """Write the proof as one self-contained HTML page, each figure as PNG beside it."""
    from deeplimits import __version__
    from deeplimits.report.html import environment, versions

    path.parent.mkdir(parents=True, exist_ok=True)
    text = environment().get_template("transfer.html").render(
        name=found.name,
        headline=headline(found),
        cards=cards(found),
        audits=[_audit(each) for each in _audits(found)],
        plan=None if found.plan is None else plan_view(found.plan),
        drawn=[_drawn(name, panels, path) for name, panels in exhibits(found).items()],
        tables=tables(found),
        command=command or "dl.html([plan, check, transfer], path)",
        versions=versions(__version__),
        light=theme.css("light"),
        dark=theme.css("dark"),
        record=_json(found),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    return path


def _audits(found: Proof) -> tuple[Audit, ...]:
    return (audit(found.plan),) if found.plan is not None else found.checks[0].audits if found.checks else ()


def _audit(one: Audit) -> dict[str, Any]:
    caption = f"{one.rule}, {one.optimizer}, from {one.base} to {one.target}: {one.values:,} values, "
    caption += f"{one.growing:.1%} in dimensions that grow, {one.deeper:.1%} in blocks whose number changes"
    rows = [[role, str(tensors), f"{values / one.values:.1%}"] for role, tensors, values in one.roles]
    notes = [note.rstrip(".") for note in one.notes]
    if one.fixed:
        notes.insert(0, f"matrices inside blocks that do not grow: {', '.join(one.fixed[:5])}")
    if one.branches:
        notes.insert(0, f"{one.branches} tensors end residual branches, and carry their factor")
    return {"caption": caption, "rows": rows, "notes": notes}


def _drawn(name: str, panels: list[Panel], path: Path) -> dict[str, Any]:
    """Write the figure's PNG; return its name, its words and the SVG of each panel."""
    picture = path.with_name(f"{path.stem}-{name}.png")
    with theme.applied():
        sheet(panels, columns=min(len(panels), 3 if name == "rates" else 2)).savefig(
            picture, dpi=180, metadata={"Software": None}
        )
    drawings = []
    for index, (draw, arguments) in enumerate(panels):
        data = arguments[0]
        figure = sheet([(draw, arguments)], columns=1)
        drawings.append(theme.svg(figure, f"{name}{index}", data.title, data.describe()))
    heading, caption = CAPTIONS[name]
    return {"heading": heading, "caption": caption, "picture": picture.name, "drawings": drawings}


def _json(found: Proof) -> str:
    plan = None if found.plan is None else plain(found.plan)
    content = {"name": found.name, "plan": plan, "checks": encode(found.checks), "transfers": encode(found.transfers)}
    return json.dumps(content, allow_nan=False).translate({60: "\\u003c", 62: "\\u003e", 38: "\\u0026"})
