"""A block without skips, repeated to infinite depth: the fixed point of a map, and its phase."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from deeplimits.architecture.layer import Layer
from deeplimits.limits.flow.note import Note, probe_pairs
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.diagonal import run as run_diagonal
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.near import Pairs
from deeplimits.limits.kernel.tape import Collapse

MOST_LAYERS = 4096
CRITICAL_LAYERS = 1024
SETTLED = 1e-14
CRITICAL = 1e-4


@dataclass(frozen=True)
class Orbit:
    """What iterating the block did to the probes.

    Attributes:
        layers: iterations until the probes settled, or the most tried.
        settled: whether the covariances of distinct inputs settled.
        q: diagonal after the last iteration, one entry a probe.
        q_rate: log of the last ratio of successive diagonals.
        multiplier: dK'/dK at identical inputs, at the last iteration.
        correlation: correlation of distinct probes after the last iteration.
        ntk: NTK of identical and of distinct inputs, per layer.
    """

    layers: int
    settled: bool
    q: np.ndarray
    q_rate: float
    multiplier: float
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
        return
    for _ in range(orbit.layers if note.kind != "critical" else min(orbit.layers, 64)):
        kernel(block, state)
    if note.kind in ("ordered", "critical"):
        state.add(Collapse(state.register))


def iterate(block: Layer, state: Lowering) -> Orbit:
    """Iterate the block on probe pairs until they settle."""
    pairs = near.run(state.tape(), probe_pairs(np.asarray(state.probe, dtype=float), np.array([0.0, 0.1, 1.0, 2.0])))
    step = state.fork()
    kernel(block, step)
    tape = step.tape()
    distinct = pairs.gap > 1e-12 * np.sqrt(pairs.q1 * pairs.q2)
    settled, layers = False, 0
    for layers in range(1, MOST_LAYERS + 1):
        previous, pairs = pairs, near.run(tape, pairs)
        if not np.isfinite(pairs.theta).all() or pairs.q1.max() > 1e150 or pairs.q1.min() < 1e-150:
            break
        if _settled(pairs, previous):
            settled = True
            break
        if layers == CRITICAL_LAYERS and np.abs(run_diagonal(tape, pairs.q1).gain - 1).max() <= CRITICAL:
            break
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = float(np.median(np.log(pairs.q1 / previous.q1)))
        correlation = float(np.median((pairs.k / np.sqrt(pairs.q1 * pairs.q2))[distinct]))
    same, other = float(np.median(pairs.theta[~distinct])), float(np.median(pairs.theta[distinct]))
    multiplier = float(np.median(run_diagonal(tape, previous.q1).gain))
    return Orbit(layers, settled, pairs.q1, rate, multiplier, correlation, (same / layers, other / layers))


def _settled(new: Pairs, old: Pairs) -> bool:
    s = np.sqrt(new.q1 * new.q2)
    moved = np.maximum(np.abs(new.k - old.k), np.abs(new.q1 - old.q1)) / s
    gap = np.abs(new.gap - old.gap) / s
    return bool(moved.max() <= SETTLED and gap.max() <= SETTLED * 1e-3 + 1e-17)


def _note(orbit: Orbit) -> Note:
    chi, q = orbit.multiplier, float(np.median(orbit.q))
    if abs(orbit.q_rate) > 1e-6 and (q > 1e100 or q < 1e-100 or not orbit.settled):
        direction = "explodes" if orbit.q_rate > 0 else "collapses to zero"
        kind = "explodes" if orbit.q_rate > 0 else "collapses"
        text = (
            f"no limit at infinite depth: the kernel {direction} like exp({orbit.q_rate:.4g} L); choose weight_std and "
        )
        return Note(
            kind, False, False, text + "bias_std on the edge of chaos, or use residual branches scaled by DEPTH**-0.5"
        )
    if abs(chi - 1) <= CRITICAL:
        same, other = orbit.ntk
        text = (
            f"critical (chi = {chi:.6g}): all angles close algebraically, NNGP tends to sqrt(q q') (q = {q:.6g}); "
            f"the NTK grows like L: NTK/L is finite, {same:.4g} on the diagonal and {other / same:.3f} of it off the "
            f"diagonal (at L = {orbit.layers}); there is no NTK at infinite depth: divide by L, ask at a finite depth"
        )
        return Note("critical", True, False, text)
    if chi < 1:
        text = (
            f"ordered phase (chi = {chi:.6g} < 1): every pair of inputs tends to the same value q* = {q:.6g}, "
            f"at rate exp({log(chi):.4g} L); the NTK tends to the same value for all pairs"
        )
        return Note("ordered", True, True, text)
    text = (
        f"chaotic phase (chi = {chi:.6g} > 1): NNGP tends to q* = {q:.6g}, correlation c* = {orbit.correlation:.6g} "
        f"between distinct inputs; the NTK has no limit: its diagonal explodes like exp({log(chi):.4g} L), "
        f"a factor {chi:.4g} a layer"
    )
    return Note("chaotic", True, False, text)
