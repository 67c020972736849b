"""What is given to samplers, before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator


def distinct_rows(array: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in order of first appearance, and for each row which of them it is."""
    _, first, which = np.unique(array + 0.0, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return array[first[order]], np.argsort(order)[which.reshape(-1)]


def check_request(networks: Any, seed: Any, get: Any) -> tuple[int, tuple[str, ...]]:
    """Return the number of networks and what is asked of them, "nngp" and "ntk" or one of them.

    Raises:
        InputError: fewer than two networks, a seed that is none, an unknown name.

    Example:
        >>> check_request(10, 0, "nngp")
        (10, ('nngp',))
    """
    networks = whole("sample", "networks", networks, minimum=2)
    generator(seed, "checked")
    asked = (get,) if isinstance(get, str) else tuple(get)
    if not asked or not set(asked) <= {"nngp", "ntk"}:
        raise InputError("sample", f"get={get!r} is unknown", "ask for 'nngp', 'ntk' or both")
    return networks, asked


def check_matrices(networks: int, inputs: int, asked: tuple[str, ...]) -> None:
    """Refuse matrices (networks, inputs, inputs) that do not fit in memory.

    Raises:
        MemoryNeeded: says the bytes needed and the ways out.
    """
    needed = 2 * 8 * networks * inputs**2 * (1 + ("ntk" in asked))
    fix = "use fewer inputs, sample fewer networks at a time (prefixes agree), or ask for one of 'nngp' and 'ntk'"
    check_memory("sample", needed, "the matrices of all networks", fix)
