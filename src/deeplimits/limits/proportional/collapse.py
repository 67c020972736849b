"""Perceptrons that are not shaped by their width: log-norms diffuse while all angles between inputs close."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from torch import from_numpy

from deeplimits.numerics.sde import INDEFINITE, factor

Array = NDArray[np.float64]

START = 1e-4
"""Time at which the angles start from their law at time zero, relative to the smaller of the last time and 1."""


@dataclass(frozen=True)
class Collapse:
    """The limit of a perceptron with slopes s_plus, s_minus at depth l = t n: log V_aa and q_ab = l^2 (1 - rho_ab).

    With S = s_plus^2 + s_minus^2, k = 2 (s_plus^4 + s_minus^4) / S^2 and chi = (s_plus - s_minus)^2 / S (ReLU: 2, 1):

    d log V = -(3k - 1)/2 dt + sqrt(2k) dB_0 + sqrt(k - 1) dB_1, the same for all inputs;
    dq = (2 q (1 - chi sqrt(2q)/(3 pi))/t + k q) dt - sqrt(2k) q dB_0 + noise of the Gram matrix of the differences,
    whose entries D_ab = q_0a + q_0b - q_ab move by sqrt(k) R (G + G^T) R^T / sqrt(2), D = R R^T; q starts from
    9 pi^2 / (2 chi^2), where the drift is finite. ReLU: dq = (2 q (1 - sqrt(2q)/(3 pi))/t + 2 q) dt + 2 sqrt(2) q dB.

    Source: hanin-nica-2019 (log V); li-nica-2023 (q of one pair, ReLU); derived (joint law, other slopes).

    Example:
        >>> Collapse(1.0, 0.0).log_moments(0.5)
        (-1.25, 2.5)
    """

    plus: float
    minus: float

    @property
    def kurtosis(self) -> float:
        """k, the mean of the slopes' fourth powers over the square of that of their squares."""
        return 2 * (self.plus**4 + self.minus**4) / (self.plus**2 + self.minus**2) ** 2

    @property
    def closing(self) -> float:
        """chi, which closes the angles: 1 for ReLU, 0 for the identity."""
        return (self.plus - self.minus) ** 2 / (self.plus**2 + self.minus**2)

    @property
    def start(self) -> float:
        """The value of q at time zero."""
        return 9 * pi**2 / (2 * self.closing**2)

    def log_moments(self, ratio: float) -> tuple[float, float]:
        """Return mean and variance of log V_aa(ratio) - log V_aa(0), a normal law: (-(3k - 1)/2, 3k - 1) ratio."""
        spread = (3 * self.kurtosis - 1) * ratio
        return -spread / 2, spread

    def edge(self, rho: Array, depth: int) -> Array:
        """Return 1 - rho after `depth` layers of infinite width, from correlations `rho`.

        rho' = rho + chi (sqrt(1 - rho^2) - rho arccos rho) / pi, by d = 1 - rho to keep its digits.
        """
        d = 1 - np.asarray(rho, dtype=np.float64)
        for _ in range(depth):
            angle = 2 * np.arcsin(np.sqrt(np.clip(d / 2, 0.0, 1.0)))
            curve = np.where(angle < 1e-3, angle**3 / 3, np.sin(angle) - np.cos(angle) * angle)
            d = d - self.closing * curve / pi
        return d

    def grid(self, times: Array, steps: int) -> tuple[Array, NDArray[np.int64]]:
        """Return the times of `steps` steps, even in log t between the times asked for, and where those stand."""
        asked = times[times > 0]
        first = START * min(asked[-1], 1.0)
        knots = np.concatenate([[first], asked[asked > first]])
        lengths = np.diff(np.log(knots))
        shares = np.maximum(1, np.round(steps / 2 * lengths / lengths.sum())).astype(int) * 2
        parts = [np.geomspace(a, b, n + 1)[1:] for a, b, n in zip(knots, knots[1:], shares, strict=False)]
        grid = np.concatenate([[first], *parts])
        return grid, np.searchsorted(grid, times * (1 - 1e-12)).clip(max=len(grid) - 1)

    def normals(self, inputs: int) -> int:
        """Return how many normals a step of one sample takes."""
        return 2 + (inputs - 1) ** 2

    def step(self, logs: Array, q: Array, span: tuple[float, float], moves: Array) -> tuple[Array, Array, Array]:
        """Return log V/V_0, q and the repaired samples after the time from span[0] to span[1].

        Args:
            logs: shape (S,).
            q: shape (S, m, m).
            span: the two times.
            moves: Brownian increments, shape (S, normals(m)).
        """
        k, length, m = self.kurtosis, span[1] - span[0], q.shape[-1]
        logs = logs - (3 * k - 1) / 2 * length + sqrt(2 * k) * moves[:, 0] + sqrt(max(k - 1, 0.0)) * moves[:, 1]
        repaired = np.zeros(len(q), dtype=bool)
        if m == 1:
            return logs, q, repaired
        q = q * np.exp(2 * (1 - self.closing * np.sqrt(2 * q) / (3 * pi)) * log(span[1] / span[0]))
        D = q[:, :1, 1:] + q[:, 1:, :1] - q[:, 1:, 1:]
        root = factor(from_numpy(D))[0].numpy()
        diagonal = np.diagonal(D, axis1=1, axis2=2)
        repaired = (np.abs((root**2).sum(-1) - diagonal) > INDEFINITE * diagonal).any(-1)
        G = moves[:, 2:].reshape(-1, m - 1, m - 1)
        root = (root + sqrt(k / 2) * root @ G) / sqrt(1 + k / 2 * length * (m - 1))
        D = root @ root.transpose(0, 2, 1)
        size = np.diagonal(D, axis1=1, axis2=2)
        apart = np.zeros_like(q)
        apart[:, 0, 1:] = apart[:, 1:, 0] = size / 2
        apart[:, 1:, 1:] = np.maximum((size[:, :, None] + size[:, None, :]) / 2 - D, 0.0)
        common = np.exp(-sqrt(2 * k) * moves[:, 0])  # the drift k q and the noise's own -k q cancel in log q
        return logs, apart * common[:, None, None], repaired
