"""What a comparison of training is: trained networks beside a limit, as plain frozen records of numbers and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.plane.document import Document


@dataclass(frozen=True)
class Outputs:
    """Mean and standard deviation over networks of every output at every kept step, lists (times) of lists (outputs).

    Outputs are those of the training inputs, then of the test inputs; of several outputs a network, those of one input
    are neighbours. Measured ones with their standard errors; a limit's errors are those of its own sampling, 0 where
    it is exact.
    """

    mean: list[list[float]]
    mean_error: list[list[float]]
    spread: list[list[float]]
    spread_error: list[list[float]]


@dataclass(frozen=True)
class Gap:
    """Distance of measured from predicted: root mean square over outputs and steps, over that of the labels.

    `noise` is what sampling alone would give: the root mean square of the standard errors, on the same scale.
    """

    statistic: str
    distance: float
    noise: float


@dataclass(frozen=True)
class TrainingPlace:
    """One place (width, depth): `networks` networks, each trained alone, beside the limit at that depth.

    `loss`, `loss_error` and `predicted_loss` are means over networks of 1/2 sum (f - y)^2, a number for each kept step;
    `deviation` is the root mean square over networks, outputs and steps of the outputs minus the predicted mean, over
    that of the labels, with its standard error: it falls to 0 with the width only where the limit is deterministic.
    `diverged` networks are left out of everything else.
    """

    width: int
    depth: int
    networks: int
    diverged: int
    measured: Outputs
    predicted: Outputs
    loss: list[float]
    loss_error: list[float]
    predicted_loss: list[float]
    gaps: list[Gap]
    deviation: float
    deviation_error: float


@dataclass(frozen=True)
class TrainingVerdict:
    """Whether trained networks follow the limit: "agrees", "differs" or "undecided", and why."""

    word: str
    reason: str
    test: str
    margin: float


@dataclass(frozen=True)
class TrainingComparison(Document):
    """Networks trained at every place of a grid of widths and depths, beside the limit of infinite width.

    `kind` is "lazy" or "mean field"; `rows` of inputs and `tests` of test inputs; `times` are the kept steps.
    """

    network: str
    kind: str
    inputs: int
    tests: int
    features: int
    outputs: int
    networks: int
    seed: int
    rate: float
    momentum: float
    gamma: float | None
    times: list[int]
    widths: list[int]
    depths: list[int]
    places: list[TrainingPlace]
    verdict: TrainingVerdict
    notes: list[str]
    version: str

    def place(self, width: int, depth: int) -> TrainingPlace:
        """Return the place at this width and depth.

        Raises:
            InputError: the comparison has no such place.
        """
        return self._at(width, depth, ", ".join(f"({place.width}, {place.depth})" for place in self.places))

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat {column: number} for each place and kept step."""
        from deeplimits.plane.training_table import rows

        return rows(self)

    def summary(self) -> str:
        """Return the table of places and the verdict in words."""
        from deeplimits.plane.training_table import summary

        return summary(self)
