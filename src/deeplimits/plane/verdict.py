"""Three rays of the plane, and whether the law over networks commutes with the order of the limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import log

from deeplimits.numerics.fit import Slope, slope
from deeplimits.plane.record import Estimate, Place, Ray, Verdict

CONCENTRATES = (-1.3, -0.7)
STAYS = (-0.3, 0.3)
FLOOR = 1e-20
LOG_VARIANCE, LOG_SQUARE, CORRELATION = "var(log q)", "mean square of log(q/q_edge)", "var(c)"
TEST = (
    "along depth = ratio * width, var(log q) over networks is fitted as width^s: the 99 % interval of s inside "
    "[-1.3, -0.7] commutes, inside [-0.3, 0.3] does not commute, else undecided; the mean square of log(q/q_edge) or "
    "the variance of the correlations staying in [-0.3, 0.3] overrides 'commutes'"
)


def rays(places: list[Place]) -> list[Ray]:
    """Return the three rays for each statistic of the law that every place carries."""
    found = []
    for statistic, read in STATISTICS.items():
        known = [place for place in places if read(place) is not None]
        if known:
            found += [ray(kind, fixed, chosen, statistic, read) for kind, fixed, chosen in choose(known)]
    return found


def choose(places: list[Place]) -> list[tuple[str, float, list[Place]]]:
    """Return the places of the smallest width, of the fullest diagonal, and of the largest depth, each in order."""
    narrowest, deepest = min(p.width for p in places), max(p.depth for p in places)
    row = sorted((p for p in places if p.width == narrowest), key=lambda p: p.depth)
    column = sorted((p for p in places if p.depth == deepest), key=lambda p: p.width)
    ratio, diagonal = fullest_diagonal(places)
    return [
        ("width fixed", float(narrowest), row),
        ("diagonal", float(ratio), diagonal),
        ("depth fixed", float(deepest), column),
    ]


def fullest_diagonal(places: list[Place]) -> tuple[Fraction, list[Place]]:
    """Return the ratio depth/width with the most places, ties to the longest span and then to the ratio nearest 1."""
    by_ratio: dict[Fraction, list[Place]] = defaultdict(list)
    for place in places:
        by_ratio[Fraction(place.depth, place.width)].append(place)

    def rank(item: tuple[Fraction, list[Place]]) -> tuple[float, float, float, Fraction]:
        ratio, members = item
        widths = [place.width for place in members]
        return len(members), max(widths) / min(widths), -abs(log(ratio)), ratio

    ratio, members = max(by_ratio.items(), key=rank)
    return ratio, sorted(members, key=lambda place: place.width)


def ray(kind: str, fixed: float, places: list[Place], statistic: str, read: Callable[[Place], Estimate | None]) -> Ray:
    """Return the statistic along the places with its exponent (in depth where the width is fixed, else in width)."""
    estimates = [estimate for place in places if (estimate := read(place)) is not None]
    values, errors = [e.value for e in estimates], [e.error for e in estimates]
    along = [place.depth if kind == "width fixed" else place.width for place in places]
    predicted = [p.log_variance_predicted for p in places] if statistic == LOG_VARIANCE else [None]
    fitted = _exponent(along, values, errors)
    return Ray(
        kind=kind,
        fixed=fixed,
        statistic=statistic,
        widths=[place.width for place in places],
        depths=[place.depth for place in places],
        values=values,
        errors=errors,
        predicted=None if None in predicted else [p for p in predicted if p is not None],
        slope=fitted,
        reading=_reading(kind, statistic, fitted, values),
    )


def verdict(found: list[Ray]) -> Verdict:
    """Return the verdict of the diagonal rays."""
    diagonal = {ray.statistic: ray for ray in found if ray.kind == "diagonal"}
    first = diagonal.get(LOG_VARIANCE)
    if first is None:
        return Verdict(
            "undecided",
            "no place carries the law of log q: put 'nngp' into get, and give inputs that are not all zero",
            TEST,
        )
    if first.slope is None and max(first.values) <= FLOOR and CORRELATION in diagonal:
        first = diagonal[CORRELATION]
    if len(first.values) < 3:
        return _too_few(first)
    if first.slope is None:
        return Verdict(
            "undecided", f"{first.statistic} is zero, so there is no fluctuation whose decay could be fitted", TEST
        )
    decided = judge(first)
    others = [ray for name, ray in diagonal.items() if name != first.statistic and ray.slope is not None]
    for other in others if decided.word == "commutes" else []:
        if other.slope is not None and other.slope.inside(*STAYS):
            reason = f"{decided.reason}, but {other.statistic} ~ width^{interval(other.slope)} does not fall"
            return replace(decided, word="does not commute", reason=reason, slope=other.slope)
    return decided


def judge(ray: Ray) -> Verdict:
    """Return the verdict of one diagonal ray's exponent."""
    assert ray.slope is not None
    seen = f"along depth = {ray.fixed:g} width, {ray.statistic} ~ width^{interval(ray.slope)}"
    if ray.slope.inside(*CONCENTRATES):
        return Verdict("commutes", f"{seen}: it concentrates as at fixed depth", TEST, ray.slope)
    if ray.slope.inside(*STAYS):
        return Verdict("does not commute", f"{seen}: it stays random however wide and deep", TEST, ray.slope)
    reason = f"{seen}: the interval lies in neither [-1.3, -0.7] nor [-0.3, 0.3]"
    return Verdict("undecided", reason, TEST, ray.slope, add=_longer(ray, 1))


def interval(fitted: Slope) -> str:
    """Return an exponent in words."""
    return f"{fitted.value:.2f} (99 % interval [{fitted.low:.2f}, {fitted.high:.2f}])"


def _exponent(along: list[int], values: list[float], errors: list[float]) -> Slope | None:
    if len(set(along)) < 2 or min(values) <= FLOOR or not 0 < min(errors) <= max(errors) < float("inf"):
        return None
    return slope(along, values, errors)


def _too_few(ray: Ray) -> Verdict:
    add = _longer(ray, 3 - len(ray.values))
    reason = (
        f"no diagonal depth = ratio * width has three places (the fullest, ratio {ray.fixed:g}, has {len(ray.values)})"
    )
    return Verdict("undecided", f"{reason}; add {', '.join(add)}", TEST, add=add)


def _longer(ray: Ray, count: int) -> list[str]:
    width, depth = ray.widths[-1], ray.depths[-1]
    return [f"width {width * 2**step} at depth {depth * 2**step}" for step in range(1, count + 1)]


def _reading(kind: str, statistic: str, fitted: Slope | None, values: list[float]) -> str:
    variable = "depth" if kind == "width fixed" else "width"
    if fitted is None:
        return f"{statistic} is zero to rounding" if max(values) <= FLOOR else "too few places for an exponent"
    word = (
        "grows" if fitted.low > STAYS[1] else "falls" if fitted.high < STAYS[0] else "neither grows nor falls clearly"
    )
    word = "stays" if fitted.inside(*STAYS) else word
    return f"{statistic} {word} with {variable}: {variable}^{interval(fitted)}"


def _square(estimate: Estimate | None) -> Estimate | None:
    return None if estimate is None else Estimate(estimate.value**2, 2 * estimate.value * estimate.error)


STATISTICS: dict[str, Callable[[Place], Estimate | None]] = {
    LOG_VARIANCE: lambda place: place.log_variance,
    LOG_SQUARE: lambda place: _square(place.log_rms),
    CORRELATION: lambda place: _square(place.correlation_sd),
}
