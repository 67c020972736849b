"""Learning-rate curves: minima with intervals, their drift over sizes, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.transfer.anatomy.names import in_words
from deeplimits.transfer.evidence.optimum import minimum, room

TRANSFERS, DRIFTS, UNDECIDED = "transfers", "drifts", "undecided"
RESAMPLES, CONFIDENCE = 2000, 0.99
OCTAVES = 0.75
Interval = tuple[float, float, float]
"""(value, lower end, upper end)."""


@dataclass(frozen=True)
class Curve:
    """Loss against learning rate at one size.

    Attributes:
        size: what was built.
        log2_lrs: base-2 logarithms of the base's learning rates.
        losses: shape (learning rates, seeds); infinite where training diverged.
        best_log2_lr: minimum of the parabola through the three points around the smallest mean log loss; NaN where
            no learning rate trains at every seed.
        low, high: its bootstrap interval over seeds, widened as Student's t is for few of them and by `room`; an end
            of the grid where it reaches beyond.
        best_loss: geometric mean of the loss there; infinite where no learning rate trains.
        at_edge: whether the smallest loss lies at an end of the grid, so that the minimum may lie beyond.
        diverged: runs whose loss was not finite.
    """

    size: Mapping[str, int]
    log2_lrs: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    best_log2_lr: float
    low: float
    high: float
    best_loss: float
    at_edge: bool
    diverged: int = 0

    @property
    def trained(self) -> bool:
        """Whether all seeds train at one learning rate or more."""
        return isfinite(self.best_loss)

    @property
    def interval(self) -> str:
        """The interval in words."""
        return interval(self.low, self.high, self.log2_lrs[0], self.log2_lrs[-1])

    @property
    def beside_divergence(self) -> bool:
        """Whether a learning rate next to the best diverges, which is known to a spacing of the grid only."""
        return 0 < max(room(np.array(self.log2_lrs), np.array(self.losses))) < inf

    @property
    def note(self) -> str:
        """Why the best learning rate may lie elsewhere, in words; empty where the parabola tells."""
        beside = "beside a learning rate that diverges" if self.beside_divergence else ""
        return "at the edge of the grid" if self.at_edge else beside

    @property
    def untrained(self) -> str:
        """Why there is no best learning rate, in words."""
        runs = sum(map(len, self.losses))
        every = f"every run diverged: none of {runs} trained"
        return every if self.diverged == runs else f"at every learning rate a run diverged, {self.diverged} of {runs}"


@dataclass(frozen=True)
class Transfer:
    """How the best learning rate moves with the size.

    Attributes:
        rule: the parametrization.
        curves: one a size, the base first.
        drift: best log2 learning rate of the last size minus that of the first, in octaves.
        drift_low, drift_high: its bootstrap interval, widened by the `room` of both optima; infinite where one lies at
            the edge of the grid.
        span: largest minus smallest of the best log2 learning rates.
        loss_ratio: loss at the optimum of the last size over that of the first: deep against shallow.
        ratio_low, ratio_high: its bootstrap interval.
        verdict: "transfers" (the drift's interval lies within the margin), "drifts" (outside) or "undecided".
        reason: in words.
        margin: drift in octaves that still counts as transfer.
        schedule: that all runs were trained on, in words.
    """

    rule: str
    curves: tuple[Curve, ...]
    drift: float
    drift_low: float
    drift_high: float
    span: float
    loss_ratio: float
    ratio_low: float
    ratio_high: float
    verdict: str
    reason: str
    margin: float = OCTAVES
    schedule: str = ""

    @property
    def moved(self) -> str:
        """How far the best learning rate moves, in words; empty where that is not known."""
        return moved(self.drift, self.drift_low, self.drift_high)

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.verdict}. {self.reason}"]
        for curve in self.curves:
            if not curve.trained:
                lines.append(f"  {in_words(curve.size)}: {curve.untrained}")
                continue
            best = f"best 2^{curve.best_log2_lr:+.2f} {curve.interval}, loss {curve.best_loss:.4g}"
            lost = f"{curve.diverged} diverged" if curve.diverged else ""
            lines.append(f"  {in_words(curve.size)}: {'  '.join(filter(None, (best, curve.note, lost)))}")
        return "\n".join(lines + ([f"  trained for {self.schedule}"] if self.schedule else []))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def interval(low: float, high: float, first: float, last: float) -> str:
    """Return an interval in words, its ends from `first` and `last` on as what no run was made for.

    Example:
        >>> interval(-9.5, -4.25, -8, -1), interval(-6, 40, -8, -1)
        ('[beyond the grid, -4.25]', '[-6.00, beyond the grid]')
    """
    ends = ((low, low <= first), (high, high >= last))
    return f"[{', '.join('beyond the grid' if beyond else f'{end:+.2f}' for end, beyond in ends)}]"


def moved(drift: float, low: float, high: float) -> str:
    """Return a drift in words, empty where its interval has no end.

    Example:
        >>> moved(-2.5, -3, -2), moved(-2.5, -inf, -2), moved(0.0, -inf, inf)
        ('-2.50 octaves', '-2.50 octaves or further', '')
    """
    if not isfinite(drift) or (low == -inf and high == inf):
        return ""
    return f"{drift:+.2f} octaves{'' if isfinite(high - low) else ' or further'}"


def summarise(
    rule: str,
    sizes: Sequence[Mapping[str, int]],
    log2_lrs: Sequence[float],
    losses: np.ndarray,
    margin: float = OCTAVES,
    seed: int = 0,
    schedule: str = "",
) -> Transfer:
    """Return the curves and the verdict.

    Args:
        rule: the parametrization.
        sizes: the base first.
        log2_lrs: of the base's learning rates, rising.
        losses: shape (sizes, learning rates, seeds); infinite where training diverged.
        margin: drift in octaves that still counts as transfer.
        seed: of the bootstrap, which resamples seeds of each size.
        schedule: that all runs were trained on, in words.
    """
    x, rng, seeds = np.asarray(log2_lrs, dtype=float), np.random.default_rng(seed), losses.shape[2]
    best = [minimum(x, at) for at in losses]
    draws = rng.integers(seeds, size=(RESAMPLES, len(sizes), seeds))
    again = np.array(
        [[minimum(x, at[:, draw])[:2] for at, draw in zip(losses, each, strict=True)] for each in draws]
    )  # (resamples, sizes, place and loss)
    places, lowest, moves = np.array([b[0] for b in best]), np.array([b[1] for b in best]), again[..., 0]
    below, above = np.array([room(x, at) for at in losses]).T
    low, high = _interval(places, moves, seeds - 1)
    ends = np.clip([low - below, high + above], x[0], x[-1])
    low, high = _interval(places[-1] - places[0], moves[:, -1] - moves[:, 0], 2 * (seeds - 1))
    drift = float(places[-1] - places[0]), float(low - below[-1] - above[0]), float(high + above[-1] + below[0])
    curves = tuple(
        Curve(
            dict(size), tuple(x.tolist()), tuple(map(tuple, at.tolist())), b, float(low), float(high), loss, edge,
            int((~np.isfinite(at)).sum()),
        )
        for size, at, (b, loss, edge), low, high in zip(sizes, losses, best, *ends, strict=True)
    )  # fmt: skip
    ratio = _ratio(lowest, again[..., 1], seeds)
    verdict, reason = _verdict(drift, ratio, curves, margin)
    span = float(np.ptp(places))
    return Transfer(rule, curves, *drift, span, *ratio, verdict, reason, margin, schedule)


def _ratio(lowest: np.ndarray, again: np.ndarray, seeds: int) -> Interval:
    """Return the last size's loss at its optimum over the first's, with its interval; NaN where it means nothing."""
    if not (np.isfinite(lowest).all() and (lowest > 0).all()):
        return nan, nan, nan
    kept = again[(np.isfinite(again) & (again > 0)).all(1)]
    logs = np.log(kept[:, -1] / kept[:, 0])
    low, high = np.exp(_interval(np.log(lowest[-1] / lowest[0]), logs, 2 * (seeds - 1)))
    return float(lowest[-1] / lowest[0]), float(low), float(high)


def _interval(value: Any, resampled: np.ndarray, degrees: int) -> np.ndarray:
    """Return the ends of a bootstrap interval, widened as Student's t is for few seeds."""
    level = 0.5 + CONFIDENCE / 2
    widening = stats.t.ppf(level, degrees) / stats.norm.ppf(level)
    return value + widening * (np.quantile(resampled, [1 - level, level], axis=0) - value)


def _verdict(drift: Interval, ratio: Interval, curves: tuple[Curve, ...], margin: float) -> tuple[str, str]:
    _, low, high = drift
    dead = next((curve for curve in curves if not curve.trained), None)
    if dead is not None:
        return UNDECIDED, f"at {in_words(dead.size)} {dead.untrained}; give smaller learning rates"
    reach = curves[0].log2_lrs[-1] - curves[0].log2_lrs[0]
    around = f"{100 * CONFIDENCE:g} % interval {interval(low, high, -reach, reach)}"
    words = f"the best learning rate moves by {moved(*drift)} ({around})"
    edge = next((curve for curve in curves if curve.at_edge), None)
    if edge is not None:
        side = "smaller" if edge.best_log2_lr == edge.log2_lrs[0] else "larger"
        place = f"at {in_words(edge.size)} the smallest loss lies at the edge of the grid: widen it"
        known = f"{words}, but" if moved(*drift) else "how far the best learning rate moves is not known, as"
        return UNDECIDED, f"{known} {place} with {side} learning rates"
    after = "" if np.isnan(ratio[0]) else f"; loss at the optimum x {ratio[0]:.3g} [{ratio[1]:.3g}, {ratio[2]:.3g}]"
    if ratio[1] > 1:
        after += ": the largest model is worse than the base"
    if -margin <= low and high <= margin:
        return TRANSFERS, f"{words}, within {margin:g}{after}"
    if low > margin or high < -margin:
        return DRIFTS, f"{words}, beyond {margin:g}{after}"
    beside = next((curve for curve in (curves[0], curves[-1]) if curve.beside_divergence), None)
    if beside is not None:
        place = f"at {in_words(beside.size)} a learning rate next to the best diverges, and the best is known to one"
        finer = f"give finer learning rates around 2^{beside.best_log2_lr:+.2f}"
        return (
            UNDECIDED,
            f"{words}: {place} spacing of the grid only; {finer} to tell whether that is within {margin:g}",
        )
    return UNDECIDED, f"{words}: more seeds or a finer grid would tell whether that is within {margin:g}{after}"
