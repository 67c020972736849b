"""Noise of residual networks: the same along the depth at 8, 16 and 32 blocks, so that depths may be compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from deeplimits.limits.training.mean_field.record import Array
from deeplimits.numerics.seeds import generator

DIRECTIONS = 2000
"""Rows that are taken from one scrambled Sobol sequence; later ones are independent."""


def quasi(rows: int, count: int, seed: int, *names: str | int) -> Array:
    """Return rows of standard normals, (rows, count), independent of each other: a scrambled Sobol sequence at first.

    Source: owen-1998-scrambling.
    """
    engine = Sobol(min(rows, DIRECTIONS), scramble=True, rng=generator(seed, *names, "Sobol"))
    points = engine.random_base2(max(count - 1, 1).bit_length())[:count].T
    first = ndtri(np.clip(points, 2.0**-54, 1 - 2.0**-53))
    rest = generator(seed, *names, "independent").standard_normal((rows - len(first), count))
    return np.concatenate([first, rest])


class Shared:
    """Standard normals of one block: sums of those that finer networks have in the same place, over sqrt(how many).

    The second half of the particles has the normals of the first half times `sign`. The noise of the first time, which
    decides most, is given: a site sees every block, so that all blocks share one sequence of `quasi`, each its own
    rows of it. Later noise is independent.

    Args:
        sign: 1 or -1.
        first: the first rows of each place, (rows, particles / 2) each.
        seed: of later rows.
        names: of their streams, to which the finest network's block is added.
        places: blocks of the finest network in this one's place, one for each of `first`.

    Source: derived.
    """

    def __init__(self, sign: int, first: Sequence[Array], seed: int, names: tuple[str | int, ...], places: range):
        self.count, self.sign, self.first, self.taken = 2 * first[0].shape[1], sign, first, 0
        self.streams = [generator(seed, "mean field", *names, place) for place in places]
        self.apart = generator(seed, "mean field", *names, "aside", places.start, places.stop)

    def take(self, rows: int) -> Array:
        """Return the next rows, shape (rows, particles)."""
        given = [first[self.taken : self.taken + rows] for first in self.first]
        self.taken += rows
        shape = rows - len(given[0]), self.count // 2
        parts = [
            np.concatenate([known, stream.standard_normal(shape)])
            for known, stream in zip(given, self.streams, strict=True)
        ]
        return self._paired(sum(parts) / len(parts) ** 0.5)

    @cached_property
    def aside(self) -> Array:
        """The row of inputs that are not trained on, of which only each one's own law counts, shape (particles,)."""
        return self._paired(self.apart.standard_normal((1, self.count // 2)))[0]

    def _paired(self, drawn: Array) -> Array:
        return np.concatenate([drawn, self.sign * drawn], axis=1)
