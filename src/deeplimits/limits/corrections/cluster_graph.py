"""How correlation functions of wide networks fall with the width: an exponent read off a graph."""

from __future__ import annotations

from collections.abc import Iterable

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError

WHERE = "width_exponent"


def width_exponent(factors: int, contractions: Iterable[tuple[int, int]] = ()) -> float:
    """Return s with E[product of derivatives of the network f, indices contracted in pairs] = O(n^s).

    Vertices are the m factors, each f or a derivative tensor of it; an edge joins two that share an index. With n_even
    and n_odd components of even and odd size, s = n_even + n_odd / 2 - m / 2. The bound is for the leading order, which
    may vanish.

    Args:
        factors: m.
        contractions: pairs of factors (from 0) that share a derivative index.

    Valid when: Gaussian weights, one width n, linear or (aitken) polynomial activations; a conjecture for smooth ones;
        gradient flow keeps the exponents.

    Raises:
        InputError: a pair that does not name two of the factors.

    Source: dyer-2020-feynman-diagrams; aitken-2020-wide-asymptotics.

    Example:
        The mean NTK; its variance (disconnected part taken away); the mean of f df/dt's NTK under gradient flow.

        >>> width_exponent(2, [(0, 1)]), width_exponent(4, [(0, 1), (2, 3)]), width_exponent(4, [(0, 1), (1, 2)])
        (0.0, 0.0, -1.0)
    """
    count = whole(WHERE, "factors", factors)
    parent = list(range(count))

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            vertex = parent[vertex]
        return vertex

    for pair in contractions:
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or any(isinstance(v, bool) or not isinstance(v, int) or not 0 <= v < count for v in pair)
        ):
            why = f"contraction {pair!r} does not name two of the {count} factors"
            raise InputError(WHERE, why, f"give pairs of whole numbers from 0 to {count - 1}")
        parent[root(pair[0])] = root(pair[1])
    sizes: dict[int, int] = {}
    for vertex in range(count):
        sizes[root(vertex)] = sizes.get(root(vertex), 0) + 1
    odd = sum(size % 2 for size in sizes.values())
    return (len(sizes) - odd) + odd / 2 - count / 2
