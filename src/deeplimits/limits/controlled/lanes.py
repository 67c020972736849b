"""Every path against every other one, a vector of them at a time, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from deeplimits.limits.kernel.tile.engine import cores
from deeplimits.limits.kernel.tile.memory import aligned


def pack(arrays: Sequence[np.ndarray], lanes: int) -> np.ndarray:
    """Return arrays of shape (n, ...) side by side as (longest n, ..., lanes), filled up with zeros.

    Example:
        >>> pack([np.ones((1, 2)), np.ones((3, 2))], 8).shape
        (3, 2, 8)
    """
    found = aligned((max(map(len, arrays)), *arrays[0].shape[1:], lanes), np.float64)
    for lane, array in enumerate(arrays):
        found[: len(array), ..., lane] = array
    return found


def groups(lengths: Sequence[int], lanes: int) -> list[np.ndarray]:
    """Return the indices of all, those of similar length together, `lanes` at a time.

    Example:
        >>> [group.tolist() for group in groups([5, 1, 4], 2)]
        [[1, 2], [0]]
    """
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + lanes] for start in range(0, len(order), lanes)]


def matrix(
    rows: int, columns: Sequence[np.ndarray], symmetric: bool, run: Callable[[int, int], np.ndarray]
) -> np.ndarray:
    """Return the matrix whose entries (i, columns[g]) are run(i, g), computed by all cores.

    Args:
        rows: how many.
        columns: indices of the columns of each group.
        symmetric: whether entry (j, i) is entry (i, j): of each two, one is computed.
        run: called with a row and a group; lets other threads run meanwhile.
    """
    found = np.empty((rows, sum(map(len, columns))))
    place = np.empty(found.shape[1], dtype=int)
    place[np.concatenate(columns)] = np.arange(len(place))
    tasks = [
        (row, group)
        for group, members in enumerate(columns)
        for row in range(rows)
        if not symmetric or place[row] <= place[members[-1]]
    ]

    def work(task: tuple[int, int]) -> None:
        row, members = task[0], columns[task[1]]
        values = run(*task)[: len(members)]
        if symmetric:
            wanted = place[row] <= place[members]
            members, values = members[wanted], values[wanted]
            found[members, row] = values
        found[row, members] = values

    with ThreadPoolExecutor(min(cores(), len(tasks))) as pool:
        for _ in pool.map(work, tasks):
            pass
    return found
