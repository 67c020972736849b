"""How fast one network's kernel approaches its limits, and the width that a tolerance asks for."""

from __future__ import annotations

from math import inf

from deeplimits.numerics.fit import Rate, common, rate_in_width_and_depth, slope
from deeplimits.plane.record import Estimate, KernelCheck, Place, WidthNeeded, WidthRate

TOLERANCE = 0.05
ENSEMBLES = (1, 10, 100)
LINEAR = 0.5
POOR = 3.0


def width_rate(name: str, places: list[Place]) -> WidthRate:
    """Return the exponent in width at the largest depth and the joint fit in width and depth about the corner."""
    deepest = max(place.depth for place in places)
    column = [(p.width, edge) for p in places if p.depth == deepest and (edge := _edge(p, name)) is not None]
    fitted = None
    if len({width for width, _ in column}) >= 2 and all(0 < e.error < inf for _, e in column):
        fitted = slope([w for w, _ in column], [e.value for _, e in column], [e.error for _, e in column])
    known = [(p, c) for p in places if (c := _corner(p, name)) is not None and 0 < c.error < inf]
    joint = None
    if len({(p.width * 1.0) / p.depth**2 for p, _ in known}) >= 2:
        widths, depths = [p.width for p, _ in known], [p.depth for p, _ in known]
        joint = rate_in_width_and_depth(widths, depths, [c.value for _, c in known], [c.error for _, c in known])
    words = []
    if fitted is not None:
        words.append(f"at depth {deepest} rms ~ width^{fitted.value:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]")
        if all(edge.value > LINEAR for _, edge in column):
            words.append("that rms is carried by rare networks, var(log q) tells more")
    if joint is not None:
        words.append(_joint(joint))
    return WidthRate(name, deepest, fitted, joint, "; ".join(words) or "no right edge and no corner to approach")


def _joint(joint: Rate) -> str:
    a, b = (f"{c.value:.3g} [{c.low:.3g}, {c.high:.3g}]" for c in (joint.a, joint.b))
    lack = joint.chi_square / joint.degrees if joint.degrees else 0.0
    words = (
        f"about the corner rms^2 = a^2/width + b^2/depth^2 with a = {a}, b = {b if joint.b.value else 'not resolved'}"
    )
    return words + (f" (a poor fit: chi-square {lack:.1f} a degree of freedom)" if lack > POOR else "")


def widths_needed(name: str, places: list[Place]) -> list[WidthNeeded]:
    """Return, depth by depth, the width that brings one network, or a mean over several, within 5 % of the edge."""
    found = []
    for depth in sorted({place.depth for place in places}):
        column = [(p.width, edge) for p in places if p.depth == depth and (edge := _edge(p, name)) is not None]
        found += [_needed(name, depth, ensemble, column) for ensemble in ENSEMBLES]
    return found


def _needed(name: str, depth: int, ensemble: int, column: list[tuple[int, Estimate]]) -> WidthNeeded:
    linear = [(width, e) for width, e in column if e.value <= LINEAR and 0 < e.error < inf]
    if not linear:
        why = f"no width measured brings one network's rms to {LINEAR:g} or less: nothing to extrapolate from"
        return WidthNeeded(name, depth, ensemble, TOLERANCE, None, None, None, why)
    square = common([w * e.value**2 for w, e in linear], [2 * w * e.value * e.error for w, e in linear])
    factor = 1 / (ensemble * TOLERANCE**2)
    width, low, high = (max(factor * value, 1.0) for value in (square.value, max(square.low, 0.0), square.high))
    measured = [width for width, _ in column]
    reading = "rms^2 = a^2/(ensemble width); the mean's bias, of order 1/width, is not counted"
    if not min(measured) <= width <= max(measured):
        reading += "; outside the widths measured"
    return WidthNeeded(name, depth, ensemble, TOLERANCE, width, low, high, reading)


def _edge(place: Place, name: str) -> Estimate | None:
    check: KernelCheck | None = getattr(place, name)
    return None if check is None or check.rms is None or check.rms.value == 0 else check.rms


def _corner(place: Place, name: str) -> Estimate | None:
    check: KernelCheck | None = getattr(place, name)
    return None if check is None or check.rms_corner is None or check.rms_corner.value == 0 else check.rms_corner
