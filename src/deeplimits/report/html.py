"""`dl.html`: one self-contained page of a record, with its figures as PNG beside it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from deeplimits.claims.claim import Finding
from deeplimits.errors import InputError
from deeplimits.inference.contest import Contest
from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.record import Comparison
from deeplimits.plane.training_record import TrainingComparison
from deeplimits.report import beside, claims, theme, transfer
from deeplimits.report.exhibits import Exhibit, exhibits
from deeplimits.report.plot import sheet
from deeplimits.report.view import family_view
from deeplimits.report.words import typeset
from deeplimits.transfer.evidence.coordinates import CoordinateCheck
from deeplimits.transfer.evidence.curves import Transfer
from deeplimits.transfer.evidence.proof import Proof, proof
from deeplimits.transfer.plan import Plan

Record = Comparison | LawComparison | TrainingComparison | Finding | Proof | Plan | CoordinateCheck | Transfer
PACKAGES = ("numpy", "scipy", "torch", "numba", "matplotlib")


def html(
    record: Record
    | Sequence[Comparison]
    | Sequence[LawComparison]
    | Sequence[TrainingComparison]
    | Sequence[Finding]
    | Sequence[Plan | CoordinateCheck | Transfer],
    path: str | os.PathLike[str],
    *,
    command: str | None = None,
    data: str | None = None,
    estimators: Contest | None = None,
) -> Path:
    """Write a record, or several side by side, as one self-contained HTML page with PNG figures beside it.

    The page asks nothing of the network, works from a file, follows the reader's light or dark setting, prints, and
    carries the whole record as JSON in its element `record`.

    Args:
        record: what `dl.compare` returned, or a list of such records; or the findings of claims; or the plan,
            coordinate checks and sweeps of `dl.transfer`, one or several.
        path: the page to write; the figures are written beside it as <stem>-<figure>.png.
        command: the command that makes the page again; by default the call of `dl.compare`.
        data: where the inputs came from, in words.
        estimators: a table of estimators on the same data, shown after the families.

    Returns:
        The path of the page.

    Raises:
        InputError: a record of another type, or a folder that cannot be written.
    """
    records: list[Any] = [record] if isinstance(record, Record) else list(record)
    parts = [one for one in records if isinstance(one, Proof | Plan | CoordinateCheck | Transfer)]
    for one in [] if len(parts) == len(records) else records:
        if not isinstance(one, Comparison | LawComparison | TrainingComparison | Finding) or type(one) is not type(
            records[0]
        ):
            raise InputError("html", f"a {type(one).__name__} has no page", "pass what dl.compare returned")
    if not records:
        raise InputError("html", "an empty list", "pass at least one comparison")
    path = Path(path)
    try:
        if parts:
            return transfer.page(parts[0] if isinstance(parts[0], Proof) else proof(parts), path, command)
        if isinstance(records[0], Finding):
            return claims.page(records, path, command)
        if isinstance(records[0], LawComparison | TrainingComparison):
            return beside.page(records, path, command, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn = [_drawn(exhibit, path) for exhibit in exhibits(records)]
        path.write_text(_page(records, drawn, command, data, estimators), encoding="utf-8")
    except OSError as error:
        raise InputError(
            "html", f"{str(path)!r} cannot be written ({error})", "name a file in a folder you can write to"
        ) from None
    return path


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


def _page(
    records: Sequence[Comparison],
    drawn: list[dict[str, Any]],
    command: str | None,
    data: str | None,
    estimators: Contest | None,
) -> str:
    families = [family_view(record) for record in records]
    return (
        environment()
        .get_template("comparison.html")
        .render(
            families=families,
            drawn=drawn,
            command=command or "\n".join(family["call"] for family in families),
            data=data,
            estimators=estimators,
            versions=versions(records[0].version),
            light=theme.css("light"),
            dark=theme.css("dark"),
            record=_json(records, estimators),
        )
    )


def environment() -> Any:
    """The templates, with everything escaped that is not typeset."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=PackageLoader("deeplimits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["typeset"] = lambda text: Markup(typeset(text))
    return found


def _json(records: Sequence[Comparison], estimators: Contest | None) -> str:
    content = {"comparisons": [json.loads(record.to_json()) for record in records]}
    if estimators is not None:
        content["estimators"] = json.loads(estimators.to_json())
    text = json.dumps(content, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def versions(own: str) -> str:
    """The versions that made the numbers, in one line; `own` is that of deeplimits."""
    parts = [f"deeplimits {own}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(parts)
