"""Findings of claims as one self-contained page, as figures, and as the README's table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import floor, log10
from pathlib import Path
from typing import Any

from deeplimits.claims.claim import RULE, Finding, Part, to_json
from deeplimits.report import theme
from deeplimits.report.figures import claim, parts
from deeplimits.report.plot import Panel, sheet
from deeplimits.report.words import typeset

MARKS = {"confirmed": "✓", "not confirmed": "✗"}
TONES = {"confirmed": "yes", "not confirmed": "no"}
HEADER = ("claim", "headline", "predicted", "measured", "verdict", "parts confirmed")


def panels_of(found: Finding) -> list[Panel]:
    """Drawing functions and their data: the claim's own drawings, then every part in the region of its test."""
    own: list[Panel] = [(claim.draw, (claim.claim_data(panel),)) for panel in found.panels]
    regions = parts.parts_data(found.parts)
    return own if regions is None else [*own, (parts.draw, (regions,))]


def number(value: float) -> str:
    """A number in at most five digits with a proper minus sign.

    Example:
        >>> number(-0.30122651), number(1.0)
        ('−0.30123', '1')
    """
    return f"{value:.5g}".replace("-", "−")


def measured(part: Part | Finding) -> str:
    """A measured number with its standard error, where chance has a part in it.

    Example:
        >>> measured(Part("slope", -0.5, -0.5125, 0.01, "", ""))
        '−0.512 ± 0.010'
    """
    if not part.standard_error:
        return number(part.measured)
    digits = max(0, 1 - floor(log10(part.standard_error)))
    return f"{part.measured:.{digits}f} ± {part.standard_error:.{digits}f}".replace("-", "−")


def predicted(part: Part) -> str:
    """A predicted number, or the bound that should be exceeded.

    Example:
        >>> predicted(Part("eigenvalue", 1e-12, 0.2, 0.0, "", "", low=1e-12))
        '> 1e−12'
    """
    bound = part.high is None and part.predicted == part.low
    return ("> " if bound else "") + number(part.predicted)


def markdown(findings: Sequence[Finding]) -> str:
    """The README's table of claims.

    Example:
        >>> markdown([]).splitlines()[0]
        '| claim | headline | predicted | measured | verdict | parts confirmed |'
    """
    rows = [HEADER, ("---",) * len(HEADER), *(_cells(one) for one in findings)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(found: Finding) -> tuple[str, ...]:
    counted = [part for part in found.parts if part.counts]
    confirmed = sum(part.verdict == "confirmed" for part in counted)
    numbers = number(found.predicted), measured(found)
    return f"`{found.key}`", found.headline, *numbers, found.verdict, f"{confirmed} of {len(counted)}"


def page(findings: Sequence[Finding], path: Path, command: str | None = None) -> Path:
    """Write findings as one self-contained HTML page, each claim's figure as PNG beside it.

    The page asks nothing of the network, works from a file, follows the reader's light or dark setting, prints, and
    carries the whole record as JSON in its element `record`.
    """
    from deeplimits.report.html import environment, versions

    path.parent.mkdir(parents=True, exist_ok=True)
    seconds = sum(one.seconds for one in findings)
    text = environment().get_template("claims.html").render(
        claims=[_view(one, _drawn(one, path)) for one in findings],
        confirmed=sum(one.verdict == "confirmed" for one in findings),
        seconds=f"{seconds:.0f}",
        cpu=f"{sum(one.cpu_seconds for one in findings):.0f}",
        rule=RULE,
        command=command or "deeplimits claims " + " ".join(one.key for one in findings),
        versions=versions(findings[0].version),
        light=theme.css("light"),
        dark=theme.css("dark"),
        record=json.dumps(json.loads(to_json(findings))).translate({60: "\\u003c", 62: "\\u003e", 38: "\\u0026"}),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8")
    return path


def _drawn(found: Finding, path: Path) -> dict[str, Any]:
    """Write the figure's PNG; return its name and the SVG of each panel."""
    picture = path.with_name(f"{path.stem}-{found.key}.png")
    panels = panels_of(found)
    with theme.applied():
        sheet(panels, columns=2).savefig(picture, dpi=180, metadata={"Software": None})
    drawings = []
    for index, (draw, arguments) in enumerate(panels):
        data = arguments[0]
        figure = sheet([(draw, arguments)], columns=1)
        drawings.append(theme.svg(figure, f"{found.key}-{index}", data.title, data.describe()))
    return {"picture": picture.name, "drawings": drawings}


def _view(found: Finding, drawn: dict[str, Any]) -> dict[str, Any]:
    """Everything the template shows of one claim, as text."""
    return {
        "key": found.key,
        "statement": found.statement,
        "source": found.source,
        "headline": found.headline,
        "verdict": found.verdict,
        "mark": MARKS.get(found.verdict, "?"),
        "tone": TONES.get(found.verdict, "open"),
        "reason": found.reason,
        "predicted": number(found.predicted),
        "measured": measured(found),
        "took": f"{found.seconds:.1f} s, {found.cpu_seconds:.1f} s of processor time",
        "size": "" if found.size == "full" else f"{found.size} size",
        "rows": [_row(rank, part) for rank, part in enumerate(found.parts, start=1)],
        **drawn,
    }


def _row(rank: int, part: Part) -> dict[str, str]:
    role = "the paper's statement" if part.paper else "a sharper prediction"
    return {
        "rank": str(rank),
        "name": part.name,
        "predicted": predicted(part),
        "measured": measured(part),
        "verdict": part.verdict,
        "tone": TONES.get(part.verdict, "open"),
        "role": role if part.counts else "beside the claim",
        "test": typeset(part.test),
        "note": part.note,
    }
