"""What is known of a block repeated to infinite depth, and the pairs of inputs it is probed with."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np

from deeplimits.limits.kernel import near

ANGLES = np.array([0.0, 1e-6, 1e-2, 0.3, 1.0, 1.6, 2.5, 3.1, pi])


@dataclass(frozen=True)
class Note:
    """Which limit a repeated block has.

    Attributes:
        kind: "flow", "discrete", "trivial", "explodes", "ordered", "critical", "isometric", "chaotic",
            "collapses".
        nngp, ntk: whether the limit of each is finite and not identically zero.
        text: which limit, why, and the rate or normalisation, in words.
        caution: what of the values is not accurate, in words; empty if they are.
    """

    kind: str
    nngp: bool
    ntk: bool
    text: str
    caution: str = ""


def probe_pairs(probe: np.ndarray, angles: np.ndarray = ANGLES) -> near.Pairs:
    """Return pairs of inputs at the given angles, with the values of |x|^2/d in `probe` combined."""
    q1, q2, angle = (grid.ravel() for grid in np.meshgrid(probe, probe, angles, indexing="ij"))
    unit = near.from_angles(angle)
    s = np.sqrt(q1 * q2)
    return near.Pairs(unit.gap * s, unit.span * s, unit.theta, q1, q2)
