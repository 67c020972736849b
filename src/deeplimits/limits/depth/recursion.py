"""The NTK of a deep network in logarithms: what a long product of small numbers leaves of it."""

from __future__ import annotations

from math import log

import numpy as np

from deeplimits.limits.depth.dual_map import SMALL, Cosines, DualMap


def log_ntk(dual: DualMap, at: Cosines, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """Return sign and logarithm of |NTK_L| at unit inputs: NTK_0 = c, NTK_{l+1} = f(c_l) + NTK_l f'(c_l).

    Carries log|c_l| and NTK_l / c_l, so that c^(2^L) does not underflow.

    Args:
        dual: the map of cosines f, with A = E phi = 0.
        at: cosines, of any shape.
        depth: number of layers L.

    Shapes: both that of the cosines; -infinity at c = 0.

    Source: jacot-2018-ntk, thm 1; radhakrishnan-2022-wide-deep-optimal.

    Example:
        >>> from deeplimits.architecture.activation import Hermite
        >>> from deeplimits.limits.depth.dual_map import dual_map
        >>> c = np.array([0.5])
        >>> log_ntk(dual_map(Hermite(2)), Cosines(c, 1 - c, 1 + c), 10)[1] - (np.log(2**11 - 1) + 2**10 * np.log(0.5))
        array([0.])
    """
    assert dual.terms is not None
    first = log(dual.terms[dual.order])
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm, ratio, sign = np.log(np.abs(at.c)), np.ones(at.c.shape), np.where(at.c < 0, -1.0, 1.0)
        for _ in range(int(depth)):
            new, slope = dual.step(at)
            small = np.abs(at.c) <= SMALL
            elastic, rise = at.c * slope / new.c, np.log(np.abs(new.c))
            inner = at.c[small]
            elastic[small] = dual.elasticity(inner)
            rise[small] = first + dual.order * logarithm[small] + np.log1p(dual.excess(inner))
            turned = np.where(new.c < 0, -1.0, 1.0)
            sign = np.where(small & (new.c == 0), sign**dual.order, turned)
            logarithm, ratio, at = rise, 1 + ratio * elastic, new
        return sign * np.sign(ratio), logarithm + np.log(np.abs(ratio))
