"""The mean-field march of residual networks with branches scaled 1/sqrt(depth), at finite and infinite depth."""

from __future__ import annotations

from dataclasses import fields
from math import inf

from deeplimits.limits.training.mean_field.record import Course
from deeplimits.limits.training.mean_field.residual_blocks import blocks, refuse
from deeplimits.limits.training.mean_field.residual_course import Rows
from deeplimits.limits.training.mean_field.residual_exact import Exact
from deeplimits.limits.training.mean_field.residual_march import March
from deeplimits.limits.training.mean_field.task import Report, Task

DEPTHS = {"stein": (8, 16, 32), "exact": (16, 32, 64)}
"""Depths, each twice the one before, that infinite depth is extrapolated from."""


def solvers(task: Task) -> tuple[str, ...]:
    """Return the solvers that can answer, the default first.

    Raises:
        DescriptionError: an option of the network that is not covered, by name.
        NoLimit: branch scales without a limit at infinite depth.
    """
    refuse(task)
    return ("exact", "stein") if blocks(task.net, 1).linear else ("stein",)  # type: ignore[arg-type]


def needed(task: Task) -> int:
    """Return the bytes that a march needs, its course and their mean and standard error included."""
    layers = DEPTHS[task.solver][-1] if task.depth == inf else int(task.depth)
    T, (P, C) = task.steps + 1, task.y.shape
    n, q = T * P, T * P * C
    total = 3 * Rows.needed(layers, T, P, C)
    if task.solver == "exact":
        return total + 8 * layers * (4 * n * n + 3 * q * q + 6 * n * q)
    return total + 8 * layers * (n * n + q * q + 2 * task.particles * (n + q))


def march(task: Task, number: int, report: Report) -> Course:
    """Return one march; at infinite depth the one that those at `DEPTHS`, with the same noise, tend to as 1/depth.

    The layers of a course at infinite depth are equidistant layer times from 0 to 1, and its responses are those per
    unit of layer time, sqrt(L) C^l and sqrt(L) D^l.

    Raises:
        Diverged: the outputs explode.
    """
    if task.depth != inf:
        return _finite(task, number, int(task.depth), int(task.depth), report)
    *coarse, fine = depths = DEPTHS[task.solver]
    courses = [_finite(task, number, layers, fine, lambda t: None) for layers in coarse]
    courses.append(_finite(task, number, fine, fine, report))
    return _extrapolated(courses, depths)


def _finite(task: Task, number: int, layers: int, finest: int, report: Report) -> Course:
    if task.solver == "exact":
        return Exact(task, layers).run(report)
    return March(task, number, layers, finest).run(report)


def _extrapolated(courses: list[Course], depths: tuple[int, ...]) -> Course:
    """Return the course to which three depths tend, 2 f_{2L} - f_L, beside the outputs that the first two give."""
    found = {"coarser_outputs": 2 * courses[1].outputs - courses[0].outputs}
    for field in fields(Course):
        if field.name in found:
            continue
        middle, fine = (getattr(course, field.name) for course in courses[1:])
        if field.name in ("features", "gradients"):
            fine = fine[::2]
        elif field.name.endswith("responses"):
            middle, fine = depths[1] ** 0.5 * middle, depths[2] ** 0.5 * fine[::2]
        found[field.name] = 2 * fine - middle
    return Course(**found)
