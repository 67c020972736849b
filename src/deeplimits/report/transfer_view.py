"""What the page of a proof says in words and in tables."""

from __future__ import annotations

from math import isfinite
from typing import Any

from deeplimits.transfer.anatomy.names import in_words
from deeplimits.transfer.evidence.coordinates import CoordinateCheck, exponents
from deeplimits.transfer.evidence.curves import Transfer
from deeplimits.transfer.evidence.proof import Proof
from deeplimits.transfer.plan import Plan
from deeplimits.transfer.plan_table import INIT, cells, columns, merged, multipliers

TONES = {"pass": "yes", "transfers": "yes", "fail": "no", "drifts": "no"}
MARKS = {"yes": "✓", "no": "✗"}
CHECKED = {
    "pass": "updates keep their size",
    "fail": "updates do not keep their size",
    "undecided": "no exponent fails, some are undecided",
}


def headline(found: Proof) -> str:
    """The verdicts of the rule in question, in a few words."""
    parts = [f"{each.rule}, {CHECKED[each.verdict]}" for each in found.checks[:1]]
    words = {"transfers": "learning rates carry over", "drifts": "learning rates drift", "undecided": "drift undecided"}
    parts += [words[each.verdict] if parts else f"{each.rule}, {words[each.verdict]}" for each in found.transfers[:1]]
    return "; ".join(parts) or f"planned with {found.plan.rule if found.plan else 'no rule'}"


def cards(found: Proof) -> list[dict[str, Any]]:
    """A card for every check and every sweep."""
    return [*map(_check_card, found.checks), *map(_transfer_card, found.transfers)]


def _check_card(check: CoordinateCheck) -> dict[str, Any]:
    counts = {word: sum(c.verdict == word for c in check.coordinates) for word in ("pass", "undecided", "fail")}
    worst = check.coordinates[0] if check.coordinates else None
    facts = [("modules", ", ".join(f"{count} {word}" for word, count in counts.items() if count))]
    if worst is not None:
        facts.append(("worst", f"{worst.module}: {worst.axis}^{worst.slope.value:.2f}"))
    early = [f"{c.module}: {c.transient}" for c in check.coordinates if c.transient]
    if early:
        facts.append(("transients, which are no failures", "; ".join(early[:3])))
    measured = f"{check.optimizer}, {check.steps} steps, {check.seeds} seeds"
    words = CHECKED[check.verdict]
    reason = f"{words[:1].upper()}{words[1:]} ({measured})"
    return _card(f"Coordinate check, {check.rule}: {check.verdict}", check.verdict, reason, facts)


def _transfer_card(found: Transfer) -> dict[str, Any]:
    edges = any(curve.at_edge for curve in found.curves)
    facts = []
    if isfinite(found.span) and (found.span or not edges):
        facts.append(("span of the optima", f"{found.span:.2f} octaves{' or more' if edges else ''}"))
    if found.loss_ratio == found.loss_ratio:
        interval = f"[{found.ratio_low:.2g}, {found.ratio_high:.2g}]"
        facts.append(("loss at the best learning rate, last size over first", f"{found.loss_ratio:.3g} {interval}"))
    if found.schedule:
        facts.append(("every run", found.schedule))
    diverged = sum(curve.diverged for curve in found.curves)
    facts += [("runs that diverged", str(diverged))] if diverged else []
    reason = found.reason[:1].upper() + found.reason[1:]
    return _card(f"Learning rates, {found.rule}: {found.verdict}", found.verdict, reason, facts)


def _card(title: str, verdict: str, reason: str, facts: list[tuple[str, str]]) -> dict[str, Any]:
    tone = TONES.get(verdict, "open")
    return {"title": title, "tone": tone, "mark": MARKS.get(tone, "?"), "reason": reason, "facts": facts}


def plan_view(plan: Plan) -> dict[str, Any]:
    """The table of a plan, blocks of equal numbers as one row."""
    rows = []
    for row, count in merged(plan.rows):
        name, _, *others = cells(row, count, multipliers(row, plan.optimizer))
        rows.append([name, "×".join(map(str, row.shape)) or "1", *others, row.reason])
    header = ["parameter", "shape", "role", "init", *columns(plan.optimizer), "why"]
    sources = ", ".join(sorted({row.source for row in plan.rows}))
    return {"caption": f"{plan.rule}, {plan.optimizer}, source {sources}; {INIT}", "header": header, "rows": rows}


def tables(found: Proof) -> list[dict[str, Any]]:
    """Every exponent and every optimum in numbers."""
    head = ["rule", "module", "axis", "exponent", "99 % interval", "predicted", "verdict", "before training", "note"]
    made = []
    if found.checks:
        rows = [_exponent(check.rule, c) for check in found.checks for c in check.coordinates]
        made.append({"summary": "Every exponent in numbers", "header": head, "rows": rows})
    if found.transfers:
        rows = [_optimum(each.rule, curve) for each in found.transfers for curve in each.curves]
        head = ["rule", "size", "best learning rate", "99 % interval of its log2", "loss there", "note"]
        made.append({"summary": "Every optimum in numbers", "header": head, "rows": rows})
    return made


def _exponent(rule: str, c: Any) -> list[str]:
    initial = "" if c.initial is None else f"{c.axis}^{c.initial.value:.2f}"
    interval = f"[{c.slope.low:.2f}, {c.slope.high:.2f}]"
    predicted = exponents(c.predicted)
    return [rule, c.module, c.axis, f"{c.slope.value:.2f}", interval, predicted, c.verdict, initial, c.transient]


def _optimum(rule: str, curve: Any) -> list[str]:
    size = in_words(curve.size)
    note = "; ".join(filter(None, (curve.note, f"{curve.diverged} runs diverged" if curve.diverged else "")))
    if not curve.trained:
        return [rule, size, "none", "", "", curve.untrained]
    return [rule, size, f"2^{curve.best_log2_lr:.2f}", curve.interval, f"{curve.best_loss:.4g}", note]
