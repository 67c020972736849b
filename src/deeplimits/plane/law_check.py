"""Two samples of one number: how far apart their laws are, and the verdict over all of them."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deeplimits.numerics.quantiles import quantiles
from deeplimits.plane.law_record import LEVELS, LawCheck, LawPlace, LawVerdict

Array = NDArray[np.float64]
MARGIN = 0.1
LEVEL = 0.01
TEST = (
    "at the largest size of every row, each Kolmogorov-Smirnov distance to the predicted law has an interval distance "
    f"-+ sqrt(log(2 m/{LEVEL:g})/2) sqrt(1/networks + 1/samples), m the number of laws ({1 - LEVEL:.0%} for all "
    f"together), and the share of the limit's paths that exploded; all intervals below {MARGIN:g} agree; the furthest "
    "above it differs, unless it surely falls along the row; else undecided"
)


def law_check(name: str, measured: Array, predicted: Array) -> LawCheck:
    """Return how the law of a number over networks, (N,), stands to that of the limit, (M,)."""
    found = stats.ks_2samp(measured, predicted, method="asymp")
    here, here_error = quantiles(measured, LEVELS)
    there, there_error = quantiles(predicted, LEVELS)
    return LawCheck(
        name,
        float(found.statistic),  # type: ignore[union-attr]
        float(found.pvalue),  # type: ignore[union-attr]
        here.tolist(),
        here_error.tolist(),
        there.tolist(),
        there_error.tolist(),
    )


def half_width(networks: int, samples: int, laws: int) -> float:
    """Return how far the distances of `laws` pairs of samples are known, all together at 99 %.

    |D - true D| is at most the distance of the two empirical from the two true laws; sqrt(log(2/level)/2) is
    Kolmogorov's quantile by Massart's bound, with the effective size of two samples.

    Source: Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Ann. Probab. 18 (1990).

    Example:
        >>> round(half_width(2000, 8000, 3), 4)
        0.0447
    """
    return sqrt(log(2 * laws / LEVEL) / 2) * sqrt(1 / networks + 1 / samples)


def networks_needed(laws: int, share: int) -> int:
    """Return how many networks, with `share` samples of the limit for each, bring the half-width to half the margin."""
    return int(np.ceil(log(2 * laws / LEVEL) / 2 * (1 + 1 / share) / (MARGIN / 2) ** 2))


def verdict(rows: list[list[LawPlace]], share: int) -> LawVerdict:
    """Return the verdict over the last place of every row: a width of the top edge, or the diagonal."""
    last = [(row, law) for row in rows for law in row[-1].laws]
    row, law, half = max(
        ((r, one, interval(r[-1], len(last))) for r, one in last), key=lambda at: at[1].distance + at[2]
    )
    place, bound = row[-1], law.distance + half
    seen = (
        f"the furthest law, of {law.statistic} at width {place.width}, depth {place.depth}, is {law.distance:.3f} away"
    )
    if bound <= MARGIN:
        return LawVerdict("agrees", f"{seen}, at most {bound:.3f}: below {MARGIN:g}", TEST, MARGIN, half)
    if law.distance - half > MARGIN:
        first = next(one for one in row[0].laws if one.statistic == law.statistic)
        if first.distance - interval(row[0], len(last)) > bound:
            reason = (
                f"{seen}, from {first.distance:.3f} at width {row[0].width}, depth {row[0].depth}: take larger sizes"
            )
            return LawVerdict("undecided", reason, TEST, MARGIN, half)
        return LawVerdict(
            "differs", f"{seen}, at least {law.distance - half:.3f}: above {MARGIN:g}", TEST, MARGIN, half
        )
    needed = networks_needed(len(last), share)
    fix = f"take {needed} networks" if place.networks < needed else "take larger sizes, or more networks"
    return LawVerdict("undecided", f"{seen}, at most {bound:.3f}: {fix}", TEST, MARGIN, half)


def interval(place: LawPlace, laws: int) -> float:
    """Return the half-width at a place: that of sampling, and the share of the limit's paths that were left out."""
    lost = place.exploded / (place.exploded + place.samples + place.limit_dead)
    return half_width(place.networks - place.dead, place.samples, laws) + lost
