"""One hidden layer of a deep linear network in the march: closed matrices in place of particles, exact."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.training.mean_field.chain import Hidden
from deeplimits.limits.training.mean_field.record import Array
from deeplimits.limits.training.mean_field.site import Entry


class LinearSite:
    """As `Site` for phi(x) = x, where (h, g) are linear in the noise (u, r): h = R u + R A r, g = Q r + Q B u.

    R = (I - A B)^-1 and Q = (I - B A)^-1 over (time, input) grow row by row, A and B being what each time adds; then
    Phi = R (cov u + A cov r A^T) R^T, C = R A, and G, D likewise with the letters exchanged.

    Args:
        layer: weights.
        times: T.
        inputs: P.
        outputs: C of the network; gradients have Q = P C rows a time.
        tests: M.
        last: whether the readout comes next.

    Source: bordelon-pehlevan-2022 (the matrices); grown in time as is derived here.
    """

    def __init__(self, layer: Hidden, times: int, inputs: int, outputs: int, tests: int, last: bool):
        self.layer, self.P, self.Q, self.C, self.M, self.last = layer, inputs, inputs * outputs, outputs, tests, last
        n, q = times * self.P, times * self.Q
        noise = outputs if last else q
        self.h_u, self.h_r = np.zeros((n, n)), np.zeros((n, noise))
        self.g_u, self.g_r = np.zeros((q, n)), np.zeros((q, noise))
        self.cov_u, self.cov_r = np.zeros((n, n)), np.zeros((noise, noise))
        self.Phi, self.G = np.zeros((n, n)), np.zeros((q, q))
        self.feature_answer, self.gradient_answer = np.zeros((n, q)), np.zeros((q, n))

    def forward(self, t: int, entry: Entry, push: Array) -> tuple[Array, Array, Array]:
        """Move to h(t); return Phi at test inputs as `Site.forward` does."""
        a, b, q, r = t * self.P, (t + 1) * self.P, t * self.Q, self._noise(t)
        _fill(self.cov_u, a, entry.rows)
        kick = entry.answer + np.repeat(entry.rows[:, :a], self.C, axis=1) * push
        self.h_u[a:b, :a] = kick @ self.g_u[:q, :a]
        self.h_u[a:b, a:b] = np.eye(self.P)
        self.h_r[a:b, :r] = kick @ self.g_r[:q, :r]
        self.now_u = self.h_u[a:b, :b] @ self.cov_u[:b, :b]
        self.now_r = self.h_r[a:b, :r] @ self.cov_r[:r, :r]
        self.Phi[a:b, :b] = self._features(t, self.now_u, self.now_r)
        if not self.last:
            self.feature_answer[a:b, :q] = self.h_r[a:b, :q]
        return self._test(t, entry, push)

    def _test(self, t: int, entry: Entry, push: Array) -> tuple[Array, Array, Array]:
        a, b, q, r = t * self.P, (t + 1) * self.P, t * self.Q, self._noise(t)
        kick = entry.test_answer + np.repeat(entry.test_rows[:, :a], self.C, axis=1) * push
        by_u, by_r = np.pad(kick @ self.g_u[:q, :a], ((0, 0), (0, self.P))), kick @ self.g_r[:q, :r]
        moved_u, moved_r = by_u @ self.cov_u[:b, :b], by_r @ self.cov_r[:r, :r]
        self.test_u, self.test_r = entry.test_rows + moved_u, moved_r
        own = entry.test_own + ((2 * entry.test_rows + moved_u) * by_u).sum(1) + (moved_r * by_r).sum(1)
        answer = np.zeros((self.M, q)) if self.last else by_r
        return self._features(t, self.test_u, moved_r), own, answer

    def backward(self, t: int, rows: Array, answer: Array, push: Array) -> None:
        """Move to z(t) = g(t), as `Site.backward` does."""
        q, e = t * self.Q, (t + 1) * self.Q
        _fill(self.cov_r, q, rows)
        kick = answer.copy()
        kick[:, : t * self.P] += (rows[:, :q] * push).reshape(len(rows), t * self.P, self.C).sum(2)
        self._gradients(t, kick)
        self.g_r[q:e, q:e] = np.eye(self.Q)
        self._products(t)

    def readout(self, t: int, variance: float, push: Array) -> tuple[Array, Array]:
        """Move the readout weights; return <h w> at the inputs, (P, C), and at the test inputs, (M, C)."""
        a = t * self.P
        self.cov_r[:] = variance * np.eye(self.C)
        self.reach = variance * push.reshape(a, self.C).T
        w_u, w_r = self.reach @ self.h_u[:a, :a], np.eye(self.C) + self.reach @ self.h_r[:a]
        if not t:  # h(0) knows nothing of r
            self.now_r, self.test_r = np.zeros((self.P, self.C)), np.zeros((self.M, self.C))
        found = ((self.now_u, self.now_r), (self.test_u, self.test_r))
        return tuple(u[:, :a] @ w_u.T + r @ w_r.T for u, r in found)  # type: ignore[return-value]

    def finish(self, t: int) -> None:
        """Move to g(t) of the last layer: the readout weights."""
        self._gradients(t, np.pad(np.tile(self.reach, (self.P, 1)), ((0, 0), (0, self.P))))
        self.g_r[t * self.Q : (t + 1) * self.Q] += np.tile(np.eye(self.C), (self.P, 1))
        self._products(t)

    def _gradients(self, t: int, kick: Array) -> None:
        q, e, b, r = t * self.Q, (t + 1) * self.Q, (t + 1) * self.P, self._noise(t)
        self.g_u[q:e, :b] = kick @ self.h_u[:b, :b]
        self.g_r[q:e, :r] = kick @ self.h_r[:b, :r]
        self.gradient_answer[q:e, :b] = self.g_u[q:e, :b]

    def _products(self, t: int) -> None:
        q, e, b = t * self.Q, (t + 1) * self.Q, (t + 1) * self.P
        r = self.C if self.last else e
        by_u = self.g_u[q:e, :b] @ self.cov_u[:b, :b] @ self.g_u[:e, :b].T
        self.G[q:e, :e] = by_u + self.g_r[q:e, :r] @ self.cov_r[:r, :r] @ self.g_r[:e, :r].T

    def _features(self, t: int, by_u: Array, by_r: Array) -> Array:
        b, r = (t + 1) * self.P, self._noise(t)
        return by_u @ self.h_u[:b, :b].T + by_r @ self.h_r[:b, :r].T

    def _noise(self, t: int) -> int:
        """Return how many rows of r are known before the sweep back at t."""
        return self.C if self.last else t * self.Q


def _fill(matrix: Array, first: int, rows: Array) -> None:
    """Write new rows of a symmetric matrix, and their mirror image."""
    end = rows.shape[1]
    matrix[first:end, :end] = rows
    matrix[:end, first:end] = rows.T
