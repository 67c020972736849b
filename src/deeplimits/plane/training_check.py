"""Trained networks beside their limit: the distances, and the verdict over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from deeplimits.errors import InputError
from deeplimits.plane.training_record import Gap, Outputs, TrainingPlace, TrainingVerdict

Array = NDArray[np.float64]
MARGIN = 0.1
ERRORS = 3.0
EXPLODED = 1e6
TEST = (
    "at the largest width of every depth, the mean and the standard deviation over networks of all outputs at all "
    f"steps lie at a distance (root mean square, over that of the labels) -+ {ERRORS:g} times what sampling alone "
    f"gives, and the share of networks that diverged; all intervals below {MARGIN:g} agree; the furthest above it "
    "differs, unless it surely falls with the width; else undecided"
)


@dataclass(frozen=True)
class Limit:
    """A limit's outputs, each (times, outputs): mean and standard deviation with errors; its mean loss, (times,)."""

    mean: Array
    mean_error: Array
    spread: Array
    spread_error: Array
    loss: Array
    text: str


def place(width: int, depth: int, outputs: Array, labels: Array, limit: Limit) -> TrainingPlace:
    """Return how trained networks stand to the limit.

    Args:
        width: of the networks.
        depth: of the networks.
        outputs: (networks, times, outputs).
        labels: of the first outputs, those of the training inputs.
        limit: what is predicted.
    """
    networks, scale = len(outputs), sqrt(float(np.mean(labels**2)))
    outputs = outputs[~_diverged(outputs, labels)]
    count = len(outputs)
    if count < 2:
        why = f"{networks - count} of {networks} networks diverge at width {width}, depth {depth}"
        raise InputError("compare", why, "take a smaller rate, larger widths or more networks")
    mean, spread = outputs.mean(axis=0), outputs.std(axis=0, ddof=1)
    centred = outputs - mean
    mean_error = spread / sqrt(count)
    fourth = np.maximum((centred**4).mean(axis=0) - spread**4, 0.0)
    spread_error = np.sqrt(fourth / count) / np.where(spread > 0, 2 * spread, np.inf)
    losses = 0.5 * ((outputs[:, :, : len(labels)] - labels) ** 2).sum(axis=2)
    squares = ((outputs - limit.mean) ** 2).mean(axis=(1, 2)) / scale**2
    deviation = sqrt(squares.mean())
    gaps = [
        _gap("mean", mean - limit.mean, np.hypot(mean_error, limit.mean_error), scale),
        _gap("standard deviation", spread - limit.spread, np.hypot(spread_error, limit.spread_error), scale),
    ]
    return TrainingPlace(
        width=width,
        depth=depth,
        networks=networks,
        diverged=networks - count,
        measured=Outputs(*[one.tolist() for one in (mean, mean_error, spread, spread_error)]),
        predicted=Outputs(*[one.tolist() for one in (limit.mean, limit.mean_error, limit.spread, limit.spread_error)]),
        loss=losses.mean(axis=0).tolist(),
        loss_error=(losses.std(axis=0, ddof=1) / sqrt(count)).tolist(),
        predicted_loss=limit.loss.tolist(),
        gaps=gaps,
        deviation=deviation,
        deviation_error=float(squares.std(ddof=1)) / sqrt(count) / max(2 * deviation, 1e-300),
    )


def _diverged(outputs: Array, labels: Array) -> NDArray[np.bool_]:
    """Say of which networks the loss ever exceeds a million times that of zero outputs, or of the start."""
    with np.errstate(over="ignore", invalid="ignore"):
        losses = ((outputs[:, :, : len(labels)] - labels) ** 2).sum(axis=2)
        most = EXPLODED * np.maximum(losses[:, 0], float(labels @ labels))
        return ~np.isfinite(outputs).all(axis=(1, 2)) | ~(losses <= most[:, None]).all(axis=1)


def _gap(name: str, difference: Array, error: Array, scale: float) -> Gap:
    return Gap(name, sqrt(float(np.mean(difference**2))) / scale, sqrt(float(np.mean(error**2))) / scale)


def half_width(at: TrainingPlace, gap: Gap) -> float:
    """Return how far a distance is known: what sampling gives, and the share of networks that diverged."""
    return ERRORS * gap.noise + at.diverged / at.networks


def verdict(rows: list[list[TrainingPlace]]) -> TrainingVerdict:
    """Return the verdict over the last place of every row, a depth with rising widths."""
    furthest = [(row, gap) for row in rows for gap in row[-1].gaps]
    row, gap = max(furthest, key=lambda at: at[1].distance + half_width(at[0][-1], at[1]))
    at = row[-1]
    half = half_width(at, gap)
    seen = f"the furthest, the {gap.statistic} at width {at.width}, depth {at.depth}, is {gap.distance:.3f} away"
    bound = gap.distance + half
    if bound <= MARGIN:
        return TrainingVerdict("agrees", f"{seen}, at most {bound:.3f}: below {MARGIN:g}", TEST, MARGIN)
    if gap.distance - half > MARGIN:
        first = next(one for one in row[0].gaps if one.statistic == gap.statistic)
        if first.distance - half_width(row[0], first) > bound:
            return TrainingVerdict(
                "undecided",
                f"{seen}, from {first.distance:.3f} at width {row[0].width}: take larger widths",
                TEST,
                MARGIN,
            )
        return TrainingVerdict("differs", f"{seen}, at least {gap.distance - half:.3f}: above {MARGIN:g}", TEST, MARGIN)
    needed = int(np.ceil(at.networks * (2 * ERRORS * gap.noise / MARGIN) ** 2))
    fix = f"take {needed} networks" if needed > at.networks else "take larger widths"
    return TrainingVerdict("undecided", f"{seen}, at most {bound:.3f}: {fix}", TEST, MARGIN)
