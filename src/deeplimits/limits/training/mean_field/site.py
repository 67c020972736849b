"""One hidden layer of a march: its particles, what they average to, and their mean responses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.limits.training.mean_field.chain import Hidden
from deeplimits.limits.training.mean_field.noise import Growing, Normals
from deeplimits.limits.training.mean_field.record import Array


@dataclass
class Entry:
    """What enters a layer at time t, from the layer beneath; (t + 1) P known inputs, t Q known gradients.

    Attributes:
        rows: covariances of its noise u with u up to now, biases included, shape (P, (t + 1) P).
        answer: weight_std^2 C of the layer beneath, shape (P, t Q).
        test_rows: as `rows` at test inputs, (M, (t + 1) P).
        test_own: variance of u at test inputs, (M,).
        test_answer: as `answer` at test inputs, (M, t Q).
    """

    rows: Array
    answer: Array
    test_rows: Array
    test_own: Array
    test_answer: Array


class Site:
    """Particles (h, z) of one hidden layer l at every input and time, and their averages.

    h(t) = u(t) + sum over s < t of (C + rate gamma Delta(s) Phi(t, s)) g(s),   u ~ GP(Phi of the layer beneath);
    z(t) = r(t) + sum over s <= t of D phi(s) + rate gamma sum over s < t of Delta(s) G(t, s) phi(s),
    r ~ GP(G of the layer above), g = phi'(h) z. Particles come in pairs that share u and have r of opposite sign.

    Args:
        layer: weights and activation.
        times: T.
        inputs: P.
        outputs: C of the network; gradients have Q = P C rows a time.
        normals: noise of half the particles.
        last: whether the readout comes next.

    Source: bordelon-pehlevan-2022; responses by Gaussian integration by parts are derived here.
    """

    def __init__(
        self, layer: Hidden, times: int, inputs: int, outputs: int, normals: Normals, last: bool
    ):  # fmt: skip
        self.layer, self.P, self.Q, self.C, self.last = layer, inputs, inputs * outputs, outputs, last
        self.S = 2 * normals.count
        n, q = times * self.P, times * self.Q
        self.u = Growing(n, normals)
        self.r = Growing(outputs if last else q, normals)
        self.phi, self.g = np.empty((n, self.S)), np.empty((q, self.S))
        self.Phi, self.G = np.zeros((n, n)), np.zeros((q, q))
        self.feature_answer, self.gradient_answer = np.zeros((n, q)), np.zeros((q, n))

    def forward(self, t: int, entry: Entry, push: Array) -> tuple[Array, Array, Array]:
        """Move to h(t), phi(t); return Phi at test inputs: rows (M, (t + 1) P), own (M,), and their C, (M, t Q).

        Args:
            t: the time.
            entry: from the layer beneath.
            push: rate gamma Delta(s) of every s < t, input and output, shape (t Q,).
        """
        a, b, q = t * self.P, (t + 1) * self.P, t * self.Q
        u = self.u.extend(entry.rows)
        self.kick = entry.answer + np.repeat(entry.rows[:, :a], self.C, axis=1) * push
        self.h = np.concatenate([u, u], axis=1) + self.kick @ self.g[:q]
        self.phi[a:b] = self.layer.value(self.h)
        self.Phi[a:b, :b] = self.phi[a:b] @ self.phi[:b].T / self.S
        if not self.last:
            self.feature_answer[a:b, :q] = self._feature_slopes(t)
        return self._test(t, entry, push)

    def _test(self, t: int, entry: Entry, push: Array) -> tuple[Array, Array, Array]:
        a, b, q = t * self.P, (t + 1) * self.P, t * self.Q
        if not len(entry.test_own):
            self.test_phi = np.empty((0, self.S))
            return np.empty((0, b)), np.empty(0), np.empty((0, q))
        u = self.u.beside(entry.test_rows, entry.test_own)
        kick = entry.test_answer + np.repeat(entry.test_rows[:, :a], self.C, axis=1) * push
        phi = self.test_phi = self.layer.value(np.concatenate([u, u], axis=1) + kick @ self.g[:q])
        answer = np.zeros((len(phi), q)) if self.last else self.r.slopes(_odd(phi), q)
        return phi @ self.phi[:b].T / self.S, (phi**2).mean(1), answer

    def backward(self, t: int, rows: Array, answer: Array, push: Array) -> None:
        """Move to z(t), g(t).

        Args:
            t: the time.
            rows: covariances of the noise r with r up to now, shape (Q, (t + 1) Q).
            answer: weight_std^2 D of the layer above, shape (Q, (t + 1) P).
            push: as in `forward`.
        """
        q = t * self.Q
        r = self.r.extend(rows)
        kick = answer.copy()
        kick[:, : t * self.P] += (rows[:, :q] * push).reshape(len(rows), t * self.P, self.C).sum(2)
        self.z = np.concatenate([r, -r], axis=1) + kick @ self.phi[: (t + 1) * self.P]
        self._gradients(t, kick)

    def readout(self, t: int, variance: float, push: Array) -> tuple[Array, Array]:
        """Move the readout weights w(t) = r + rate gamma variance sum over s < t of Delta(s) phi(s).

        Returns <phi w> at the inputs, (P, C), and at the test inputs, (M, C).

        Args:
            t: the time.
            variance: readout_std^2.
            push: as in `forward`.
        """
        if not t:
            self.w = self.r.extend(variance * np.eye(self.C))
        self.reach = variance * push.reshape(t * self.P, self.C).T
        w = np.concatenate([self.w, -self.w], axis=1) + self.reach @ self.phi[: t * self.P]
        self.z = np.tile(w, (self.P, 1))
        now = self.phi[t * self.P : (t + 1) * self.P]
        return now @ w.T / self.S, self.test_phi @ w.T / self.S

    def finish(self, t: int) -> None:
        """Move to g(t) of the last layer, whose z are the readout weights."""
        self._gradients(t, np.pad(np.tile(self.reach, (self.P, 1)), ((0, 0), (0, self.P))))

    def _gradients(self, t: int, kick: Array) -> None:
        q, e = t * self.Q, (t + 1) * self.Q
        self.g[q:e] = np.repeat(self.layer.slope(self.h), self.C, axis=0) * self.z
        self.G[q:e, :e] = self.g[q:e] @ self.g[:e].T / self.S
        if not self.layer.first:
            self.gradient_answer[q:e, : (t + 1) * self.P] = self._gradient_slopes(t, kick)

    def _feature_slopes(self, t: int) -> Array:
        """Return C = <dphi(t) / dr(s)>, s < t, shape (P, t Q)."""
        return self.r.slopes(_odd(self.phi[t * self.P : (t + 1) * self.P]), t * self.Q)

    def _gradient_slopes(self, t: int, kick: Array) -> Array:
        """Return D = <dg(t) / du(s)>, s <= t, shape (Q, (t + 1) P)."""
        return self.u.slopes(_even(self.g[t * self.Q : (t + 1) * self.Q]), (t + 1) * self.P)


def _odd(values: Array) -> Array:
    """Return the half of the difference between the two of each pair: what is left of a mean against r."""
    half = values.shape[1] // 2
    return (values[:, :half] - values[:, half:]) / 2


def _even(values: Array) -> Array:
    """Return the mean of the two of each pair: what is left of a mean against u."""
    half = values.shape[1] // 2
    return (values[:, :half] + values[:, half:]) / 2
