"""Which tokens are together, and when they came together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import brentq
from scipy.spatial.distance import pdist

from deeplimits.limits.tokens.inputs import Array

Events = list[tuple[float, int]]


def distances(x: Array, sphere: bool) -> Array:
    """Return the distances of all pairs, shape (m (m - 1) / 2,): angles on the sphere, elsewhere Euclidean.

    Example:
        >>> distances(np.eye(2), sphere=True).round(4).tolist()
        [1.5708]
    """
    chords: Any = pdist(x)
    return 2 * np.arcsin(np.minimum(chords / 2, 1.0)) if sphere else chords


def heights(x: Array, sphere: bool) -> Array:
    """Return the m - 1 distances at which clusters join (the edges of the shortest tree), the largest first.

    Tokens are together if a chain of steps no longer than `close` joins them, so the number of clusters is
    1 + #{heights > close}.

    Example:
        >>> heights(np.array([[0.0], [1.0], [3.0]]), sphere=False).tolist()
        [2.0, 1.0]
    """
    if len(x) == 1:
        return np.empty(0)
    return linkage(distances(x, sphere), method="single")[::-1, 2].copy()


def labels(x: Array, close: float, sphere: bool) -> NDArray[np.int64]:
    """Return the cluster of every token, numbered from 0 by first appearance, shape (m,).

    Example:
        >>> labels(np.array([[5.0], [0.0], [5.1]]), 0.5, sphere=False).tolist()
        [0, 1, 0]
    """
    if len(x) == 1:
        return np.zeros(1, dtype=np.int64)
    found = fcluster(linkage(distances(x, sphere), method="single"), close, criterion="distance")
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[inverse]


def events(position: Callable[[float], Array], nodes: Sequence[float], close: float, sphere: bool) -> Events:
    """Return (time, clusters from then on) of every change of their number along a path, in order of time.

    Args:
        position: tokens at a time.
        nodes: rising times so near that a height crosses `close` at most once between two of them.
        close: the largest step within a cluster.
        sphere: whether distances are angles.
    """
    turns: Events = []
    before = heights(position(nodes[0]), sphere)
    count = 1 + int(np.sum(before > close))
    for start, end in pairwise(nodes):
        after = heights(position(end), sphere)
        for rank in np.flatnonzero((before > close) != (after > close)):
            gap = lambda t, rank=rank: heights(position(t), sphere)[rank] - close
            time: Any = brentq(gap, start, end, xtol=1e-14 * end) if gap(start) * gap(end) < 0 else end
            turns.append((float(time), -1 if before[rank] > close else 1))
        before = after
    turns.sort()
    return [
        (time, count + turn) for (time, _), turn in zip(turns, np.cumsum([t for _, t in turns]).tolist(), strict=True)
    ]


def jumps(path: Array, close: float, sphere: bool) -> Events:
    """Return (step, clusters from then on) of every change of their number along steps, path of shape (steps, m, d)."""
    counts = [1 + int(np.sum(heights(x, sphere) > close)) for x in path]
    return [(float(step), counts[step]) for step in range(1, len(counts)) if counts[step] != counts[step - 1]]
