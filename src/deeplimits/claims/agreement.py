"""The tests that verdicts rest on. Each returns a part of a claim with its test in words and its verdict.

Every test is held at the level 1e-6, so that a right program fails one of at most a hundred sampled numbers with
chance 1e-4.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.claims.claim import CONFIRMED, NOT_CONFIRMED, UNDECIDED, Part
from deeplimits.numerics.fit import Slope
from deeplimits.plane import measure
from deeplimits.plane.record import Estimate

LEVEL = 1e-6
CONFIDENCE = 1 - LEVEL


def quantile(networks: int | None = None) -> float:
    """Return how many standard errors either side of a mean are allowed: Student's t, normal without `networks`.

    Example:
        >>> round(quantile(), 2), round(quantile(21), 2)
        (4.89, 6.93)
    """
    return float(stats.norm.isf(LEVEL / 2) if networks is None else stats.t.isf(LEVEL / 2, networks - 1))


def near(
    name: str,
    predicted: float,
    measured: Estimate,
    resolution: float,
    *,
    bias: float = 0.0,
    because: str = "",
    networks: int | None = None,
    paper: bool = True,
    counts: bool = True,
    note: str = "",
) -> Part:
    """Judge a sampled number: |measured - predicted| <= z standard errors + bias, and that sum <= resolution.

    Args:
        name: what is measured.
        predicted: by theory.
        measured: mean and standard error over networks.
        resolution: the coarsest tolerance that still confirms anything; a wider one leaves the part undecided.
        bias: allowance for a finite size, from theory.
        because: where the allowance comes from.
        networks: how many, for Student's t; None for the normal law.
        paper: whether this is the paper's own statement in its own set-up.
        counts: whether the claim's verdict depends on it.
        note: a sentence for the reader.
    """
    errors = quantile(networks)
    tolerance = errors * measured.error + bias
    allowance = f" + {bias:.3g} ({because})" if bias else ""
    test = f"|measured - predicted| <= {errors:.2f} standard errors{allowance}, at most {resolution:.3g} together"
    gap = abs(measured.value - predicted)
    verdict = _word(gap <= tolerance, gap > tolerance, tolerance <= resolution, paper)
    region = predicted - tolerance, predicted + tolerance
    return Part(name, predicted, measured.value, measured.error, test, verdict, *region, paper, counts, note)


def equal(name: str, predicted: float, measured: float, tolerance: float, because: str, **options: Any) -> Part:
    """Judge a number without chance: |measured - predicted| <= tolerance, which `because` explains."""
    test = f"|computed - predicted| <= {tolerance:.3g} ({because})"
    gap = abs(measured - predicted)
    verdict = _word(gap <= tolerance, not gap <= tolerance, isfinite(tolerance), options.get("paper", True))
    region = predicted - tolerance, predicted + tolerance
    return Part(name, predicted, measured, 0.0, test, verdict, *region, **options)


def inside(name: str, predicted: float, fitted: Slope, low: float, high: float, **options: Any) -> Part:
    """Judge an exponent by equivalence: its whole interval, at confidence 1 - 1e-6, lies in [low, high].

    An interval wholly outside contradicts; one that straddles an end is undecided.
    """
    assert fitted.confidence == CONFIDENCE
    test = (
        f"the interval [{fitted.low:.3f}, {fitted.high:.3f}] of the exponent, at confidence 1 - 1e-6, lies in "
        f"[{low:g}, {high:g}]"
    )
    outside = fitted.high < low or fitted.low > high
    verdict = _word(fitted.inside(low, high), outside, True, options.get("paper", True))
    return Part(name, predicted, fitted.value, fitted.standard_error, test, verdict, low, high, **options)


def between(
    name: str, predicted: float, measured: Estimate, low: float, high: float, *, networks: int | None = None,
    **options: Any,
) -> Part:  # fmt: skip
    """Judge a sampled number by equivalence: its whole interval, measured -+ z standard errors, lies in [low, high].

    An interval wholly outside contradicts; one that straddles an end is undecided.
    """
    half = quantile(networks) * measured.error
    bottom, top = measured.value - half, measured.value + half
    test = (
        f"[{bottom:.4g}, {top:.4g}], {quantile(networks):.2f} standard errors either side, lies in [{low:g}, {high:g}]"
    )
    holds, outside = low <= bottom and top <= high, top < low or bottom > high
    verdict = _word(holds, outside, True, options.get("paper", True))
    return Part(name, predicted, measured.value, measured.error, test, verdict, low, high, **options)


def above(
    name: str, bound: float, measured: Estimate, *, predicted: float | None = None, networks: int | None = None,
    **options: Any,
) -> Part:  # fmt: skip
    """Judge a number that should exceed a bound: measured - z standard errors > bound."""
    errors = quantile(networks)
    low, high = measured.value - errors * measured.error, measured.value + errors * measured.error
    test = f"measured - {errors:.2f} standard errors > {bound:.3g}" if measured.error else f"computed > {bound:.3g}"
    verdict = _word(low > bound, high <= bound, True, options.get("paper", True))
    expected = bound if predicted is None else predicted
    return Part(name, expected, measured.value, measured.error, test, verdict, bound, **options)


def proportion(name: str, hits: int, trials: int, least: float, **options: Any) -> Part:
    """Judge a share of agreements: the exact (Clopper-Pearson) lower limit at level 1e-6 is at least `least`."""
    low = 0.0 if hits == 0 else float(stats.beta.ppf(LEVEL, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(stats.beta.isf(LEVEL, hits + 1, trials - hits))
    test = f"{hits} of {trials} agree; the exact binomial lower limit {low:.4f}, at level 1e-6, is at least {least:g}"
    verdict = _word(low >= least, high < least, True, options.get("paper", True))
    return Part(name, 1.0, hits / trials, None, test, verdict, least, 1.0, **options)


def gaussian(name: str, values: Any, variance: float, **options: Any) -> Part:
    """Judge a marginal: Kolmogorov-Smirnov distance to N(0, variance) below the Dvoretzky-Kiefer-Wolfowitz bound.

    P(distance > sqrt(log(2/level) / (2 N))) <= level for N independent values.
    """
    distance = float(stats.kstest(np.ravel(values), stats.norm(scale=variance**0.5).cdf).statistic)
    bound = (np.log(2 / LEVEL) / (2 * np.size(values))) ** 0.5
    test = (
        f"Kolmogorov-Smirnov distance of {np.size(values)} values to the normal law <= {bound:.3f}, its 1 - 1e-6 bound"
    )
    verdict = _word(distance <= bound, distance > bound, True, options.get("paper", True))
    return Part(name, 0.0, distance, None, test, verdict, 0.0, float(bound), **options)


def same_law(name: str, networks: Any, samples: Any, resolution: float = 0.15, **options: Any) -> Part:
    """Judge whether two samples have one law: their Kolmogorov-Smirnov distance against the bound of two samples.

    P(distance > sqrt(log(2/level)/2 (1/N + 1/M))) is level for N and M independent values of one law, both large; a
    bound above `resolution` leaves the part undecided.
    """
    distance = float(stats.ks_2samp(networks, samples).statistic)  # type: ignore[union-attr]
    bound = (np.log(2 / LEVEL) / 2 * (1 / len(networks) + 1 / len(samples))) ** 0.5
    test = (
        f"Kolmogorov-Smirnov distance of {len(networks)} networks to {len(samples)} samples of the limit <= "
        f"{bound:.3f}, its 1 - 1e-6 bound, at most {resolution:g}"
    )
    verdict = _word(distance <= bound, distance > bound, bound <= resolution, options.get("paper", True))
    return Part(name, 0.0, distance, None, test, verdict, 0.0, float(bound), **options)


def _word(holds: bool, contradicts: bool, sharp: bool, paper: bool) -> str:
    if contradicts:
        return NOT_CONFIRMED if paper else UNDECIDED
    return CONFIRMED if holds and sharp else UNDECIDED


def spread(values: Any, scale: float = 1.0) -> Estimate:
    """Return scale times the standard deviation over networks of (S,) or (S, m) values, with its jackknife error.

    Columns are repetitions within a network: their variances are averaged, networks are left out one by one.
    """
    found = measure.root(measure.variance(np.reshape(values, (len(values), -1))))
    return Estimate(scale * found.value, scale * found.error if found.error < inf else inf)


def average(values: Any, scale: float = 1.0) -> Estimate:
    """Return scale times the mean over networks of (S,) or (S, m) values, with its standard error."""
    found = measure.average(np.reshape(values, (len(values), -1)))
    return Estimate(scale * found.value, scale * found.error)
