"""What networks that have learnt nothing show: the curves that every measured one has to be set beside."""

from __future__ import annotations

from math import inf


def null_contribution(depth: int, first: float = 1.0) -> list[float]:
    """Return the relative contributions of blocks whose outputs have equal size and are uncorrelated.

    |u_l| / |h_l| = 1 / sqrt(l + first^-2) at l = 0 ... depth-1, where `first` = |u_0| / |h_0|; 1 / sqrt(l + 1) where
    the stream enters with the size of one block's output. A contribution that falls so is no evidence of anything.

    Args:
        depth: L.
        first: relative contribution of the first block.

    Valid when: random initialization with a norm before every branch.

    Source: derived.

    Example:
        >>> [round(value, 3) for value in null_contribution(4)]
        [1.0, 0.707, 0.577, 0.5]
        >>> [round(value, 3) for value in null_contribution(3, first=10.0)]
        [10.0, 0.995, 0.705]
    """
    entering = first**-2 if first > 0 else inf
    return [(place + entering) ** -0.5 if place + entering > 0 else inf for place in range(depth)]


def null_skip(depth: int) -> list[float]:
    """Return what skipping block s changes in the next block of an untrained network: 1 / sqrt(s + 2).

    |u_{s+1} - u'_{s+1}| / |u_{s+1}| at s = 0 ... depth-2, to first order: the share that block s has in the stream
    that block s+1 reads. Means over positions; branches that are not linear damp it by some percent.

    Args:
        depth: L.

    Source: derived.

    Example:
        >>> [round(value, 3) for value in null_skip(4)]
        [0.707, 0.577, 0.5]
    """
    return [(place + 2) ** -0.5 for place in range(depth - 1)]
