"""What a comparison is: plain frozen records of numbers and text, to and from JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deeplimits.numerics.fit import Limit, Rate, Slope
from deeplimits.plane.document import FORMAT, Document, decode, encode

__all__ = [
    "FORMAT", "Comparison", "DepthRate", "Estimate", "FunctionCheck", "KernelCheck", "Place", "Ray", "Verdict",
    "WidthNeeded", "WidthRate", "decode", "encode",
]  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A measured number and its standard error over networks."""

    value: float
    error: float


@dataclass(frozen=True)
class KernelCheck:
    """One kernel at one place: measured mean and standard error (k x k), predicted right edge at the same depth.

    `z_max` and `z_rms` are over the `entries` distinct entries of (mean - predicted)/error. `rms` is the root mean
    square over networks of |K_network - K|_F / |K|_F about the right edge, `rms_corner` about the corner.
    """

    mean: list[list[float]]
    error: list[list[float]]
    predicted: list[list[float]] | None
    z_max: float | None
    z_rms: float | None
    entries: int
    rms: Estimate | None
    rms_corner: Estimate | None


@dataclass(frozen=True)
class FunctionCheck:
    """A neural function at one place: per value mean, standard error and variance over networks.

    `positive` says that no value was negative and that at most one network in twenty, `dead` of them, had a zero; the
    law is then that of the logarithm over the others, else that of the value itself: `center` is its mean per value,
    `spread` its variance averaged over values, `scale` its mean square (1 for logarithms).
    """

    mean: list[float]
    error: list[float]
    variance: list[float]
    positive: bool
    dead: int
    center: list[float]
    center_error: list[float]
    spread: Estimate
    scale: float


@dataclass(frozen=True)
class Place:
    """What stands at one place (width, depth): measured over `networks` networks, and predicted.

    `log_mean`, `log_variance` and `log_rms` are of log(q/q_edge) over networks, averaged over inputs, q the diagonal of
    the features' Gram matrix; standard errors by the jackknife over networks. `dead` counts networks left out because
    some q was zero. `correlation_mean` and `correlation_sd` are of c = q12/sqrt(q1 q2), averaged over pairs of inputs.
    """

    width: int
    depth: int
    networks: int
    dead: int = 0
    nngp: KernelCheck | None = None
    ntk: KernelCheck | None = None
    log_mean: Estimate | None = None
    log_mean_predicted: float | None = None
    log_variance: Estimate | None = None
    log_variance_predicted: float | None = None
    log_rms: Estimate | None = None
    correlation_mean: Estimate | None = None
    correlation_sd: Estimate | None = None
    correlation_predicted: float | None = None
    function: FunctionCheck | None = None


@dataclass(frozen=True)
class Ray:
    """One statistic along one ray of the plane: "width fixed", "diagonal" (depth = fixed * width) or "depth fixed"."""

    kind: str
    fixed: float
    statistic: str
    widths: list[int]
    depths: list[int]
    values: list[float]
    errors: list[float]
    predicted: list[float] | None
    slope: Slope | None
    reading: str


@dataclass(frozen=True)
class Verdict:
    """Whether the order of the limits matters: "commutes", "does not commute" or "undecided", and why."""

    word: str
    reason: str
    test: str
    slope: Slope | None = None
    width_first: Limit | None = None
    depth_first: Limit | None = None
    add: list[str] | None = None


@dataclass(frozen=True)
class DepthRate:
    """How fast the right edge approaches the corner: |K(L) - K(inf)|_F / |K(inf)|_F over depths, by theory alone."""

    kernel: str
    depths: list[int]
    difference: list[float]
    slope: Slope | None
    reading: str


@dataclass(frozen=True)
class WidthRate:
    """How fast one network's kernel approaches its limit as it widens.

    `slope` is the exponent in width of its rms about the right edge at `depth`; `rate` the joint fit
    rms**2 = a**2/n + b**2/L**2 about the corner over all places, None where there is no corner.
    """

    kernel: str
    depth: int
    slope: Slope | None
    rate: Rate | None
    reading: str


@dataclass(frozen=True)
class WidthNeeded:
    """Width at which the kernel of one network, or the mean over `ensemble` networks, is within `tolerance` (rms)."""

    kernel: str
    depth: int
    ensemble: int
    tolerance: float
    width: float | None
    low: float | None
    high: float | None
    reading: str


@dataclass(frozen=True)
class Comparison(Document):
    """Prediction and measurement at every place of the plane, and whether the order of the limits matters.

    `corner_nngp`, `corner_ntk` are the kernels at infinite width and depth, None where they do not exist; `corner` says
    in words which limit was taken or why there is none.
    """

    network: str
    inputs: int
    features: int
    networks: int
    seed: int
    get: list[str]
    widths: list[int]
    depths: list[int]
    places: list[Place]
    rays: list[Ray]
    verdict: Verdict
    corner: str
    corner_nngp: list[list[float]] | None
    corner_ntk: list[list[float]] | None
    depth_rates: list[DepthRate]
    width_rates: list[WidthRate]
    widths_needed: list[WidthNeeded]
    function: str | None
    notes: list[str]
    version: str

    def place(self, width: int, depth: int) -> Place:
        """Return the place at this width and depth.

        Raises:
            InputError: the comparison has no such place.
        """
        return self._at(width, depth, f"widths {self.widths} and depths {self.depths}")

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat {column: number} per place, matrices left out."""
        from deeplimits.plane.table import row

        return [row(place) for place in self.places]

    def summary(self) -> str:
        """Return the table of places and the verdict in words."""
        from deeplimits.plane.table import summary

        return summary(self)
