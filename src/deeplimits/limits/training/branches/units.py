"""The units of a mean along the depth: what they add to a state, how errors come back, and how they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from deeplimits.numerics.embedded import Array
from deeplimits.numerics.seeds import generator

STEP = 1e-2
"""Of the differences that second derivatives are taken by, of order 6."""


def initial(count: int, columns: int, seed: int, *names: str | int) -> Array:
    """Return standard normals of `count` units, (count, columns): a scrambled Sobol sequence.

    Source: owen-1998-scrambling.
    """
    engine = Sobol(columns, scramble=True, rng=generator(seed, "mean ODE", *names))
    return ndtri(np.clip(engine.random_base2((count - 1).bit_length())[:count], 2.0**-54, 1 - 2.0**-53))


@dataclass
class Look:
    """What units see of the states (P, r) of one node: phi, phi' and what else their kind keeps, (P, S)."""

    h: Array
    phi: Array
    slope: Array
    curve: Array | None = None


class Field(Protocol):
    """Units at every node: those that move (`Units`), and those that hardly do (`LazyUnits`)."""

    def add(self, node: int, h: Array) -> Array:
        """Return what is added to states (P, r) per unit of layer time."""
        ...

    def look(self, node: int, h: Array) -> Look:
        """Return what the units of a node see of training states."""
        ...

    def back(self, node: int, look: Look, p: Array) -> Array:
        """Return the transposed derivative of `add` in h times p, (P, C, r)."""
        ...

    def move(self, node: int, look: Look, push: Array, size: float) -> None:
        """Move the units of a node along the gradient of sum over inputs of push . v phi(u . h / sqrt(D))."""
        ...

    def gram(self, node: int, look: Look, p: Array) -> Array:
        """Return the mean over units of <grad(p . v phi), grad(p' . v phi)>, shape (P C, P C)."""
        ...

    def moved(self) -> float:
        """Return the root mean square distance of units from their start."""
        ...


@dataclass
class Units:
    """Units u (nodes, S, r) and v (nodes, S, r) that add scale E[v phi(u . h root)].

    Args:
        family: phi and its derivative.
        u0, v0: the units at the start, the same at every node, (S, r).
        nodes: along the depth.
        scale: alpha.
        root: 1 / sqrt(D).
        aside: what u . h root has beyond the r coordinates, of training and test inputs, (P + M, S).
    """

    family: Any
    u0: Array
    v0: Array
    nodes: int
    scale: float
    root: float
    aside: Array

    def __post_init__(self) -> None:
        self.u, self.v = (np.repeat(start[None], self.nodes, 0) for start in (self.u0, self.v0))

    def add(self, node: int, h: Array) -> Array:
        z = self.root * h @ self.u[node].T + self.aside[: len(h)]
        return self.scale / len(self.u0) * self.family.function(z) @ self.v[node]

    def look(self, node: int, h: Array) -> Look:
        z = self.root * h @ self.u[node].T
        return Look(h, self.family.function(z), self.family.derivative(z))

    def back(self, node: int, look: Look, p: Array) -> Array:
        through = (p @ self.v[node].T) * look.slope[:, None]
        return self.scale * self.root / len(self.u0) * through @ self.u[node]

    def move(self, node: int, look: Look, push: Array, size: float) -> None:
        u, v = _gradient(look, push, self.v[node], self.root)
        self.u[node] += size / self.scale * u
        self.v[node] += size / self.scale * v

    def gram(self, node: int, look: Look, p: Array) -> Array:
        return _gram(look, p, self.v[node], self.root)

    def moved(self) -> float:
        squares = ((self.u - self.u0) ** 2).sum(2) + ((self.v - self.v0) ** 2).sum(2)
        return float(np.sqrt(squares.mean()))


@dataclass
class LazyUnits(Units):
    """Units at infinite scale: u0 + du / scale and v0 + dv / scale, which add what is linear in (du, dv).

    E[dv phi(u0 . h root) + v0 phi'(u0 . h root) du . h root]; the units' gradients stay those at the start.
    """

    def __post_init__(self) -> None:
        self.u, self.v = (np.zeros((self.nodes, *start.shape)) for start in (self.u0, self.v0))

    def add(self, node: int, h: Array) -> Array:
        z = self.root * h @ self.u0.T + self.aside[: len(h)]
        turned = self.family.derivative(z) * (self.root * h @ self.u[node].T)
        return (self.family.function(z) @ self.v[node] + turned @ self.v0) / len(self.u0)

    def look(self, node: int, h: Array) -> Look:
        z = self.root * h @ self.u0.T
        steps = zip((45, -9, 1), (1, 2, 3), strict=True)
        rises = sum(w * (self.family.derivative(z + j * STEP) - self.family.derivative(z - j * STEP)) for w, j in steps)
        curve = rises / (60 * STEP) * (self.root * h @ self.u[node].T)
        return Look(h, self.family.function(z), self.family.derivative(z), curve)

    def back(self, node: int, look: Look, p: Array) -> Array:
        assert look.curve is not None
        start = p @ self.v0.T
        through = (p @ self.v[node].T) * look.slope[:, None] + start * look.curve[:, None]
        return self.root / len(self.u0) * (through @ self.u0 + (start * look.slope[:, None]) @ self.u[node])

    def move(self, node: int, look: Look, push: Array, size: float) -> None:
        u, v = _gradient(look, push, self.v0, self.root)
        self.u[node] += size * u
        self.v[node] += size * v

    def gram(self, node: int, look: Look, p: Array) -> Array:
        return _gram(look, p, self.v0, self.root)

    def moved(self) -> float:
        return 0.0


def _gradient(look: Look, push: Array, v: Array, root: float) -> tuple[Array, Array]:
    """Return the gradients in (u, v), (S, r) each, of sum over inputs of push . v phi(u . h root)."""
    return ((push @ v.T) * look.slope).T @ look.h * root, look.phi.T @ push


def _gram(look: Look, p: Array, v: Array, root: float) -> Array:
    P, C, _ = p.shape
    rows, states = p.reshape(P * C, -1), np.repeat(root * look.h, C, 0)
    inner = np.repeat(look.slope, C, 0) * (rows @ v.T)
    outer = np.repeat(np.repeat(look.phi @ look.phi.T, C, 0), C, 1)
    return (outer * (rows @ rows.T) + (inner @ inner.T) * (states @ states.T)) / len(v)
