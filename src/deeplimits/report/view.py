"""What the page says of one comparison in words and in its table."""

from __future__ import annotations

from typing import Any

from deeplimits.plane.record import Comparison, Estimate, Place
from deeplimits.report.words import VERDICTS, count, family_name


def family_view(record: Comparison) -> dict[str, Any]:
    """Everything the template shows of one comparison, as text."""
    word = record.verdict.word
    return {
        "name": family_name(record),
        "network": record.network,
        "verdict": VERDICTS.get(word, word),
        "mark": {"commutes": "✓", "does not commute": "✗"}.get(word, "?"),
        "tone": {"commutes": "yes", "does not commute": "no"}.get(word, "open"),
        "reason": record.verdict.reason[:1].upper() + record.verdict.reason[1:],
        "facts": _facts(record),
        "readings": _readings(record),
        "corner": record.corner,
        "notes": record.notes,
        "header": [column for column, _ in _columns(record)],
        "table": [[read(place) for _, read in _columns(record)] for place in record.places],
        "size": f"{record.inputs} inputs of {record.features} features, {record.networks} networks a place, "
        f"seed {record.seed}",
        "call": f"dl.compare({record.network}, X, widths={record.widths}, depths={record.depths}, "
        f"networks={record.networks}, seed={record.seed})",
    }


def _facts(record: Comparison) -> list[tuple[str, str]]:
    """What the card says below the verdict."""
    facts = [(f"width for {_percent(record)} of the {name.upper()}", _widths(record, name)) for name in record.get]
    for rate in record.depth_rates:
        facts.append((f"{rate.kernel.upper()} of infinite width, as the depth grows", rate.reading))
    return facts


def _readings(record: Comparison) -> list[tuple[str, str, str]]:
    """Every fitted rate and every ray: where, of what, and how it reads."""
    rows = [
        (f"all widths, depth {rate.depth}", f"{rate.kernel.upper()} of one network", rate.reading)
        for rate in record.width_rates
    ]
    return rows + [_ray(ray.kind, ray.fixed, ray.statistic, ray.reading) for ray in record.rays]


def _percent(record: Comparison) -> str:
    return next((f"{100 * need.tolerance:g} %" for need in record.widths_needed), "5 %")


def _widths(record: Comparison, name: str) -> str:
    """The width needed by one network and by means of several, at the largest depth."""
    chosen = [need for need in record.widths_needed if need.kernel == name and need.depth == record.depths[-1]]
    known = [need for need in chosen if need.width is not None]
    if not known:
        return chosen[0].reading if chosen else "not asked"
    words = [
        f"{count(need.width or 0)} for " + ("one network" if need.ensemble == 1 else f"the mean of {need.ensemble}")
        for need in known
    ]
    return f"{', '.join(words)}, at depth {record.depths[-1]}"


def _ray(kind: str, fixed: float, statistic: str, reading: str) -> tuple[str, str, str]:
    where = {
        "width fixed": f"width {fixed:g}",
        "depth fixed": f"depth {fixed:g}",
        "diagonal": f"depth = {fixed:g} × width",
    }
    return where.get(kind, f"{kind} {fixed:g}"), statistic, reading


def _columns(record: Comparison) -> list[tuple[str, Any]]:
    """(header, text of a place) of the columns that have something to show."""
    every = [
        ("width", lambda p: str(p.width)),
        ("depth", lambda p: str(p.depth)),
        ("mean q predicted", lambda p: _diagonal(p, "predicted")),
        ("measured", lambda p: _diagonal(p, "mean")),
        ("relative rms", lambda p: _estimate(p.nngp.rms if p.nngp else None)),
        ("largest z", lambda p: _number(p.nngp.z_max if p.nngp else None, 2)),
        ("NTK rms", lambda p: _estimate(p.ntk.rms if p.ntk else None)),
        ("NTK largest z", lambda p: _number(p.ntk.z_max if p.ntk else None, 2)),
        ("mean log q", lambda p: _estimate(p.log_mean)),
        ("predicted mean log q", lambda p: _number(p.log_mean_predicted)),
        ("var log q", lambda p: _estimate(p.log_variance)),
        ("predicted var log q", lambda p: _number(p.log_variance_predicted)),
        ("correlation", lambda p: _estimate(p.correlation_mean)),
        ("predicted correlation", lambda p: _number(p.correlation_predicted)),
        ("function spread", lambda p: _estimate(p.function.spread if p.function else None)),
    ]
    return [(name, read) for name, read in every if any(read(place) for place in record.places)]


def _diagonal(place: Place, field: str) -> str:
    matrix = getattr(place.nngp, field) if place.nngp else None
    return "" if matrix is None else _number(sum(matrix[i][i] for i in range(len(matrix))) / len(matrix))


def _number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}g}".replace("-", "−")


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.3g} ± {estimate.error:.1g}".replace("-", "−")
