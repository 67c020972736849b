"""What tokens did: where they were, their energy, their clusters and when these formed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.tokens.clusters import labels
from deeplimits.limits.tokens.collapse import residual_of
from deeplimits.limits.tokens.inputs import Array


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens moved by attention.

    Attributes:
        kind: "softmax", "unnormalised" (both on the unit sphere), "hardmax" or "sinkhorn".
        times: at which they were looked at, shape (T,); steps for "hardmax".
        trajectory: shape (T, m, d).
        energy: of the tokens at these times, shape (T,); what it is stands in `describe()`.
        close: tokens joined by steps no longer than this are one cluster; an angle in radians on the sphere.
        merge_times: when the number of clusters changed, in order, shape (K,).
        merge_counts: the number of clusters from each of these times on, shape (K,).
        leaders: for "hardmax", tokens that follow none but themselves at the start, so never move; else empty.
        error: estimated largest error of a coordinate, as a share of a token's size; 0 for "hardmax", which is exact up
            to rounding.
        merge_error: estimated largest relative error of `merge_times`; infinite if their number is uncertain.
        text: what was done, in words.
    """

    kind: str
    times: Array
    trajectory: Array
    energy: Array
    close: float
    merge_times: Array
    merge_counts: NDArray[np.int64]
    leaders: NDArray[np.int64]
    error: float
    merge_error: float
    text: str

    @property
    def sphere(self) -> bool:
        """Whether the tokens live on the unit sphere."""
        return self.kind in ("softmax", "unnormalised")

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """Cluster of every token, numbered from 0 by first appearance, (T, m)."""
        return np.stack([labels(x, self.close, self.sphere) for x in self.trajectory])

    @cached_property
    def cluster_count(self) -> NDArray[np.int64]:
        """Number of clusters, (T,)."""
        return 1 + self.clusters.max(axis=1)

    @cached_property
    def residual(self) -> Array:
        """Rank residual |X - 1 mean^T| / |X| in the Frobenius norm, (T,); 0 where the rank has collapsed to one."""
        return np.array([residual_of(x) for x in self.trajectory])

    def cluster_time(self, count: int = 1) -> float:
        """Return the first time with at most `count` clusters; infinity if it was not reached."""
        start = 1 + int(labels(self.trajectory[0], self.close, self.sphere).max()) if self.times[0] == 0 else inf
        if start <= count:
            return 0.0
        reached = np.flatnonzero(self.merge_counts <= count)
        return float(self.merge_times[reached[0]]) if reached.size else inf

    def describe(self) -> str:
        """Say which equation moved the tokens, how accurately it was solved, and what became of them."""
        start, end = (f"{number} cluster{'s' if number > 1 else ''}" for number in self.cluster_count[[0, -1]])
        return (
            f"{self.text} From time {self.times[0]:g} to {self.times[-1]:g}: {start} become {end}, the rank residual "
            f"goes from {self.residual[0]:.3g} to {self.residual[-1]:.3g}, the energy from {self.energy[0]:.6g} to "
            f"{self.energy[-1]:.6g}."
        )

    def __repr__(self) -> str:
        _, m, d = self.trajectory.shape
        return f"Tokens({self.kind!r}, {m} tokens, {d} coordinates, {len(self.times)} times to {self.times[-1]:g})"
