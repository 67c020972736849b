"""Short names and sentences that figures and pages share."""

from __future__ import annotations

from deeplimits.plane.record import Comparison

VERDICTS = {
    "commutes": "width and depth commute",
    "does not commute": "width and depth do not commute",
    "undecided": "undecided",
}


def family_name(record: Comparison) -> str:
    """The family's name without its options: ResNet, Mlp."""
    name = record.network.split("(", 1)[0].strip() or "network"
    return {"Mlp": "MLP", "Serial": "network"}.get(name, name)


def verdict(record: Comparison) -> str:
    """The verdict as a sentence for a title."""
    return f"{family_name(record)}: {VERDICTS.get(record.verdict.word, record.verdict.word)}"


def interval(low: float, high: float, digits: int = 2) -> str:
    """A confidence interval with true minus signs."""
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-", "−")


def count(value: float) -> str:
    """A width in words: 5,084 or ∞."""
    return "∞" if value == float("inf") else f"{value:,.0f}"
