"""The change of regime of ReLU states between widths 3 and 4: the sign of the drift of log|relu(X)|."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.size import whole
from deeplimits.architecture.zoo import ResNet
from deeplimits.errors import InputError
from deeplimits.limits.diffusion.angle import width_two
from deeplimits.limits.diffusion.simulate import simulate
from deeplimits.limits.diffusion.task import prepare
from deeplimits.numerics.seeds import sequence


@dataclass(frozen=True)
class Point:
    """E log(R_1/R_0) at one width, over `samples` states not dead at the start.

    `predicted` is the small-time drift; `exact` is known at widths 1 and 2; `step_error` is what halving the number of
    steps changes; `dead` counts states that the steps, though not the limit, put out.
    """

    width: int
    samples: int
    value: float
    error: float
    predicted: float
    exact: float | None
    step_error: float
    dead: int


@dataclass(frozen=True)
class Regime:
    """The mean growth of log|relu(X)| from layer time 0 to 1 against the width; negative up to 3, positive from 4."""

    points: tuple[Point, ...]
    seed: int
    steps: int


def small_time_drift(width: float) -> float:
    """Return d/dt E log(R_t/R_0) at t = 0: 1/(4 (1 - 2^-n)) - 1/n, for X_0 ~ N(0, I) given R_0 > 0.

    By Ito and Tanaka d log R = n^(-1/2) d beta + (1/n)(N_t/2 - 1) dt, N_t the number of positive coordinates, and
    E N_0 = (n/2)/(1 - 2^-n). Exact at t = 0 only: positive coordinates move faster, so that N_t falls, to 1 as t goes
    to infinity, where the drift is -1/(2n); at infinite width it stays 1/4.

    Source: hayou-2022-infinite-depth; derived (the constant).

    Example:
        >>> [round(small_time_drift(n), 4) for n in (1, 2, 3, 4, inf)]
        [-0.5, -0.1667, -0.0476, 0.0167, 0.25]
    """
    if width == inf:
        return 0.25
    return 1 / (4 * (1 - 2.0 ** -whole("small_time_drift", "width", width))) - 1 / width


def late_drift(width: float) -> float:
    """Return the drift of log R as t goes to infinity: -1/(2n), one coordinate left and the others frozen below 0.

    Source: derived (a time-changed Brownian motion meets the negative orthant).

    Example:
        >>> late_drift(2)
        -0.25
    """
    return 0.25 if width == inf else -1 / (2 * whole("late_drift", "width", width))


def regime(
    widths: Iterable[int] = (1, 2, 3, 4, 5, 8, 32), samples: int = 10000, seed: int = 0, steps: int = 128
) -> Regime:
    """Return E log(R_1/R_0) of ResNet("relu") at infinite depth for every width, sampled, beside what is predicted.

    Args:
        widths: whole numbers.
        samples: states at each width; the standard error is about 1/sqrt(width samples).
        seed: of all of them.
        steps: of Euler and Maruyama, even.

    Raises:
        InputError: widths, samples, seed or steps that cannot be used.

    Source: hayou-2022-infinite-depth.

    Example:
        >>> [point.value < 0 for point in regime((1, 32), samples=400, steps=16).points]
        [True, False]
    """
    steps, chosen = whole("regime", "steps", steps, minimum=2), [whole("regime", "width", n) for n in widths]
    if steps % 2:
        raise InputError("regime", f"steps={steps} is odd", "give an even number: half of them show the error")
    return Regime(tuple(_point(width, samples, seed, steps) for width in chosen), int(seed), steps)


def _point(width: int, samples: int, seed: int, steps: int) -> Point:
    own = int(sequence(seed, "regime", width).generate_state(1, np.uint64)[0]) >> 1  # widths must be independent
    task = prepare(ResNet("relu"), np.ones((1, 1)), width, inf, samples, own, (0.0, 1.0), states=True)
    (fine, dead), (coarse, _) = (_rise(simulate(task, steps, coarse)) for coarse in (False, True))
    both = np.isfinite(fine) & np.isfinite(coarse)
    rise = fine[np.isfinite(fine)]
    return Point(
        width=width,
        samples=len(rise),
        value=float(rise.mean()),
        error=float(rise.std(ddof=1)) / len(rise) ** 0.5,
        predicted=small_time_drift(width),
        exact={1: -0.5, 2: float(width_two([1.0]).log_norm[0])}.get(width),
        step_error=abs(float((fine - coarse)[both].mean())),
        dead=dead,
    )


def _rise(run: Any) -> tuple[np.ndarray, int]:
    """Return log(R_1/R_0) of every state, NaN where R_0 or R_1 is 0, and how many have died on the way."""
    squares = (np.maximum(run.states[:, :, 0], 0) ** 2).sum(-1)
    alive = squares > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = 0.5 * np.log(squares[1] / squares[0])
    return np.where(alive.all(0), rise, np.nan), int((alive[0] & ~alive[1]).sum())
