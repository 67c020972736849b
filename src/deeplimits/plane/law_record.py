"""What a comparison of laws is: networks beside a random limit, as plain frozen records of numbers and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.plane.document import Document

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class LawCheck:
    """The law of one number over networks beside the predicted one.

    Attributes:
        statistic: which number, such as "log q[0]", q[a] the mean square of the features of input a, or "c[0,1]".
        distance: Kolmogorov-Smirnov distance of the two samples, the largest difference of their distribution
            functions.
        p_value: chance of a larger distance if the laws were equal.
        measured, measured_error: quantiles over networks at `LEVELS`, with standard errors.
        predicted, predicted_error: quantiles of the limit.
    """

    statistic: str
    distance: float
    p_value: float
    measured: list[float]
    measured_error: list[float]
    predicted: list[float]
    predicted_error: list[float]


@dataclass(frozen=True)
class LawPlace:
    """One place (width, depth): the laws over `networks` networks beside `samples` samples of the limit.

    `dead` and `limit_dead` count networks and samples left out because some q was zero; `exploded` the paths of the
    limit that left every bound.
    """

    width: int
    depth: int
    networks: int
    samples: int
    dead: int
    limit_dead: int
    exploded: int
    laws: list[LawCheck]
    limit: str


@dataclass(frozen=True)
class LawVerdict:
    """Whether networks follow the predicted law: "agrees", "differs" or "undecided", and why.

    `margin` is the largest distance that still agrees, `resolution` the half-width of the interval of a distance.
    """

    word: str
    reason: str
    test: str
    margin: float
    resolution: float


@dataclass(frozen=True)
class LawComparison(Document):
    """Laws over sampled networks beside that of a random limit: the top edge or the diagonal of the plane.

    `kind` is "top edge" (width fixed, depth to infinity) or "diagonal" (depth = ratio * width to infinity).
    """

    network: str
    kind: str
    ratio: float | None
    inputs: int
    features: int
    networks: int
    samples: int
    seed: int
    widths: list[int]
    depths: list[int]
    places: list[LawPlace]
    verdict: LawVerdict
    notes: list[str]
    version: str

    def place(self, width: int, depth: int) -> LawPlace:
        """Return the place at this width and depth.

        Raises:
            InputError: the comparison has no such place.
        """
        return self._at(width, depth, ", ".join(f"({place.width}, {place.depth})" for place in self.places))

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat {column: number} for each place and statistic."""
        from deeplimits.plane.law_table import rows

        return rows(self)

    def summary(self) -> str:
        """Return the table of places and the verdict in words."""
        from deeplimits.plane.law_table import summary

        return summary(self)
