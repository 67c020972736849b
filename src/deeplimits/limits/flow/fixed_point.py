"""A block without skips, repeated to infinite depth: the fixed point of a map, and its phase."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

import numpy as np

from deeplimits.architecture.layer import Layer
from deeplimits.limits.flow.note import Note, probe_pairs
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.diagonal import run as run_diagonal
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.near import Pairs
from deeplimits.limits.kernel.tape import Collapse, Tape

MOST_LAYERS = 4096
FAR = 1e15
CRITICAL_LAYERS = 1024
SETTLED = 1e-14
CRITICAL = 1e-4
ABRUPT = 1e3
_ANGLES = np.array([0.0, 1e-5, 0.1, 1.0, 2.0])


@dataclass(frozen=True)
class Orbit:
    """What iterating the block did to the probes.

    Attributes:
        layers: iterations until the probes settled, or the most tried.
        settled: whether the covariances of distinct inputs settled.
        q: median diagonal after each iteration, shape (layers + 1,).
        closing: median over distinct probes of -log of the last ratios of 1 - c, at the last two iterations.
        multiplier: dK'/dK at identical inputs, infinite for a step, at the last iteration.
        ntk_multiplier: likewise of the NTK, which counts the derivative of a step as zero.
        correlation: correlation of distinct probes after the last iteration.
        ntk: NTK of identical and of distinct inputs, per layer.
    """

    layers: int
    settled: bool
    q: np.ndarray
    closing: tuple[float, float]
    multiplier: float
    ntk_multiplier: float
    correlation: float
    ntk: tuple[float, float]


def write(block: Layer, state: Lowering) -> None:
    """Write the limit of the iterated block, and note its phase.

    Source: poole-2016; schoenholz-2017 (phases); jacot-2018-ntk.
    """
    orbit = iterate(block, state)
    note = _note(orbit)
    state.limits.append(note)
    if not note.nngp:
        kernel(block, state)
        return
    for _ in range(orbit.layers if note.kind != "critical" else min(orbit.layers, 64)):
        kernel(block, state)
    if note.kind in ("ordered", "critical"):
        state.add(Collapse(state.register))


def iterate(block: Layer, state: Lowering) -> Orbit:
    """Iterate the block on probe pairs until they settle."""
    pairs = near.run(state.tape(), probe_pairs(np.asarray(state.probe, dtype=float), _ANGLES))
    step = state.fork()
    kernel(block, step)
    tape = step.tape()
    equal, same, apart = pairs.q1 == pairs.q2, pairs.gap == 0, _distance(pairs) > 1e-3
    q, gaps, settled, layers = [float(np.median(pairs.q1))], [_distance(pairs)], False, 0
    for layers in range(1, MOST_LAYERS + 1):
        previous, pairs = pairs, near.run(tape, pairs)
        q.append(float(np.median(pairs.q1)))
        gaps = [*gaps[-2:], _distance(pairs)]
        if not np.isfinite(pairs.theta).all() or _left(pairs.q1, q[0] if layers > 32 else None):
            break
        if _settled(pairs, previous):
            settled = True
            break
        if layers == CRITICAL_LAYERS:
            critical = np.abs(_multipliers(tape, pairs.q1)[0] - 1).max() <= CRITICAL
            if critical or abs(_rate(q, layers)) < 0.75 * abs(_rate(q, layers // 2)):
                break
    with np.errstate(divide="ignore", invalid="ignore"):
        closing = [float(np.median(np.log(gaps[i] / gaps[i + 1])[equal & apart])) for i in range(len(gaps) - 1)]
    ntk, ntk_apart = (float(np.median(pairs.theta[which])) / layers for which in (equal & same, equal & apart))
    chi, chi_ntk = (float(np.median(value)) for value in _multipliers(tape, previous.q1))
    correlation = float(np.median(1 - _distance(pairs)[apart]))
    return Orbit(layers, settled, np.array(q), (closing[-1], closing[0]), chi, chi_ntk, correlation, (ntk, ntk_apart))


def _rate(q: list[float] | np.ndarray, layer: int) -> float:
    """Return log of the ratio of the diagonals after and before a layer."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(np.log(np.float64(q[layer]) / np.float64(q[layer - 1])))


def _left(q: np.ndarray, start: float | None) -> bool:
    """Say whether diagonals left the range of numbers, or went so far from their start that their rate is known."""
    far = start is not None and (q.max() > FAR * start or q.min() < start / FAR)
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


def _settled(new: Pairs, old: Pairs) -> bool:
    s = np.sqrt(new.q1 * new.q2)
    moved = np.maximum(np.abs(new.k - old.k), np.abs(new.q1 - old.q1)) / s
    gap = np.abs(new.gap - old.gap) / s
    return bool(moved.max() <= SETTLED and gap.max() <= SETTLED * 1e-3 + 1e-17)


def _note(orbit: Orbit) -> Note:
    chi, q = orbit.multiplier, float(orbit.q[-1])
    rate = _rate(orbit.q, orbit.layers)
    if abs(rate) > 1e-6 and not orbit.settled:
        return _unbounded(orbit, rate)
    if abs(chi - 1) <= CRITICAL:
        return _isometric(orbit) if orbit.settled else _critical(orbit)
    if chi < 1:
        text = (
            f"ordered phase (chi = {chi:.6g} < 1): every pair of inputs tends to the same value q* = {q:.6g}, "
            f"at rate exp({log(chi):.4g} L); the NTK tends to the same value for all pairs"
        )
        return Note("ordered", True, True, text)
    return _chaotic(orbit)


def _unbounded(orbit: Orbit, rate: float) -> Note:
    kind, verb = ("explodes", "grows") if rate > 0 else ("collapses", "falls")
    half = orbit.layers // 2
    earlier = _rate(orbit.q, half + 1)
    if abs(rate) < 0.75 * abs(earlier):
        quarter, middle, end = orbit.q[half // 2], orbit.q[half], orbit.q[-1]
        power = log((end - middle) / (middle - quarter), 2) if rate > 0 else log(end / middle, 2)
        speed = f"{verb} like L^{power:.3g}"
    elif abs(rate) > 1.5 * abs(earlier):
        speed = f"{kind} faster than any exp(c L), by a factor exp({rate:.3g}) at layer {orbit.layers}"
    else:
        speed = f"{'explodes' if rate > 0 else 'collapses to zero'} like exp({rate:.4g} L)"
    mend = "choose weight_std and bias_std on the edge of chaos, or use residual branches scaled by DEPTH**-0.5"
    return Note(kind, False, False, f"no limit at infinite depth: the kernel {speed}; {mend}")


def _isometric(orbit: Orbit) -> Note:
    text = (
        f"isometric (chi = {orbit.multiplier:.6g}): covariances are kept, NNGP tends to q = {orbit.q[-1]:.6g} on the "
        "diagonal and keeps the angles; the NTK grows like L: NTK/L tends to the NNGP kernel; there is no NTK at "
        "infinite depth: divide by L, ask at a finite depth"
    )
    return Note("isometric", True, False, text)


def _critical(orbit: Orbit) -> Note:
    """Angles close like 1 - c ~ L^-p (p = 1: smooth, 2: a kink), and NTK(x, x')/NTK(x, x) tends to 1/(p + 2)."""
    now, before = orbit.closing
    power = max(1, round(1 / (1 / now - 1 / before)))
    same, other = orbit.ntk
    text = (
        f"critical (chi = {orbit.multiplier:.6g}): all angles close algebraically, 1 - c ~ L^-{power}, NNGP tends to "
        f"sqrt(q q') (q = {orbit.q[-1]:.6g}); the NTK grows like L: NTK/L is finite, {same:.4g} on the diagonal and "
        f"1/{power + 2} of it off the diagonal ({other / same:.3f} at L = {orbit.layers}); there is no NTK at infinite "
        "depth: divide by L, ask at a finite depth"
    )
    return Note("critical", True, False, text)


def _chaotic(orbit: Orbit) -> Note:
    chi, abrupt = orbit.multiplier, orbit.multiplier > ABRUPT
    text = (
        f"chaotic phase (chi = {inf if abrupt else chi:.6g} > 1): NNGP tends to q* = {orbit.q[-1]:.6g}, correlation "
        f"c* = {orbit.correlation:.6g} between distinct inputs; "
    )
    if orbit.ntk_multiplier < 1:
        return Note("chaotic", True, True, text + "the NTK, which counts the derivative of a step as zero, has a limit")
    text += f"the NTK has no limit: its diagonal explodes like exp({log(chi):.4g} L), a factor {chi:.4g} a layer"
    return Note("chaotic", True, False, text)
