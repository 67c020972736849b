"""Pairs of neurons on their way to infinity, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Channel:
    """Two neurons a_i s(w_i x) + a_j s(w_j x) that together do what one gated linear unit does.

    c s(w x) + a (v x) s'(w x), with c = a_i + a_j, w = (w_i + w_j)/2, a v = (a_i - a_j) (w_i - w_j)/2, misses the
    pair by O(|w_i - w_j|^2). Along a channel |a_i - a_j| grows without end, |w_i - w_j| falls as its inverse, and c
    and a v tend to a limit.

    Attributes:
        units: i, j.
        cosine: of w_i and w_j, signs made equal where the activation is odd or even.
        gap: |w_i - w_j| / |w|.
        difference: |a_i - a_j|, what grows.
        total: |a_i + a_j| = |c|, what stays.
        scale: (C,), c.
        direction: (d,), w, the bias last where there is one.
        slope: (C, d), a v, the bias last where there is one.
        error: root mean square over inputs and outputs of what putting the gated linear unit in place of the pair
            changes; None without inputs.
        relative: the same over that of the layer's output; None without inputs.
    """

    units: tuple[int, int]
    cosine: float
    gap: float
    difference: float
    total: float
    scale: np.ndarray
    direction: np.ndarray
    slope: np.ndarray
    error: float | None
    relative: float | None

    def __repr__(self) -> str:
        rest = "" if self.error is None else f", replaced at an error of {self.error:.2g}"
        opposite = f"|a_i - a_j| {self.difference:.3g}, |a_i + a_j| {self.total:.3g}"
        return f"<Channel {self.units}: 1 - cos {1 - self.cosine:.2g}, {opposite}{rest}>"


@dataclass(frozen=True, eq=False)
class Channels:
    """What looking for channels in one hidden layer found, nearest pair first.

    Attributes:
        found: pairs of neurons.
        neurons: of the layer.
        cosine: the least that was asked for.
        parity: "odd", "even" or "none": how signs of neurons were made equal.
    """

    found: tuple[Channel, ...]
    neurons: int
    cosine: float
    parity: str

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self):
        return iter(self.found)

    def __getitem__(self, index: int) -> Channel:
        return self.found[index]
