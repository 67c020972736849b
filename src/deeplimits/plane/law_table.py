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


def summary(record: LawComparison) -> str:
    """Return the table of places and the verdict in words."""
    heading = (
        f"{record.inputs} inputs of {record.features} features, {record.networks} networks a place, "
        f"{record.samples} samples of the limit, seed {record.seed}"
    )
    lines = [list(HEADER), *(cells(place, law) for place in record.places for law in place.laws)]
    widest = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    lines.insert(1, ["-" * size for size in widest])
    table = ["  ".join(cell.rjust(size) for cell, size in zip(line, widest, strict=True)) for line in lines]
    parts = [_wrap(record.network), _wrap(f"{where(record)}: {heading}"), "", *table, ""]
    parts += [_wrap(f"note: {note}") for note in record.notes]
    parts += [_wrap(f"test: {record.verdict.test}"), ""]
    parts.append(_wrap(f"VERDICT: {record.verdict.word.upper()} (the predicted law). {record.verdict.reason}."))
    return "\n".join(parts)


def where(record: LawComparison) -> str:
    """Return which edge of the plane in words."""
    return "top edge, depth to infinity" if record.ratio is None else f"diagonal, depth = {record.ratio:g} width"


def _wrap(text: str) -> str:
    return textwrap.fill(text, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
