"""A comparison as rows and as text."""

from __future__ import annotations

import textwrap
from math import isfinite
from typing import Any

import numpy as np

from deeplimits.plane.record import Comparison, Estimate, KernelCheck, Place

LINE = 118


def row(place: Place) -> dict[str, Any]:
    """Return one place as flat {column: number}; what was not measured is None."""
    cells: dict[str, Any] = {"width": place.width, "depth": place.depth, "networks": place.networks, "dead": place.dead}
    for name in ("nngp", "ntk"):
        check: KernelCheck | None = getattr(place, name)
        cells[f"{name}_predicted"] = None if check is None else _diagonal(check.predicted)
        cells[f"{name}_measured"] = None if check is None else _diagonal(check.mean)
        cells[f"{name}_z_max"] = None if check is None else check.z_max
        cells[f"{name}_z_rms"] = None if check is None else check.z_rms
        _put(cells, f"{name}_rms", None if check is None else check.rms)
        _put(cells, f"{name}_rms_corner", None if check is None else check.rms_corner)
    for name in ("log_mean", "log_variance", "log_rms", "correlation_mean", "correlation_sd"):
        _put(cells, name, getattr(place, name))
    for name in ("log_mean_predicted", "log_variance_predicted", "correlation_predicted"):
        cells[name] = getattr(place, name)
    function = place.function
    cells["function_mean"] = None if function is None else float(np.mean(function.mean))
    _put(cells, "function_spread", None if function is None else function.spread)
    return cells


def summary(comparison: Comparison) -> str:
    """Return the table of places, the rates and the verdict in words."""
    heading = (
        f"{comparison.inputs} inputs of {comparison.features} features, {comparison.networks} networks a place, "
        f"seed {comparison.seed}"
    )
    parts = [_wrap(comparison.network), heading, "", *_table(comparison), ""]
    for rate in comparison.width_rates:
        parts.append(_wrap(f"{rate.kernel} in width: {rate.reading}"))
    for rate in comparison.depth_rates:
        parts.append(_wrap(f"{rate.kernel} in depth, by theory: {rate.reading}"))
    parts += [_wrap(text) for text in _widths(comparison)]
    parts.append(_wrap(f"corner: {comparison.corner}"))
    parts += [_wrap(f"note: {note}") for note in comparison.notes]
    verdict = comparison.verdict
    subject = f"the law of {comparison.function}" if comparison.function else "the law over networks"
    parts += ["", _wrap(f"VERDICT: {verdict.word.upper()} ({subject}). {verdict.reason}.")]
    if verdict.add:
        parts.append(_wrap(f"to decide, add: {', '.join(verdict.add)}"))
    return "\n".join(parts)


def _table(comparison: Comparison) -> list[str]:
    columns: list[tuple[str, Any]] = [("width", lambda p: str(p.width)), ("depth", lambda p: str(p.depth))]
    for name in comparison.get:
        columns += _kernel_columns(name)
    if "nngp" in comparison.get:
        columns += [
            ("var(log q)", lambda p: _estimate(p.log_variance)),
            ("exact", lambda p: _number(p.log_variance_predicted)),
            ("corr. mean", lambda p: _estimate(p.correlation_mean)),
            ("sd", lambda p: _number(p.correlation_sd and p.correlation_sd.value)),
        ]
    if comparison.function:
        columns += [
            ("function", lambda p: _number(p.function and float(np.mean(p.function.mean)))),
            ("spread", lambda p: _estimate(p.function and p.function.spread)),
        ]
    if all(place.log_variance_predicted is None for place in comparison.places):
        columns = [column for column in columns if column[0] != "exact"]
    rows = [[read(place) for _, read in columns] for place in comparison.places]
    sizes = [max(len(title), *(len(cells[i]) for cells in rows)) for i, (title, _) in enumerate(columns)]
    lines = [[title for title, _ in columns], ["-" * size for size in sizes], *rows]
    return ["  ".join(cell.rjust(size) for cell, size in zip(cells, sizes, strict=True)) for cells in lines]


def _kernel_columns(name: str) -> list[tuple[str, Any]]:
    def read(place: Place) -> KernelCheck:
        return getattr(place, name)

    return [
        (f"{name} predicted", lambda p: _number(_diagonal(read(p).predicted))),
        ("measured", lambda p: _number(_diagonal(read(p).mean))),
        ("z rms", lambda p: _number(read(p).z_rms, 2)),
        ("one net", lambda p: "-" if (rms := read(p).rms) is None else f"{100 * rms.value:.3g} %"),
    ]


def _widths(comparison: Comparison) -> list[str]:
    deepest = comparison.depths[-1]
    lines = []
    for name in comparison.get:
        chosen = [n for n in comparison.widths_needed if n.kernel == name and n.depth == deepest]
        known = [n for n in chosen if n.width is not None]
        if not known:
            lines += [f"{name} within 5 %: {n.reading}" for n in chosen[:1]]
            continue
        words = [
            f"{_whole(n.width)} for {'one network' if n.ensemble == 1 else f'a mean over {n.ensemble}'}" for n in known
        ]
        outside = "; beyond the widths measured where it says so in the record"
        extra = outside if any("outside" in n.reading for n in known) else ""
        lines.append(f"{name} within 5 % of the right edge at depth {deepest}: width {', '.join(words)}{extra}")
    return lines


def _put(cells: dict[str, Any], name: str, estimate: Estimate | None) -> None:
    cells[name] = None if estimate is None else estimate.value
    cells[f"{name}_error"] = None if estimate is None else estimate.error


def _diagonal(matrix: list[list[float]] | None) -> float | None:
    return None if matrix is None else float(np.mean(np.diag(np.asarray(matrix))))


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.3g}±{estimate.error:.1g}"


def _whole(value: float | None) -> str:
    return "-" if value is None or not isfinite(value) else f"{value:,.0f}"


def _wrap(text: str) -> str:
    return textwrap.fill(text, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
