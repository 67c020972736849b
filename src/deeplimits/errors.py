"""Every exception and warning of deeplimits: where it happened, why, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DeepLimitsError(Exception):
    """An error that says where, why and how to mend it.

    Example:
        >>> raise DeepLimitsError("kernel(X1)", "X1 has a NaN at row 3, column 0", "drop or impute that row")
        Traceback (most recent call last):
        ...
        deeplimits.errors.DeepLimitsError: kernel(X1): X1 has a NaN at row 3, column 0. Fix: drop or impute that row.
    """

    def __init__(self, where: str, why: str, fix: str):
        self.where, self.why, self.fix = where, why.rstrip("."), fix.rstrip(".")
        super().__init__(where, why, fix)

    def __str__(self) -> str:
        return f"{self.where}: {self.why}. Fix: {self.fix}."


class DescriptionError(DeepLimitsError, ValueError):
    """A network description that cannot be: an unknown name, a scale that is not one, a negative standard deviation."""


class InputError(DeepLimitsError, ValueError):
    """Data that cannot be used: NaN, a wrong shape, mixed dtypes, a size that cannot be."""


class MemoryNeeded(DeepLimitsError, MemoryError):
    """A result too large for this machine; says the bytes needed and three ways out."""


class NoRule(DeepLimitsError, NotImplementedError):
    """A layer with no rule for the question asked."""


class NoLimit(DeepLimitsError, ArithmeticError):
    """The limit asked for is infinite or does not exist; says the rate at which it explodes or collapses."""


class PrecisionError(DeepLimitsError, ArithmeticError):
    """A result that the asked-for number format cannot hold or that rounding would spoil."""


class MissingExtra(DeepLimitsError, ImportError):
    """An optional package is not installed; says the line that installs it."""


class AccuracyWarning(UserWarning):
    """A numerical estimate is less accurate than asked; the message carries the estimate."""


class ConvergenceWarning(AccuracyWarning):
    """An iteration stopped before its tolerance; the message carries the residual, and what was found is kept."""


class NormalisationWarning(UserWarning):
    """A network whose covariances grow or shrink in every layer: the limit is that of their ratio to that growth."""


class BaseWarning(UserWarning):
    """The model that hyperparameters were tuned on is too small to tell where the optimum lies."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean ...' text with the names closest to `name`.

    Example:
        >>> nearest("rleu", ["relu", "erf"])
        "did you mean 'relu'? Known: erf, relu"
    """
    known = sorted(known)
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    listed = "Known: " + ", ".join(known)
    return f"did you mean {' or '.join(repr(c) for c in close)}? {listed}" if close else listed
