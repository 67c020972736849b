"""What a claim is, and what is found when it is run: plain frozen records of numbers and text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deeplimits.errors import InputError
from deeplimits.plane.record import decode, encode

FORMAT = 1
CONFIRMED, NOT_CONFIRMED, UNDECIDED = "confirmed", "not confirmed", "undecided"
RULE = (
    "confirmed: every part that counts is; not confirmed: a statement of the paper, in the paper's own set-up, fails "
    "its test; undecided: anything else"
)


@dataclass(frozen=True)
class Part:
    """One measured number beside its prediction, judged by the test that `test` states.

    `standard_error` is 0 for numbers without chance (computed, not sampled) and None where the test is about counts.
    `paper` says that the number is the paper's own statement in the paper's own set-up: only then may it be "not
    confirmed". [low, high] is where the test wants the measured number. Parts that do not count stand beside the claim
    and leave its verdict alone; `note` says why.
    """

    name: str
    predicted: float
    measured: float
    standard_error: float | None
    test: str
    verdict: str
    low: float | None = None
    high: float | None = None
    paper: bool = True
    counts: bool = True
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """Points of a drawing: measured with bars, predicted as a line, either may be absent."""

    name: str
    x: list[float]
    measured: list[float] | None = None
    error: list[float] | None = None
    predicted: list[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One drawing. Scales are "log2" (sizes), "log" or "linear"."""

    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    x_scale: str = "log2"
    y_scale: str = "linear"


@dataclass(frozen=True)
class Measured:
    """What one step of a claim found."""

    parts: list[Part]
    panels: list[Panel]


@dataclass(frozen=True)
class Timed:
    """What one step found and what it took: seconds on the clock, and of processor time over all threads."""

    step: str
    measured: Measured
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Step:
    """A piece of a claim that is measured and stored at once: `measure(sizes)`; `cost` in processor seconds."""

    name: str
    measure: Callable[[Any], Measured]
    cost: float


@dataclass(frozen=True)
class Claim:
    """A paper's claim and how it is measured.

    Args:
        key: of references.bib; the file is called the same, with underscores.
        statement: one sentence.
        source: the key with what is read of the paper.
        headline: name of the part whose numbers stand for the claim.
        steps: what is measured, in order.
        full, reduced: sizes of a run, and of a test.
    """

    key: str
    statement: str
    source: str
    headline: str
    steps: tuple[Step, ...]
    full: Any
    reduced: Any

    def sizes(self, size: str) -> Any:
        """Return the sizes called "full" or "reduced"."""
        return {"full": self.full, "reduced": self.reduced}[size]


@dataclass(frozen=True)
class Finding:
    """A claim that has been run: its headline number, its parts, its verdict, and the seconds it took."""

    key: str
    statement: str
    source: str
    headline: str
    predicted: float
    measured: float
    standard_error: float | None
    verdict: str
    reason: str
    parts: list[Part]
    panels: list[Panel]
    seconds: float
    cpu_seconds: float
    size: str
    version: str

    def figure(self) -> Any:
        """Return the claim's matplotlib figure, as `dl.plot` draws it."""
        from deeplimits import plot

        return plot(self)


def judge(parts: Sequence[Part]) -> tuple[str, str]:
    """Return the verdict of a claim and its reason, from those of its parts by `RULE`.

    Example:
        >>> judge([Part("slope", -0.5, -0.51, 0.01, "by eye", "confirmed")])
        ('confirmed', 'all 1 parts confirmed')
    """
    counted = [part for part in parts if part.counts]
    refuted = [part.name for part in counted if part.verdict == NOT_CONFIRMED]
    open_ones = [part.name for part in counted if part.verdict == UNDECIDED]
    if refuted:
        return NOT_CONFIRMED, f"{len(refuted)} of {len(counted)} parts not confirmed: {_listed(refuted)}"
    if open_ones or not counted:
        return UNDECIDED, f"{len(open_ones)} of {len(counted)} parts undecided: {_listed(open_ones)}"
    return CONFIRMED, f"all {len(counted)} parts confirmed"


def _listed(names: list[str], most: int = 4) -> str:
    rest = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + rest


def finding(claim: Claim, done: Sequence[Timed], size: str, version: str) -> Finding:
    """Return what the steps of a claim found, put together."""
    parts = [part for timed in done for part in timed.measured.parts]
    head = next(part for part in parts if part.name == claim.headline)
    verdict, reason = judge(parts)
    return Finding(
        key=claim.key,
        statement=claim.statement,
        source=claim.source,
        headline=claim.headline,
        predicted=head.predicted,
        measured=head.measured,
        standard_error=head.standard_error,
        verdict=verdict,
        reason=reason,
        parts=parts,
        panels=[panel for timed in done for panel in timed.measured.panels],
        seconds=sum(timed.seconds for timed in done),
        cpu_seconds=sum(timed.cpu_seconds for timed in done),
        size=size,
        version=version,
    )


def to_json(findings: Sequence[Finding]) -> str:
    """Return findings as one JSON document."""
    document = {"format": FORMAT, "findings": [encode(one) for one in findings]}
    return json.dumps(document, allow_nan=False, indent=1)


def from_json(text: str) -> list[Finding]:
    """Return the findings that `to_json` wrote.

    Raises:
        InputError: the text is not such a document.
    """
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise ValueError("another format number")
        return [decode(Finding, one) for one in data["findings"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"not a record of claims ({error})"
        raise InputError("claims", why, "run deeplimits claims, which writes one") from error
