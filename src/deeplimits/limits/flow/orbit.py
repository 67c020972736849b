"""What iterating a block without skips does to probe inputs: fixed points, multipliers, rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar

from deeplimits.architecture.layer import Layer
from deeplimits.limits.flow.note import probe_pairs
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.diagonal import run as run_diagonal
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.near import Pairs
from deeplimits.limits.kernel.tape import Tape

MOST_LAYERS = 4096
CRITICAL_LAYERS = 1024
CRITICAL = 1e-4
SETTLED = 1e-14
FAR = 1e15
_NOISE = 1e-12
_ANGLES = np.array([0.0, 1e-9, 1e-5, 0.1, 1.0, 2.0])


@dataclass(frozen=True)
class Orbit:
    """What iterating the block did to the probes.

    Attributes:
        layers: iterations until the probes settled, or the most tried.
        moved: largest change of a covariance in the last iteration, relative to the diagonal; 0 if settled.
        q: the diagonal after each iteration, shape (layers + 1,): that of a probe without a fixed point if there is
            one.
        fixed: fixed points of the diagonal that the probes tend to, shape (P,), NaN where there is none.
        multiplier: dK'/dK at identical inputs, infinite for a step, at the fixed points.
        ntk_multiplier: likewise of the NTK, which counts the derivative of a step as zero.
        variance_multiplier: dq'/dq at the fixed points, the largest.
        ntk_fixed: fixed point of the NTK of identical inputs, infinite where ntk_multiplier >= 1.
        closing, closing_before: median over distinct probes of -log of the last ratios of 1 - c, and the one before.
        correlation: correlation of distinct probes after the last iteration.
        ntk, ntk_apart: NTK of identical and of distinct inputs, per layer.
    """

    layers: int
    moved: float
    q: np.ndarray
    fixed: np.ndarray
    multiplier: float
    ntk_multiplier: float
    variance_multiplier: float
    ntk_fixed: float
    closing: float
    closing_before: float
    correlation: float
    ntk: float
    ntk_apart: float

    @property
    def common(self) -> bool:
        """Whether all probes tend to the same fixed point."""
        return bool(np.ptp(self.fixed) <= 1e-9 * self.fixed.max())

    @property
    def q_fixed(self) -> float:
        """The fixed point, the median where the probes differ."""
        return float(np.median(self.fixed))

    def rate(self, layer: int) -> float:
        """Return log of the ratio of the diagonal's increments into a layer and into the one before."""
        if layer < 2:
            return np.nan
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            last, new = np.abs(np.diff(self.q[layer - 2 : layer + 1]))
            return float(np.log(new / last))


def iterate(block: Layer, state: Lowering) -> Orbit:
    """Iterate the block on probe pairs until they settle, leave every bound, or go on too slowly to follow."""
    pairs = near.run(state.tape(), probe_pairs(np.asarray(state.probe, dtype=float), _ANGLES))
    step = state.fork()
    kernel(block, step)
    tape = step.tape()
    equal, same, apart = pairs.q1 == pairs.q2, pairs.gap == 0, _distance(pairs) > 1e-3
    q, gaps, moved, layers = [pairs.q1], [_distance(pairs)], 0.0, 0
    for layers in range(1, MOST_LAYERS + 1):
        previous, pairs = pairs, near.run(tape, pairs)
        q.append(pairs.q1)
        gaps = [*gaps[-2:], _distance(pairs)]
        if not np.isfinite(pairs.theta).all() or _left(pairs.q1, q[0] if layers > 32 else None):
            break
        moved = _moved(pairs, previous)
        if moved == 0 or (layers == CRITICAL_LAYERS and not _chaotic(tape, pairs.q1)):
            break
    with np.errstate(divide="ignore", invalid="ignore"):
        closing = [float(np.median(np.log(gaps[i] / gaps[i + 1])[equal & apart])) for i in range(len(gaps) - 1)]
    correlation = float(np.median(1 - gaps[-1][apart]))
    ntk, ntk_apart = (float(np.median(pairs.theta[which])) / layers for which in (equal & same, equal & apart))
    ends = (closing[-1], closing[0], correlation, ntk, ntk_apart)
    return Orbit(layers, moved, *_fixed(tape, np.array(q)), *ends)


def _fixed(tape: Tape, orbits: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float, float, float]:
    """Return the orbit of the diagonal that tells its fate, the fixed points, and the multipliers there."""
    probes = [int(np.argmax(orbits[0] == value)) for value in np.unique(orbits[0])]
    fixed = np.array([_fixed_point(tape, float(orbits[-1, probe])) for probe in probes])
    lost = np.isnan(fixed)
    typical = [probe for probe, gone in zip(probes, lost, strict=True) if gone or not lost.any()]
    orbit = orbits[:, typical[len(typical) // 2]]
    q = np.where(lost, orbits[-1, probes], fixed)
    chi, gain = _multipliers(tape, q)
    at = run_diagonal(tape, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.where(gain < 1, at.theta / (1 - gain), np.inf)
    slopes = [_slope(tape, float(value)) for value in q]
    return orbit, fixed, float(np.median(chi)), float(np.median(gain)), max(slopes), float(np.median(theta))


def _map(tape: Tape, q: float | np.ndarray) -> np.ndarray:
    return run_diagonal(tape, np.atleast_1d(np.float64(q))).k


def _fixed_point(tape: Tape, q: float) -> float:
    """Return the fixed point of the diagonal next to q in the direction the orbit moves, or NaN if there is none."""
    if not 0 < q < np.inf:
        return np.nan
    growth = float(_map(tape, q)[0]) / q - 1
    if abs(growth) <= SETTLED:
        return q
    ladder = q * 10.0 ** (np.sign(growth) * np.linspace(0, np.log10(FAR), 241))
    ladder = ladder[(ladder > 1e-150) & (ladder < 1e150)]
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = np.sign(growth) * (_map(tape, ladder) / ladder - 1) < -_NOISE
    if not beyond.any():
        return np.nan
    end = int(np.argmax(beyond))
    low, high = np.log(ladder[[end - 1, end]])
    x = root_scalar(lambda y: float(_map(tape, np.exp(y))[0]) / np.exp(y) - 1, bracket=(low, high), xtol=1e-15).root
    found = float(np.exp(x))
    return found if abs(_slope(tape, found)) < 1 else np.nan


def _slope(tape: Tape, q: float) -> float:
    """Return dq'/dq by a central difference."""
    step = 1e-5
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _map(tape, np.array([q * (1 - step), q * (1 + step)]))
        return float((high - low) / (2 * step * q))


def _left(q: np.ndarray, start: np.ndarray | None) -> bool:
    """Say whether diagonals left the range of numbers, or went so far from their start that their rate is known."""
    far = start is not None and ((q > FAR * start).any() or (q < start / FAR).any())
    return bool(far or q.max() > 1e150 or q.min() < 1e-150)


def _distance(pairs: Pairs) -> np.ndarray:
    """Return 1 - c."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return pairs.gap / (np.sqrt(pairs.q1) * np.sqrt(pairs.q2))


def _multipliers(tape: Tape, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return dK'/dK at identical inputs, from a pair at 1 - c = 1e-18, and what the NTK makes of it."""
    end = near.run(tape, Pairs(1e-18 * q, 2 * q, 0 * q, q, q))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return end.gap / (1e-18 * q), run_diagonal(tape, q).gain


def _chaotic(tape: Tape, q: np.ndarray) -> bool:
    return bool(_multipliers(tape, q)[0].min() > 1 + CRITICAL and (np.abs(_map(tape, q) / q - 1) <= _NOISE).all())


def _moved(new: Pairs, old: Pairs) -> float:
    """Return the largest change relative to the diagonal, or 0 if everything settled to rounding."""
    s = np.sqrt(new.q1 * new.q2)
    moved = float((np.maximum(np.abs(new.k - old.k), np.abs(new.q1 - old.q1)) / s).max())
    gap = float((np.abs(new.gap - old.gap) / s).max())
    return 0.0 if moved <= SETTLED and gap <= SETTLED * 1e-3 + 1e-17 else max(moved, gap)
