"""What a comparison is: plain frozen records of numbers and text, to and from JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any, get_args, get_origin, get_type_hints

from deeplimits.errors import InputError, MissingExtra
from deeplimits.numerics.fit import Limit, Rate, Slope

FORMAT = 1


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
class Comparison:
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
        for place in self.places:
            if (place.width, place.depth) == (width, depth):
                return place
        known = f"widths {self.widths} and depths {self.depths}"
        raise InputError("Comparison.place", f"no place at width {width}, depth {depth}", f"choose from {known}")

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat {column: number} per place, matrices left out."""
        from deeplimits.plane.table import row

        return [row(place) for place in self.places]

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return one row per place as a data frame of the named library ("pandas", "polars", "pyarrow").

        Raises:
            MissingExtra: the library is not installed.
        """
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        try:
            import narwhals

            return narwhals.from_dict(columns, backend=backend).to_native()  # type: ignore[arg-type]
        except (ImportError, ValueError) as error:
            fix = f"pip install narwhals {backend}, or use rows() or to_json(), which need nothing"
            raise MissingExtra("Comparison.to_frame", str(error).partition("\n")[0], fix) from error

    def to_json(self) -> str:
        """Return the record as one JSON document; numbers that JSON lacks are the texts "inf", "-inf", "nan"."""
        return json.dumps({"format": FORMAT, **encode(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Return the record that `to_json` wrote.

        Raises:
            InputError: the text is not such a document.
        """
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError("another format number")
            return decode(cls, data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"not a comparison written by to_json ({error})"
            raise InputError("Comparison.from_json", why, "give the text that to_json returned") from error

    def summary(self) -> str:
        """Return the table of places and the verdict in words."""
        from deeplimits.plane.table import summary

        return summary(self)

    def __str__(self) -> str:
        return self.summary()


def encode(value: Any) -> Any:
    """Return a record as nested dicts, lists, numbers and text that JSON can hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(float(value))
    return value


def decode(kind: Any, data: Any) -> Any:
    """Return the record of type `kind` that `encode` turned into `data`."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: decode(hints[name], value) for name, value in data.items()})  # type: ignore[operator]
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is list:
        return [decode(options[0], item) for item in data]
    if data is None or not options:
        return float(data) if kind is float and data is not None else data
    return decode(options[0], data)
