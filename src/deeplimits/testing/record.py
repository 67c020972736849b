"""What a conformance suite found."""

from __future__ import annotations

from dataclasses import dataclass

from deeplimits.errors import DeepLimitsError


class CheckFailed(DeepLimitsError, AssertionError):
    """A part of a conformance suite that did not hold; says which, by how much, and where to look."""


@dataclass(frozen=True)
class Check:
    """One part that held.

    Attributes:
        part: what was checked.
        measured: the number that was compared.
        low, high: the bounds, fixed before measuring, between which it had to lie.
        words: the numbers in words.
    """

    part: str
    measured: float
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Report:
    """What was checked, with numbers.

    Attributes:
        subject: the layer or network.
        checks: the parts, in order.
        notes: what a reader should know of the checks: what they share, how accurate they are.
        chance: largest chance that a right layer fails the statistical parts.
    """

    subject: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    chance: float

    def __getitem__(self, part: str) -> Check:
        """Return the check of that name."""
        return next(check for check in self.checks if check.part == part)

    def __str__(self) -> str:
        wide = max(len(check.part) for check in self.checks)
        lines = [f"  {check.part:{wide}}  {check.words}" for check in self.checks]
        notes = [f"  note: {note}" for note in self.notes]
        head = f"{self.subject}: {len(self.checks)} checks held (a right layer fails with chance {self.chance:g})"
        return "\n".join([head, *lines, *notes])


class Log:
    """Checks as they are made; the first that does not hold raises."""

    def __init__(self, suite: str, subject: str, chance: float):
        self.suite, self.subject, self.chance = suite, subject, chance
        self.checks: list[Check] = []
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a remark once."""
        if text not in self.notes:
            self.notes.append(text)

    def check(self, part: str, measured: float, low: float, high: float, words: str, fix: str) -> None:
        """Keep a check that holds.

        Raises:
            CheckFailed: it does not hold.
        """
        if not low <= measured <= high:
            raise CheckFailed(f"{self.suite}({self.subject}): {part}", words, fix)
        self.checks.append(Check(part, measured, low, high, words))

    def report(self) -> Report:
        """Return what was kept."""
        return Report(self.subject, tuple(self.checks), tuple(self.notes), self.chance)
