"""Steps of a Runge-Kutta method written on a tape with the same block increments as finite depth."""

from __future__ import annotations

from typing import Any

from deeplimits.architecture.layer import Layer
from deeplimits.limits.kernel.compose import check_branch, note_approximation
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Add, Copy
from deeplimits.numerics.ode import dormand_prince_8, graded_steps

Increment = tuple[Layer, Any]


def flow(state: Lowering, increments: list[Increment], steps: int) -> None:
    """Write d(K, Theta)/dt = sum over (branch, time) of time * branch(K, Theta), for t in [0, 1].

    Args:
        state: the tape being written.
        increments: branches, each with the layer time it lasts.
        steps: number of Runge-Kutta steps; graded towards t = 0.
    """
    tableau = dormand_prince_8()
    for length in graded_steps(steps):
        stages: list[list[int]] = []
        for row in tableau.stages:
            stages.append([_stage(state, branch, increments, stages, row * length) for branch, _ in increments])
        _combine(state, state.register, increments, stages, tableau.weights * length)
        for registers in stages:
            state.release(registers)


def euler(state: Lowering, increments: list[Increment]) -> None:
    """Write one step: K <- K + sum of time * branch(K), Theta likewise."""
    registers = [_stage(state, branch, increments, [], (), finite=True) for branch, _ in increments]
    _combine(state, state.register, increments, [registers], (1.0,))
    state.release(registers)


def _stage(
    state: Lowering, branch: Layer, increments: list[Increment], stages: list[list[int]], row: Any, finite: bool = False
) -> int:
    start = state.register
    with state.branch() as fresh:
        state.add(Copy(fresh, start))
        _combine(state, fresh, increments, stages, row)
        kernel(branch, state)
        check_branch(state, "Residual")
        if finite:
            note_approximation(state)
    return fresh


def _combine(state: Lowering, target: int, increments: list[Increment], stages: list[list[int]], row: Any) -> None:
    terms = [(float(w), registers) for w, registers in zip(row, stages, strict=False) if w != 0]
    for weight, registers in sorted(terms, key=lambda term: -term[0]):
        for source, (_, time) in zip(registers, increments, strict=True):
            state.add(Add(target, source, weight * time))
