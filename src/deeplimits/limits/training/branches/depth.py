"""Along the depth: states up, errors down, at the nodes where units are kept."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from deeplimits.architecture.compose import MOST_BLOCKS
from deeplimits.errors import InputError
from deeplimits.limits.training.branches.units import Field, Look
from deeplimits.numerics.embedded import Array


class Scheme(Protocol):
    """How a depth is walked.

    Attributes:
        nodes: where units are kept.
        weights: of the nodes, which sum to 1: integrals along the depth.
    """

    nodes: int
    weights: Array

    def up(self, field: Field, h: Array) -> Array:
        """Return the states at all nodes and at the end, (nodes + 1, P, r)."""
        ...

    def down(self, field: Field, looks: list[Look], p: Array) -> Array:
        """Return what the units of every node see of the errors, (nodes, P, C, r), from those at the end."""
        ...


class Blocks:
    """A finite depth: h^{l+1} = h^l + add(h^l)/L, p^l = p^{l+1} + back(p^{l+1})/L; the units of block l see p^{l+1}.

    Source: chizat-2025-hidden-width.
    """

    def __init__(self, depth: int):
        if depth > MOST_BLOCKS:
            why = f"depth={depth:g}: every block is walked through, at most {MOST_BLOCKS:,}"
            raise InputError("mean_ode", why, "give a smaller depth, or depth=inf")
        self.nodes, self.weights = depth, np.full(depth, 1 / depth)

    def up(self, field: Field, h: Array) -> Array:
        states = [h]
        for node in range(self.nodes):
            states.append(states[-1] + field.add(node, states[-1]) / self.nodes)
        return np.stack(states)

    def down(self, field: Field, looks: list[Look], p: Array) -> Array:
        seen = []
        for node in reversed(range(self.nodes)):
            seen.append(p)
            p = p + field.back(node, looks[node], p) / self.nodes
        return np.stack(seen[::-1])


class RungeKutta:
    """Infinite depth: dh/ds = add(h), dp/ds = -back(p), by the classical method of order 4 in `cells` steps.

    Units are kept at the ends and the middles of the steps; states and errors in the middle come from cubic Hermite
    interpolation, of order 4 as well.

    Source: derived.
    """

    def __init__(self, cells: int):
        self.cells, self.nodes = cells, 2 * cells + 1
        self.weights = np.zeros(self.nodes)
        for cell in range(cells):
            self.weights[2 * cell : 2 * cell + 3] += np.array([1, 4, 1]) / (6 * cells)

    def up(self, field: Field, h: Array) -> Array:
        states, step = [h], 1 / self.cells
        slope = field.add(0, h)
        for middle in range(1, self.nodes, 2):
            second = field.add(middle, h + step / 2 * slope)
            third = field.add(middle, h + step / 2 * second)
            fourth = field.add(middle + 1, h + step * third)
            end = h + step / 6 * (slope + 2 * second + 2 * third + fourth)
            after = field.add(middle + 1, end)
            states += [(h + end) / 2 + step / 8 * (slope - after), end]
            h, slope = end, after
        return np.stack([*states, h])

    def down(self, field: Field, looks: list[Look], p: Array) -> Array:
        seen, step = [p], 1 / self.cells
        slope = field.back(self.nodes - 1, looks[-1], p)
        for middle in range(self.nodes - 2, 0, -2):
            second = field.back(middle, looks[middle], p + step / 2 * slope)
            third = field.back(middle, looks[middle], p + step / 2 * second)
            fourth = field.back(middle - 1, looks[middle - 1], p + step * third)
            end = p + step / 6 * (slope + 2 * second + 2 * third + fourth)
            after = field.back(middle - 1, looks[middle - 1], end)
            seen += [(p + end) / 2 + step / 8 * (slope - after), end]
            p, slope = end, after
        return np.stack(seen[::-1])
