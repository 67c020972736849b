"""Best learning rates of sampled networks, width by width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.numerics.fit import Slope, slope
from deeplimits.numerics.quantiles import quantiles

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BestRates:
    """Learning rates with the lowest loss after some steps.

    Medians stand for a width: rarely a second minimum, at a rate several times larger, is the lowest, and means would
    follow such networks.

    Attributes:
        rule: "mup", "sp" or "ntp".
        hidden: number of trained matrices.
        steps: of gradient descent.
        widths: W of them.
        rates: of every network, W arrays of shape (S,).
        limit: of the rates as the width grows: known for "mup" after one step, 0 for "sp", else NaN.
    """

    rule: str
    hidden: int
    steps: int
    widths: tuple[int, ...]
    rates: tuple[Array, ...]
    limit: float

    @cached_property
    def median(self) -> tuple[Array, Array]:
        """Median rate at every width, and its standard error, both (W,)."""
        return _medians(self.rates)

    @cached_property
    def distance(self) -> tuple[Array, Array]:
        """Median distance of one network from the limit, or from the median where the limit is no number; its error."""
        around = self.median[0] if isnan(self.limit) else [self.limit] * len(self.widths)
        return _medians([np.abs(rates - middle) for rates, middle in zip(self.rates, around, strict=True)])

    def exponent(self, of: str = "distance", confidence: float = 0.99) -> Slope:
        """Return the exponent in the width of the distance, or of the median rate.

        Args:
            of: "distance" or "median".
            confidence: of its interval.

        Raises:
            InputError: another name, or one width only.
        """
        if of not in ("distance", "median"):
            raise InputError("BestRates.exponent", f"of={of!r} has no exponent", "give 'distance' or 'median'")
        values, errors = getattr(self, of)
        return slope(self.widths, values, errors, confidence)

    def describe(self) -> str:
        """Say how the best rate and its scatter go with the width."""
        middle, error = self.median
        known = "" if isnan(self.limit) else f", limit {self.limit:.4g}"
        text = f"Best rate of {self.steps} step{'s' if self.steps > 1 else ''}, {self.rule}{known}: median"
        text += f" {middle[-1]:.4g} +- {error[-1]:.2g} at width {self.widths[-1]}"
        if len(self.widths) > 1:
            both = self.exponent("median").value, self.exponent("distance").value
            text += f"; from width {self.widths[0]} on it goes as n^{both[0]:.2f}, its scatter as n^{both[1]:.2f}"
        return text + "."

    def __repr__(self) -> str:
        return f"BestRates({self.rule!r}, {self.steps} steps, widths {self.widths})"


def _medians(values: list[Array] | tuple[Array, ...]) -> tuple[Array, Array]:
    found = [quantiles(one, [0.5]) for one in values]
    return np.array([value[0] for value, _ in found]), np.array([error[0] for _, error in found])
