"""Short names and sentences that figures and pages share."""

from __future__ import annotations

import re

from deeplimits.plane.law_record import LawComparison
from deeplimits.plane.record import Comparison
from deeplimits.plane.training_record import TrainingComparison

VERDICTS = {
    "commutes": "width and depth commute",
    "does not commute": "width and depth do not commute",
    "undecided": "undecided",
}


def family_name(record: Comparison | LawComparison | TrainingComparison) -> str:
    """The family's name without its options: ResNet, MLP."""
    name = record.network.split("(", 1)[0].strip() or "network"
    return {"Mlp": "MLP", "Serial": "network"}.get(name, name)


def verdict(record: Comparison) -> str:
    """The verdict as a sentence for a title."""
    return f"{family_name(record)}: {VERDICTS.get(record.verdict.word, record.verdict.word)}"


def count(value: float) -> str:
    """A width in words: 5,084 or ∞."""
    return "∞" if value == float("inf") else f"{value:,.0f}"


def typeset(text: str) -> str:
    """HTML of a sentence: powers such as n^-0.5 raised, minus signs before numbers, everything else escaped.

    Example:
        >>> typeset("rms ~ width^-0.50 & [-0.55, -0.45]")
        'rms ~ width<sup>−0.50</sup> &amp; [−0.55, −0.45]'
    """
    for plain, entity in (("->", "→"), ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, entity)
    text = re.sub(r"\^(-?[\d.]*\d|[sn])", r"<sup>\1</sup>", text)
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)
