"""Responses by derivatives along every particle's path: slower than integration by parts, and an oracle for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimits.limits.training.mean_field.record import Array
from deeplimits.limits.training.mean_field.site import Site

STEP = 1e-5
REACH, CELL = 8.0, 2e-3


class JacobianSite(Site):
    """As `Site`, with C = <dphi(t)/dr(s)> and D = <dg(t)/du(s)> from the derivatives of every particle in its noise.

    dh(t) = du(t) + A dg, dg(t) = phi' (dr(t) + B dphi) + phi'' z dh, row by row; phi'' by a central difference.

    Valid when: phi' is continuous.

    Source: bordelon-pehlevan-2022.
    """

    def __init__(self, *given: Any):
        super().__init__(*given)
        n, q = self.Phi.shape[0], self.G.shape[0]
        self.by_r = None if self.last else (np.zeros((n, q * self.S)), np.zeros((q, q * self.S)))
        self.by_u = None if self.layer.first else (np.zeros((n, n * self.S)), np.zeros((q, n * self.S)))

    def _feature_slopes(self, t: int) -> Array:
        assert self.by_r is not None
        dphi, dg = self.by_r
        a, b, q = t * self.P, (t + 1) * self.P, t * self.Q
        self.dh_r = (self.kick @ dg[:q]).reshape(self.P, -1, self.S)
        dphi[a:b] = (self.layer.slope(self.h)[:, None] * self.dh_r).reshape(self.P, -1)
        return dphi[a:b].reshape(self.P, -1, self.S)[:, :q].mean(2)

    def _gradients(self, t: int, kick: Array) -> None:
        if self.by_r is not None:
            dphi, dg = self.by_r
            dz = (kick @ dphi[: (t + 1) * self.P]).reshape(self.Q, -1, self.S)
            dz[:, t * self.Q : (t + 1) * self.Q] += np.eye(self.Q)[:, :, None]
            dg[t * self.Q : (t + 1) * self.Q] = self._both(dz, self.dh_r)
        super()._gradients(t, kick)

    def _gradient_slopes(self, t: int, kick: Array) -> Array:
        assert self.by_u is not None
        dphi, dg = self.by_u
        a, b, q = t * self.P, (t + 1) * self.P, t * self.Q
        dh = (self.kick @ dg[:q]).reshape(self.P, -1, self.S)
        dh[:, a:b] += np.eye(self.P)[:, :, None]
        dphi[a:b] = (self.layer.slope(self.h)[:, None] * dh).reshape(self.P, -1)
        dz = (kick @ dphi[:b]).reshape(self.Q, -1, self.S)
        dg[q : q + self.Q] = self._both(dz, dh)
        return dg[q : q + self.Q].reshape(self.Q, -1, self.S)[:, :b].mean(2)

    def _both(self, dz: Array, dh: Array) -> Array:
        """Return phi' dz + phi'' z dh, rows of (input, output), flattened behind them."""
        slope = np.repeat(self.layer.slope(self.h), self.C, axis=0)
        bend = (self.layer.slope(self.h + STEP) - self.layer.slope(self.h - STEP)) / (2 * STEP)
        curved = np.repeat(bend, self.C, axis=0) * self.z
        return (slope[:, None] * dz + curved[:, None] * np.repeat(dh, self.C, axis=0)).reshape(self.Q, -1)


def kinked(function: Any) -> bool:
    """Say whether phi' jumps: its largest change over a cell does not shrink with the cell.

    Example:
        >>> from deeplimits.architecture.activation import Gelu, Relu
        >>> from deeplimits.limits.kernel.activation import family
        >>> kinked(family(Relu())), kinked(family(Gelu()))
        (True, False)
    """
    cells = np.linspace(-REACH, REACH, round(2 * REACH / CELL) * 4 + 1)
    slopes = np.asarray(function.derivative(cells))
    coarse, fine = (float(np.abs(np.diff(slopes[::step])).max()) for step in (4, 1))
    return fine > max(0.7 * coarse, 1e-9 * float(np.abs(slopes).max()))
