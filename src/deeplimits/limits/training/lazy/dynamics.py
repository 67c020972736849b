"""How an error shrinks along one eigenvalue of the kernel: by gradient flow, gradient descent, or a heavy ball."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, nearest

Array = NDArray[np.float64]
FLOW, DESCENT, MOMENTUM = RULES = ("flow", "gd", "momentum")


@dataclass(frozen=True)
class Dynamics:
    """A rule of training, mode by mode: with mu = eigenvalue + ridge, an error e evolves from 1 towards 0.

    - flow:      e(t) = exp(-mu t), t = rate * steps of small rates;
    - gd:        e(t) = (1 - rate mu)^t, t in steps;
    - momentum:  e(t+1) = (1 + momentum - rate mu) e(t) - momentum e(t-1), from e(0) = 1 and no velocity.

    Args:
        rule: "flow", "gd" or "momentum".
        rate: of gd and momentum, on the loss (1/2) sum (f - y)^2.
        momentum: of the heavy ball, v <- momentum v - rate gradient, weights <- weights + v; in [0, 1).
        ridge: of (ridge/2) |weights - weights at the start|^2, added to the loss.
        where: named in errors.

    Raises:
        DescriptionError: an unknown rule, or a number that the rule does not use or lacks.
        InputError: a rate, a momentum or a ridge out of range.

    Source: lee-2019-wide; polyak-1964 (the heavy ball).

    Example:
        >>> Dynamics("gd", rate=0.5).error(np.array([1.0, 2.0]), 2).tolist()
        [0.25, 0.0]
    """

    rule: str = FLOW
    rate: float | None = None
    momentum: float | None = None
    ridge: float = 0.0
    where: str = field(default="gradient_flow", repr=False)

    def __post_init__(self) -> None:
        where = self.where
        if self.rule not in RULES:
            raise DescriptionError(where, f"rule={self.rule!r} is not a rule", nearest(str(self.rule), RULES))
        for name, wanted in (("rate", self.rule != FLOW), ("momentum", self.rule == MOMENTUM)):
            value = getattr(self, name)
            if value is None and wanted:
                fix = f"give {name}=...; dl.training.max_learning_rate and dl.training.heavy_ball tell what is stable"
                raise DescriptionError(where, f"rule={self.rule!r} without a {name}", fix)
            if value is not None and not wanted:
                fix = "count time in units of rate * steps" if name == "rate" else "use rule='momentum'"
                why = f"{name}={value!r} has no effect on rule={self.rule!r}"
                raise DescriptionError(where, why, f"leave {name} out, and {fix}" if name == "rate" else fix)
        if self.rate is not None:
            check_number(where, "rate", self.rate, least=0.0, open_=True)
        if self.momentum is not None:
            check_momentum(where, self.momentum)
        check_number(where, "ridge", self.ridge, least=0.0)

    def times(self, time: Any) -> Array:
        """Return times as float64, of the shape of `time`.

        Raises:
            InputError: not a number or a list of numbers, negative, or no whole number of steps.
        """
        time = time.tolist() if hasattr(time, "tolist") else time
        several = isinstance(time, list | tuple | range)
        values = list(time) if several else [time]
        if not values:
            raise InputError(self.where, "time is empty", "give at least one time")
        for value in values:
            if self.rule == FLOW:
                check_number(self.where, "time", value, least=0.0, infinite=True)
            else:
                whole(self.where, "time", value, minimum=0, infinite=True)
        try:
            found = np.array(values, dtype=np.float64)
        except OverflowError:
            raise InputError(self.where, "a time leaves the range of float64", "give time=inf for the end") from None
        return found if several else found[0, ...]

    def largest_rate(self, top: float) -> float:
        """Return the rate from which on the largest eigenvalue diverges: 2 (1 + momentum) / (top + ridge)."""
        return 2 * (1 + (self.momentum or 0.0)) / (top + self.ridge) if top + self.ridge > 0 else inf

    def error(self, values: Array, time: float) -> Array:
        """Return what is left at a time of a unit error, for every eigenvalue, shape (P,).

        (ridge + eigenvalue e(t)) / mu: with a ridge, the error ends at ridge / mu.
        """
        decay = self._evolved(values, time)[0]
        if not self.ridge:
            return decay
        return (self.ridge + values * decay) / (values + self.ridge)

    def gain(self, values: Array, time: float) -> Array:
        """Return (1 - e(t)) / mu for every eigenvalue, shape (P,), without loss of digits where mu is small."""
        return self._evolved(values, time)[1]

    def lifetime(self, values: Array) -> Array:
        """Return the time in which the error of every mode falls by a factor e (of an oscillation, its envelope)."""
        mu = values + self.ridge
        with np.errstate(divide="ignore"):
            if self.rule == FLOW:
                return 1 / mu
            return 1 / decay_rate(self.rate * mu, self.momentum or 0.0)  # type: ignore[operator]

    def _evolved(self, values: Array, time: float) -> tuple[Array, Array]:
        mu = values + self.ridge
        with np.errstate(divide="ignore", under="ignore"):
            if time == inf:
                return np.where(mu > 0, 0.0, 1.0), 1 / mu
            if self.rule == FLOW:
                exponent = -mu * time
                return np.exp(exponent), np.where(mu > 0, -np.expm1(exponent) / np.where(mu > 0, mu, 1.0), time)
            assert self.rate is not None
            decay, gain = iterated(self.rate * mu, self.momentum or 0.0, int(time))
        return decay, self.rate * gain


def iterated(x: Array, momentum: float, steps: int) -> tuple[Array, Array]:
    """Return e(steps), and g(steps) with g(t+1) = g(t) + momentum (g(t) - g(t-1)) + e(t) from 0, so that 1 - e = x g.

    (e, its last change) is multiplied with [[1 - x, momentum], [-x, momentum]] in each step, and g obeys the same with
    a constant added: the power is taken by repeated squaring, which costs log2(steps) products and a relative error of
    steps * 1e-16 in modes that live so long.

    Args:
        x: rate times eigenvalue, shape (P,).
        momentum: in [0, 1).
        steps: at least 0.

    Source: derived.

    Example:
        >>> decay, gain = iterated(np.array([0.0, 0.5]), 0.0, 3)
        >>> decay.tolist(), gain.tolist()
        ([1.0, 0.125], [3.0, 1.75])
    """
    step = np.moveaxis(np.array([[1 - x, momentum + 0 * x], [-x, momentum + 0 * x]]), -1, 0)
    constant = np.ones((len(x), 2, 1))
    power, sum_ = np.broadcast_to(np.eye(2), step.shape), np.zeros_like(constant)
    while steps:
        if steps & 1:
            power, sum_ = step @ power, step @ sum_ + constant
        step, constant = step @ step, step @ constant + constant
        steps >>= 1
    return power[:, 0, 0], sum_[:, 0, 0]


def decay_rate(x: Array, momentum: float) -> Array:
    """Return -log of the larger root of z^2 - (1 + momentum - x) z + momentum, in size, shape of x.

    Source: polyak-1964; derived.

    Example:
        >>> np.exp(-decay_rate(np.array([0.1, 1.9]), 0.0)).round(12).tolist()
        [0.9, 0.9]
    """
    root = momentum**0.5
    inside = ((1 - root) ** 2 - x) * ((1 + root) ** 2 - x)
    real = np.sqrt(np.maximum(inside, 0.0))
    fast = -0.5 * np.log(momentum) if momentum else inf
    with np.errstate(divide="ignore"):
        slow = -np.log1p(-np.minimum(2 * x / ((1 - momentum + x) + real), 1.0))
        swinging = -np.log(np.maximum((x - 1 - momentum + real) / 2, 0.0))
    return np.where(inside < 0, fast, np.where(x < 1 + momentum, slow, swinging))


def check_number(
    where: str, name: str, value: Any, *, least: float, open_: bool = False, infinite: bool = False
) -> float:
    """Return a number of at least `least` (above it, where `open_`), finite unless `infinite`.

    Raises:
        InputError: it is not.
    """
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else nan
    if not (number > least if open_ else number >= least) or not (
        number <= float_info.max or (infinite and number == inf)
    ):
        also = " or infinity" if infinite else ""
        why = f"{name}={value!r} is not a number {'>' if open_ else '>='} {least:g}{also}"
        raise InputError(where, why, f"give {name} as such a number")
    return float(number)


def check_momentum(where: str, value: Any) -> float:
    """Return a momentum in [0, 1).

    Raises:
        InputError: it is not.
    """
    number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else nan
    if not 0 <= number < 1:
        raise InputError(where, f"momentum={value!r} is not a number in [0, 1)", "give e.g. momentum=0.9")
    return float(number)
