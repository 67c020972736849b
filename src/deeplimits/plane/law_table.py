"""A comparison of laws as rows and as text."""

from __future__ import annotations

import textwrap
from typing import Any

from deeplimits.plane.law_record import LEVELS, LawCheck, LawComparison, LawPlace

LINE = 118


def rows(record: LawComparison) -> list[dict[str, Any]]:
    """Return one flat {column: number} for each place and statistic."""
    return [_row(place, law) for place in record.places for law in place.laws]


def _row(place: LawPlace, law: LawCheck) -> dict[str, Any]:
    cells: dict[str, Any] = {
        "width": place.width, "depth": place.depth, "networks": place.networks, "dead": place.dead,
        "statistic": law.statistic, "distance": law.distance, "p_value": law.p_value,
    }  # fmt: skip
    for index, level in enumerate(LEVELS):
        for kind in ("measured", "predicted"):
            cells[f"{kind}_{level:g}"] = getattr(law, kind)[index]
            cells[f"{kind}_{level:g}_error"] = getattr(law, f"{kind}_error")[index]
    return cells


HEADER = ("width", "depth", "law", "distance", "p", "5 %", "predicted", "median", "predicted", "95 %", "predicted")


def cells(place: LawPlace, law: LawCheck) -> list[str]:
    """Return one line of the table: the distance, and three quantiles measured and predicted."""
    found = [str(place.width), str(place.depth), law.statistic, f"{law.distance:.3f}", f"{law.p_value:.2g}"]
    for index in (0, LEVELS.index(0.5), len(LEVELS) - 1):
        found += [f"{law.measured[index]:.3g}±{law.measured_error[index]:.1g}", f"{law.predicted[index]:.3g}"]
    return found


def table(record: LawComparison) -> list[list[str]]:
    """Return the lines of the table."""
    return [cells(place, law) for place in record.places for law in place.laws]


def heading(record: LawComparison) -> str:
    """Return the sizes in words."""
    return (
        f"{record.inputs} inputs of {record.features} features, {record.networks} networks a place, "
        f"{record.samples} samples of the limit, seed {record.seed}"
    )


def call(record: LawComparison) -> str:
    """Return the line of Python that makes the record again."""
    sizes = f"depths={[*record.depths, float('inf')]}" if record.ratio is None else f"ratio={record.ratio:g}"
    return (
        f"dl.compare({record.network}, X, widths={record.widths}, {sizes}, networks={record.networks}, "
        f"seed={record.seed})"
    )


def summary(record: LawComparison) -> str:
    """Return the table of places and the verdict in words."""
    lines = aligned([list(HEADER), *table(record)])
    parts = [wrap(record.network), wrap(f"{where(record)}: {heading(record)}"), "", *lines, ""]
    parts += [wrap(f"note: {note}") for note in record.notes]
    parts += [wrap(f"test: {record.verdict.test}"), ""]
    parts.append(wrap(f"VERDICT: {record.verdict.word.upper()} (the predicted law). {record.verdict.reason}."))
    return "\n".join(parts)


def where(record: LawComparison) -> str:
    """Return which edge of the plane in words."""
    return "top edge, depth to infinity" if record.ratio is None else f"diagonal, depth = {record.ratio:g} width"


def aligned(lines: list[list[str]]) -> list[str]:
    """Return lines of cells under each other, a rule below the first."""
    widest = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines = [lines[0], ["-" * size for size in widest], *lines[1:]]
    return ["  ".join(cell.rjust(size) for cell, size in zip(line, widest, strict=True)) for line in lines]


def wrap(text: str) -> str:
    """Return text in lines of the page's width."""
    return textwrap.fill(text, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
