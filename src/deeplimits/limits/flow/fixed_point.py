"""A block without skips, repeated to infinite depth: the limit that is written, and its phase in words."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, isfinite, log

from deeplimits.architecture.layer import Layer
from deeplimits.limits.flow.note import Note
from deeplimits.limits.flow.orbit import CRITICAL, MOST_LAYERS, Orbit, iterate
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Affine, Collapse
from deeplimits.numerics.arrays import is_tensor

ABRUPT = 1e3
ROUNDING = 1e-9
_UNSEEN = 1e-16


def write(block: Layer, state: Lowering) -> None:
    """Write the limit of the iterated block, and note its phase.

    Where all inputs share one fixed point, the limit of ordered and critical blocks is that constant, whatever the
    input; blocks follow it only to carry gradients of hyperparameters.

    Source: poole-2016; schoenholz-2017 (phases); jacot-2018-ntk.
    """
    orbit = iterate(block, state)
    note = _note(orbit)
    closes = note.kind in ("ordered", "critical")
    layers, short = _layers(orbit, note, any(is_tensor(value) for value in block.hyperparameters().values()))
    if short and note.nngp:
        note = replace(note, caution=_caution(orbit, note))
    state.limits.append(note)
    if note.nngp and closes and orbit.common:
        kernel(block, state)
        theta = orbit.ntk_fixed if note.ntk else 0.0
        state.add(Affine(state.register, 0.0, orbit.q_fixed, 0.0, theta))
        layers -= 1
    for _ in range(layers):
        kernel(block, state)
    if note.nngp and closes:
        state.add(Collapse(state.register))


def _layers(orbit: Orbit, note: Note, gradients: bool) -> tuple[int, bool]:
    """Return how many blocks to write, and whether more would be needed for values or gradients to settle."""
    if not note.nngp or note.kind == "isometric":
        return 1, False
    if note.kind == "chaotic":
        return orbit.layers, orbit.moved > 0
    if orbit.common and not gradients:
        return 1, False
    slowest = max(abs(orbit.variance_multiplier), orbit.multiplier if note.ntk else 0.0)
    if slowest >= 1 - 1e-12:  # every variance is a fixed point
        return 1, False
    needed = ceil(log(_UNSEEN) / log(slowest)) if slowest > 0 else 1
    return min(max(needed, 2), MOST_LAYERS), needed > MOST_LAYERS


def _caution(orbit: Orbit, note: Note) -> str:
    if note.kind == "chaotic":
        what = f"nearly coincident inputs still move by {orbit.moved:.1e} of the diagonal a layer"
    else:
        what = f"gradients of hyperparameters still change by a factor {orbit.multiplier:.6g} a layer"
    return f"kernel: after {MOST_LAYERS} layers {what}: this close to the edge of chaos the limit is not reached"


def _note(orbit: Orbit) -> Note:
    chi = orbit.multiplier
    if bool((orbit.fixed != orbit.fixed).any()):
        return _unbounded(orbit)
    if abs(chi - 1) <= CRITICAL:
        return _critical(orbit) if orbit.moved else _isometric(orbit)
    if chi < 1:
        text = (
            f"ordered phase (chi = {chi:.6g} < 1): every pair of inputs tends to the same value q* = "
            f"{orbit.q_fixed:.6g}, at rate exp({log(chi):.4g} L); the NTK tends to the same value for all pairs"
        )
        return Note("ordered", True, True, text)
    return _chaotic(orbit)


def _unbounded(orbit: Orbit) -> Note:
    """Growth or decay, told from the ratio of successive increments: constant, falling to 1 like 1/L, or neither."""
    grows = bool(orbit.q[-1] > orbit.q[-2])
    kind, verb = ("explodes", "grows") if grows else ("collapses", "falls")
    half = orbit.layers // 2
    rate, earlier = orbit.rate(orbit.layers), orbit.rate(half + 1)
    if not isfinite(rate) or abs(rate) > 1.5 * abs(earlier) > ROUNDING:
        speed = f"{kind} faster than any exp(c L), by a factor {orbit.q[-1] / orbit.q[-2]:.3g} at layer {orbit.layers}"
    elif abs(rate) < max(0.75 * abs(earlier), ROUNDING):
        power = 1 + ((orbit.layers - half - 1) / (1 / rate - 1 / earlier) if rate and earlier else 0)
        speed = f"{verb} like L^{power:.3g}"
    else:
        speed = f"{'explodes' if grows else 'collapses to zero'} like exp({rate:.4g} L)"
    mend = "choose weight_std and bias_std on the edge of chaos, or use residual branches scaled by DEPTH**-0.5"
    return Note(kind, False, False, f"no limit at infinite depth: the kernel {speed}; {mend}")


def _isometric(orbit: Orbit) -> Note:
    text = (
        f"isometric (chi = {orbit.multiplier:.6g}): covariances are kept, NNGP tends to q = {orbit.q_fixed:.6g} on the "
        "diagonal and keeps the angles; the NTK grows like L: NTK/L tends to the NNGP kernel; there is no NTK at "
        "infinite depth: divide by L, ask at a finite depth"
    )
    return Note("isometric", True, False, text)


def _critical(orbit: Orbit) -> Note:
    """Angles close like 1 - c ~ L^-p (p = 1: smooth, 2: a kink), and NTK(x, x')/NTK(x, x) tends to 1/(p + 2)."""
    now, before = orbit.closing, orbit.closing_before
    power = max(1, round(1 / (1 / now - 1 / before)))
    same, other = orbit.ntk, orbit.ntk_apart
    text = (
        f"critical (chi = {orbit.multiplier:.6g}): all angles close algebraically, 1 - c ~ L^-{power}, NNGP tends to "
        f"sqrt(q q') (q = {orbit.q_fixed:.6g}); the NTK grows like L: NTK/L is finite, {same:.4g} on the diagonal and "
        f"1/{power + 2} of it off the diagonal ({other / same:.3f} at L = {orbit.layers}); there is no NTK at infinite "
        "depth: divide by L, ask at a finite depth"
    )
    return Note("critical", True, False, text)


def _chaotic(orbit: Orbit) -> Note:
    chi, abrupt = orbit.multiplier, orbit.multiplier > ABRUPT
    text = (
        f"chaotic phase (chi = {inf if abrupt else chi:.6g} > 1): NNGP tends to q* = {orbit.q_fixed:.6g}, correlation "
        f"c* = {orbit.correlation:.6g} between distinct inputs; "
    )
    if orbit.ntk_multiplier < 1:
        return Note("chaotic", True, True, text + "the NTK, which counts the derivative of a step as zero, has a limit")
    text += f"the NTK has no limit: its diagonal explodes like exp({log(chi):.4g} L), a factor {chi:.4g} a layer"
    return Note("chaotic", True, False, text)
