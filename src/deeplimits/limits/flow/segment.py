"""A block repeated to infinite depth: which limit it has, and its steps."""

from __future__ import annotations

import warnings
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np

from deeplimits.architecture.compose import Residual, Serial, written_out
from deeplimits.architecture.layer import WIDTH, Layer, as_float
from deeplimits.architecture.question import Question
from deeplimits.architecture.scale import is_sequence
from deeplimits.errors import AccuracyWarning, DescriptionError
from deeplimits.limits.flow import fixed_point, rate
from deeplimits.limits.flow.note import Note, probe_pairs
from deeplimits.limits.flow.profile import Profile, profile
from deeplimits.limits.flow.runge_kutta import Increment, euler, flow
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.lowering import Lowering

TOLERANCE = 1e-11
SHORT, ACCURATE = 0.25, 1e-5
_STEPS = (8, 16, 32, 64)


def infinite(block: Layer, state: Lowering) -> None:
    """Write the limit of a block repeated to infinite depth, and note which one it is."""
    parts = written_out(block).layers  # type: ignore[attr-defined]
    if parts and all(isinstance(part, Residual) for part in parts):
        _residual(parts, block, state)
        return
    if _depends_on_depth(Serial(layers=parts)):
        why = "a branch scale depends on DEPTH, but the repeated block is not a chain of Residual layers"
        raise DescriptionError("kernel(depth=inf)", why, "ask at a finite depth, or write the block as Residual(...)")
    fixed_point.write(block, state)


def _depends_on_depth(layer: Layer) -> bool:
    return is_sequence(getattr(layer, "scale", None)) or any(_depends_on_depth(child) for _, child in layer.children())


def _residual(parts: tuple[Any, ...], block: Layer, state: Lowering) -> None:
    profiles = [profile(part.scale) for part in parts]
    kinds = {p.kind for p in profiles} - {"trivial"}
    if not kinds:
        text = f"depth infinity leaves the blocks out: {profiles[0].why}"
        state.limits.append(Note("trivial", True, True, text))
        return
    if "explodes" in kinds:
        worst = next(p for p in profiles if p.kind == "explodes")
        state.limits.append(Note("explodes", False, False, rate.explosion(block, state, worst)))
        return
    if len(kinds) > 1:
        why = "the block mixes branches with a flow limit and branches with a discrete one"
        raise DescriptionError("kernel(depth=inf)", why, "give all branches of a block the same kind of scale")
    active = [(part, p) for part, p in zip(parts, profiles, strict=True) if p.kind != "trivial"]
    if kinds == {"flow"}:
        increments = [(part.branch, p.time) for part, p in active]
        steps, error = _choose_steps(state, increments)
        time = sum(as_float(p.time) for _, p in active)
        if not np.isfinite(error):
            why = f"no limit at infinite depth: the flow leaves the range of numbers before layer time {time:.6g}"
            state.limits.append(Note("explodes", False, False, f"{why}; use an activation that grows no faster than x"))
            return
        text = f"the flow at layer time {time:.6g}: {active[0][1].why}"
        flow(state, increments, steps)
        solved = f"; solved with {steps} Runge-Kutta steps of order 8, estimated relative error {error:.0e}"
        state.limits.append(Note("flow", True, True, text + solved))
        return
    _discrete(active, state)


def _discrete(active: list[tuple[Any, Profile]], state: Lowering) -> None:
    depth = len(active[0][1].first)
    for place in range(depth):
        for part, p in active:
            euler(state, [(part.branch, p.first[place])])
    single = [(part.branch, p.tail_squares**0.5) for part, p in active]
    rest = [(part.branch, p.tail - one) for (part, p), (_, one) in zip(active, single, strict=True)]
    euler(state, single)
    tail = sum(as_float(p.tail) for _, p in active)
    steps, error = (2, 0.0) if tail <= SHORT else _choose_steps(state, rest)
    flow(state, rest, steps)
    error = max(error, sum(as_float(one) ** 3 for _, one in single) / 24)
    text = (
        f"{active[0][1].why}; its first {depth} layers are taken one by one, the rest (sum alpha^2 = {tail:.3g}) as "
        f"one step and a flow that match it to second order, estimated relative error {error:.0e}"
    )
    if error > ACCURATE:
        warnings.warn(f"kernel(depth=inf): {text}; ask at a finite depth to be exact", AccuracyWarning, stacklevel=2)
    state.limits.append(Note("discrete", True, True, text))


def _choose_steps(state: Lowering, increments: list[Increment]) -> tuple[int, float]:
    """Double the number of steps until probe pairs settle; return the last but one, with what doubling it changed."""
    plain = tuple((_without_tensors(branch), as_float(time)) for branch, time in increments)
    probe = tuple(float(q) for q in state.probe)
    begin = near.run(state.tape(), probe_pairs(np.array(probe)))
    start = tuple(tuple(getattr(begin, field.name).tolist()) for field in fields(begin))
    try:
        return _settled_steps(plain, state.gaussian, probe, start, Question.edition)
    except TypeError:  # something in a branch has no hash
        return _settled_steps.__wrapped__(plain, state.gaussian, probe, start, Question.edition)


def _without_tensors(layer: Layer) -> Layer:
    return layer.replace({path: as_float(value) for path, value in layer.hyperparameters().items()})


@lru_cache(maxsize=64)
def _settled_steps(
    increments: tuple[Increment, ...],
    gaussian: bool,
    probe: tuple[float, ...],
    start: tuple[tuple[float, ...], ...],
    edition: int,
) -> tuple[int, float]:
    begin = near.Pairs(*(np.array(values) for values in start))
    last, error = None, np.inf
    for steps in _STEPS:
        trial = Lowering(np.inf, WIDTH, gaussian=gaussian, probe=probe)
        flow(trial, list(increments), steps)
        end = near.run(trial.tape(), begin)
        values = np.stack([end.k / np.sqrt(end.q1 * end.q2), end.theta / np.abs(end.theta).max()])
        if last is not None:
            error = float(np.abs(values - last).max())
            if error <= TOLERANCE:
                return steps // 2, error
        last = values
    return _STEPS[-1], error
