"""A map from a network to numbers, measured over full networks, and whether its law commutes with the limits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.architecture.layer import Layer
from deeplimits.errors import InputError
from deeplimits.numerics.fit import Limit, extrapolate
from deeplimits.numerics.seeds import sequence
from deeplimits.plane.measure import variance
from deeplimits.plane.record import Estimate, FunctionCheck, Place, Ray, Verdict
from deeplimits.plane.verdict import CONCENTRATES, STAYS, choose, interval, ray

SPREAD = "spread of the function"
MARGIN = 0.2
DEAD = 0.05
TEST = (
    "the spread of the function's law (variance over networks, of its logarithm if it is positive) "
    "along depth = ratio * width as width^s and at fixed width as depth^s, 99 % intervals; and m + a/width + b/depth "
    "fitted twice, on the places wide for their depth and on those deep for their width: they are the same where "
    "the 99 % interval of their difference (Bonferroni over values) lies inside "
    f"{MARGIN:g} of the value, different where it lies outside"
)


def measure(
    net: Layer,
    function: Callable[[Any, Any], Any],
    inputs: np.ndarray,
    width: int,
    depth: int,
    networks: int,
    seed: int,
) -> np.ndarray:
    """Return function(module, X), flattened, of `networks` full networks: (S, m); modules and X are float64."""
    import torch

    from deeplimits.finite.build import build

    x = torch.as_tensor(inputs, dtype=torch.float64)
    rows = []
    for index in range(networks):
        own = int(sequence(seed, "network", index).generate_state(1, np.uint64)[0]) >> 1
        module = build(net, width=width, depth=depth, seed=own, features_in=inputs.shape[1], dtype=x.dtype)
        try:
            result = function(module, x.clone())
        except Exception as error:
            error.add_note(f"in compare(function=), at network {index} of width {width}, depth {depth}, seed {seed}")
            raise
        rows.append(_numbers(result, width, depth, index))
        if len(rows[-1]) != len(rows[0]):
            why = f"it gave {len(rows[0])} numbers, then {len(rows[-1])}"
            raise InputError("compare(function=)", why, "return equally many numbers for every network")
    return np.stack(rows)


def check(values: np.ndarray) -> FunctionCheck:
    """Return the law over networks of the values, (S, m)."""
    count = len(values)
    error = values.std(axis=0, ddof=1) / count**0.5
    alive = np.all(values > 0, axis=1)
    positive = bool((values >= 0).all()) and count - int(alive.sum()) <= DEAD * count
    law = np.log(values[alive]) if positive else values
    scale = 1.0 if positive else float(np.mean(values**2))
    return FunctionCheck(
        mean=values.mean(axis=0).tolist(),
        error=error.tolist(),
        variance=values.var(axis=0, ddof=1).tolist(),
        positive=positive,
        dead=count - int(alive.sum()) if positive else 0,
        center=law.mean(axis=0).tolist(),
        center_error=(law.std(axis=0, ddof=1) / len(law) ** 0.5).tolist(),
        spread=variance(law),
        scale=scale,
    )


def rays(places: list[Place]) -> list[Ray]:
    """Return the spread of the function along the three rays."""
    return [ray(kind, fixed, chosen, SPREAD, _spread) for kind, fixed, chosen in choose(places)]


def verdict(places: list[Place], found: list[Ray]) -> Verdict:
    """Return whether the function's law is the same in both orders of the limits."""
    checks = [place.function for place in places]
    if len({check.positive for check in checks if check is not None}) > 1:
        return Verdict("undecided", "the function is positive at some places only (zeros may be underflow)", TEST)
    if all(max(check.center_error) == 0 and check.spread.value == 0 for check in checks if check is not None):
        return Verdict(
            "undecided", "the function is the same number for every network: there is no law to compare", TEST
        )
    by_kind = {ray.kind: ray for ray in found}
    across, down, column = by_kind["diagonal"], by_kind["width fixed"], by_kind["depth fixed"]
    concentrates = column.slope is not None and column.slope.high < CONCENTRATES[1]
    if concentrates and len(across.values) >= 3 and across.slope is not None and across.slope.inside(*STAYS):
        reason = f"at fixed depth the function concentrates, along depth = {across.fixed:g} width its spread ~ width^"
        return Verdict("does not commute", reason + interval(across.slope), TEST, across.slope)
    if concentrates and len(down.values) >= 3 and down.slope is not None and down.slope.low > STAYS[1]:
        reason = f"at fixed depth the function concentrates, at width {down.fixed:g} its spread ~ depth^"
        return Verdict("does not commute", f"{reason}{interval(down.slope)} without bound", TEST, down.slope)
    return _two_orders(places, across, concentrates)


def _two_orders(places: list[Place], across: Ray, concentrates: bool) -> Verdict:
    sides = _sides(places)
    if sides is None:
        why = "the grid has too few places wide for their depth, or deep for their width, to extrapolate both orders"
        return Verdict("undecided", why, TEST, across.slope, add=_corners(places))
    gap, wide, deep, spread = _worst(*sides)
    assert places[0].function is not None
    subject = "its spread" if spread else "the mean of its logarithm" if places[0].function.positive else "its mean"
    seen = f"{subject} extrapolates, width first, to {_short(wide)}, depth first to {_short(deep)}"
    decided = (across.slope, wide, deep)
    if gap[0] > MARGIN or gap[1] < -MARGIN:
        return Verdict("does not commute", f"{seen}: they differ", TEST, *decided)
    if gap[0] < -MARGIN or gap[1] > MARGIN:
        reason = f"{seen}: their difference is only known to lie in {gap[0]:.2g} .. {gap[1]:.2g}; take more networks"
        return Verdict("undecided", reason, TEST, *decided, add=_corners(places))
    if concentrates and (across.slope is None or not across.slope.inside(*CONCENTRATES)):
        fall = "is unknown" if across.slope is None else f"~ width^{interval(across.slope)}"
        reason = f"{seen}: the same, but the spread along the diagonal {fall}, not clearly 1/width"
        return Verdict("undecided", reason, TEST, *decided)
    return Verdict("commutes", f"{seen}: the same within {MARGIN:g}", TEST, *decided)


def _sides(places: list[Place]) -> tuple[list[Place], list[Place]] | None:
    """Split the plane at the ratio nearest the median that leaves both sides enough places to extrapolate."""
    ratios = sorted({place.depth / place.width for place in places})
    middle = float(np.median([place.depth / place.width for place in places]))
    for cut in sorted(ratios[:-1], key=lambda ratio: abs(np.log(ratio / middle))):
        wide = [place for place in places if place.depth / place.width <= cut]
        deep = [place for place in places if place.depth / place.width > cut]
        try:
            _limits(wide)
            _limits(deep)
        except InputError:
            continue
        return wide, deep
    return None


def _limits(places: list[Place], confidence: float = 0.99) -> list[tuple[Limit, float]]:
    """Extrapolated center of every value, and the spread last, each with the size it is judged by."""
    checks = [place.function for place in places if place.function is not None]
    widths, depths = [p.width for p in places], [p.depth for p in places]
    size = max(float(np.sqrt(np.mean([c.scale for c in checks]))), 1e-300)
    found = []
    for index in range(len(checks[0].center)):
        values, errors = [c.center[index] for c in checks], [c.center_error[index] for c in checks]
        found.append((extrapolate(widths, depths, values, errors, confidence), size))
    spread = [c.spread for c in checks]
    if all(s.error < inf for s in spread):
        fitted = extrapolate(widths, depths, [s.value for s in spread], [s.error for s in spread], confidence)
        found.append((fitted, size**2))
    return found


def _worst(wide: list[Place], deep: list[Place]) -> tuple[tuple[float, float], Limit, Limit, bool]:
    """The value whose two extrapolations are least clearly the same, whether it is the spread, and the interval of
    their difference in units of its size.
    """
    first, second = _limits(wide), _limits(deep)
    count = min(len(first), len(second))
    quantile = float(stats.norm.ppf(1 - 0.005 / count))
    assert wide[0].function is not None
    worst, bounds, far = 0, (0.0, 0.0), -1.0
    for index in range(count):
        (one, size), (other, _) = first[index], second[index]
        half = quantile * float(np.hypot(one.standard_error, other.standard_error)) / size
        difference = (one.value - other.value) / size
        reach = abs(difference) - half if abs(difference) - half > MARGIN else abs(difference) + half
        rank = reach + (1e9 if abs(difference) - half > MARGIN else 0.0)
        if rank > far:
            worst, bounds, far = index, (difference - half, difference + half), rank
    return bounds, first[worst][0], second[worst][0], worst == len(wide[0].function.center)


def _corners(places: list[Place]) -> list[str]:
    width, depth = max(place.width for place in places), max(place.depth for place in places)
    return [f"width {2 * width} at every depth", f"depth {2 * depth} at every width"]


def _short(limit: Limit) -> str:
    return f"{limit.value:.4g} [{limit.low:.4g}, {limit.high:.4g}]"


def _spread(place: Place) -> Estimate | None:
    return None if place.function is None else place.function.spread


def _numbers(result: Any, width: int, depth: int, index: int) -> np.ndarray:
    where = "compare(function=)"
    try:
        given = result.detach().cpu().numpy() if hasattr(result, "detach") else result
        values = np.asarray(given, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(
            where, f"it returned {type(result).__name__} ({error})", "return a tensor or a number"
        ) from error
    if not values.size or not np.isfinite(values).all():
        why = f"network {index} at width {width}, depth {depth} gave {values[:4].tolist()}"
        raise InputError(
            where, f"a result that is empty or not finite: {why}", "return finite numbers, e.g. a logarithm"
        )
    return values


def name_of(function: Any) -> str:
    """Return the function's name for the record.

    Raises:
        InputError: it cannot be called.
    """
    if not callable(function):
        raise InputError("compare", f"function={function!r} cannot be called", "give function(module, X) -> tensor")
    return getattr(function, "__qualname__", None) or repr(function)
