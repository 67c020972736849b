"""Noise of residual networks: the same along the depth at 8, 16 and 32 blocks, so that depths may be compared."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deeplimits.limits.training.mean_field.record import Array
from deeplimits.numerics.seeds import generator


class Shared:
    """Standard normals of one block: sums of those that finer networks have in the same place, over sqrt(how many).

    The second half of the particles has the normals of the first half times `sign`. A site sees every block, so that
    blocks need independent normals: two scramblings of one Sobol sequence are not.

    Args:
        particles: an even number.
        sign: 1 or -1.
        seed: of the streams.
        names: of the streams, to which the finest network's block is added.
        places: blocks of the finest network in this one's place.

    Source: derived.
    """

    def __init__(self, particles: int, sign: int, seed: int, names: tuple[str | int, ...], places: range):
        self.count, self.sign = particles, sign
        self.streams = [generator(seed, "mean field", *names, place) for place in places]
        self.apart = generator(seed, "mean field", *names, "aside", places.start, places.stop)

    def take(self, rows: int) -> Array:
        """Return the next rows, shape (rows, particles)."""
        shape = rows, self.count // 2
        return self._paired(sum(stream.standard_normal(shape) for stream in self.streams) / len(self.streams) ** 0.5)

    @cached_property
    def aside(self) -> Array:
        """The row of inputs that are not trained on, of which only each one's own law counts, shape (particles,)."""
        return self._paired(self.apart.standard_normal((1, self.count // 2)))[0]

    def _paired(self, drawn: Array) -> Array:
        return np.concatenate([drawn, self.sign * drawn], axis=1)
