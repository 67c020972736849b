"""Noise of residual networks: the same along the depth at 8, 16 and 32 blocks, so that depths may be compared."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.training.mean_field.noise import Normals
from deeplimits.limits.training.mean_field.record import Array


class Shared:
    """Standard normals of one block: sums of those that finer networks have in the same place, over sqrt(how many).

    The second half of the particles has the normals of the first half times `sign`.

    Args:
        particles: an even number.
        rows: most rows that may be asked for.
        sign: 1 or -1.
        seed: of the streams.
        names: of the streams, the finest network's block last.
        places: blocks of the finest network in this one's place.

    Source: derived.
    """

    def __init__(self, particles: int, rows: int, sign: int, seed: int, names: tuple[str | int, ...], places: range):
        self.count, self.sign = particles, sign
        self.parts = [Normals(particles // 2, rows, seed, "mean field", *names, place) for place in places]

    def take(self, rows: int) -> Array:
        """Return the next rows, shape (rows, particles)."""
        drawn = sum(part.take(rows) for part in self.parts) / len(self.parts) ** 0.5
        return np.concatenate([drawn, self.sign * drawn], axis=1)
