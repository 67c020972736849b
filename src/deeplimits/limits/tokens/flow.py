"""Equations of motion solved to a stated accuracy, over times that grow like e^(c beta)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import LSODA, OdeSolution

from deeplimits.limits.tokens.inputs import Array
from deeplimits.progress import Bar

MOST = 20_000


@dataclass(frozen=True)
class Path:
    """A solution: tokens at any time up to `end`, and the solver's steps."""

    position: Callable[[float], Array]
    nodes: Array
    end: float


def size_of(x: Array) -> float:
    """Return the root mean square norm of tokens, at least 1e-300.

    Example:
        >>> size_of(np.array([[3.0, 4.0]]))
        5.0
    """
    return max(float(np.sqrt(np.mean(np.sum(x**2, axis=1)))), 1e-300)


def solve(
    velocity: Callable[[Array], Array],
    start: Array,
    end: float,
    tolerance: float,
    jacobian: Callable[[Array], Array],
    sphere: bool = False,
) -> Path:
    """Return the path of x' = velocity(x) from `start`, shape (m, d), by LSODA.

    LSODA changes by itself between Adams' method and, where the equation is stiff, backward differentiation: tokens
    that wait e^(c beta) long near each other cost few steps. It stops after MOST steps, or where it does not advance.

    Args:
        velocity: of tokens, shape (m, d) to (m, d).
        start: tokens at time 0.
        end: the last time.
        tolerance: largest error of a step, relative to a token's typical size.
        jacobian: derivative of velocity, shape (m, d, m, d).
        sphere: whether to divide tokens by their norms.
    """
    shape, count = start.shape, start.size
    if end == 0:
        return Path(lambda t: start, np.zeros(1), 0.0)
    derivative: Any = lambda t, y: jacobian(y.reshape(shape)).reshape(count, count)
    with Bar(end, description="tokens") as bar:

        def move(t: float, y: Array) -> Array:
            bar.reach(t)
            return velocity(y.reshape(shape)).ravel()

        solver: Any = LSODA(
            move, 0.0, start.ravel(), end, rtol=tolerance, atol=tolerance * size_of(start), jac=derivative
        )
        nodes, pieces = [0.0], []
        while solver.status == "running" and len(pieces) < MOST:
            solver.step()
            if solver.status == "failed" or solver.t <= nodes[-1] or not np.isfinite(solver.y).all():
                break
            nodes.append(solver.t)
            pieces.append(solver.dense_output())
    if not pieces:
        return Path(lambda t: start, np.zeros(1), 0.0)
    curve = OdeSolution(nodes, pieces)

    def position(t: float) -> Array:
        x = curve(t).reshape(shape)
        return x / np.linalg.norm(x, axis=1, keepdims=True) if sphere else x

    return Path(position, np.array(nodes), nodes[-1])
