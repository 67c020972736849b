"""Residual networks with the identity: closed matrices over (time, input), grown row by row, nothing sampled."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.limits.training.mean_field.residual_blocks import blocks, spread
from deeplimits.limits.training.mean_field.residual_course import Rows
from deeplimits.limits.training.mean_field.task import Diverged, Report, Task, exploded


class Exact:
    """The march of a linear residual network as matrices.

    The site h^{l+1} = h^l + a u^l + A^l g^{l+1}, g^l = g^{l+1} + a s_w r^l + B^l h^l is linear in its noise. With
    h^l = Y^l g^l + zeta^l (noise of the blocks below l, covariance Z^l) and g^l = X^l h^l + xi^l (noise of those above,
    covariance Xi^l),

    Phi = R (Z + Y Xi Y^T) R^T,   G = Q (Xi + X Z X^T) Q^T,   R = (I - Y X)^-1,   Q = (I - X Y)^-1
    C = a s_w R Y,   D = a s_w Q X  (of the level above)
    Y' = R' Y + A,   Z' = R' (Z + a^2 s_w^2 Y G' Y^T) R'^T + a^2 k,   R' = (I - Y B)^-1
    X = Q' X' + B,   Xi = Q' Xi' Q'^T + a^2 (Q' X') k (Q' X')^T + a^2 s_w^2 G',   Q' = (I - X' A)^-1

    where a prime is the level l + 1. All are lower triangular in time, so that their rows at t follow from the rows
    before, once up and once down.

    Args:
        task: what is asked.
        layers: blocks.

    Source: derived.
    """

    def __init__(self, task: Task, layers: int):
        self.task, self.net, self.layers = task, blocks(task.net, layers), layers  # type: ignore[arg-type]
        self.P, self.C, self.T = *task.y.shape, task.steps + 1
        n, q = self.T * self.P, self.T * self.P * self.C
        self.step = task.rate * task.gamma
        self.first = self.net.first(task.X, task.X)
        self.rows = Rows(layers, self.T, self.P, self.C, len(task.X_test))
        self.delta, self.shifts = np.zeros(q), np.zeros((self.T + 1, self.C))
        levels = layers + 1
        self.Y, self.Z, self.R, self.N = (np.zeros((levels, n, m)) for m in (q, n, n, n))
        self.X, self.Xi, self.Q, self.M = (np.zeros((levels, q, m)) for m in (n, q, q, q))
        self.A, self.R_up, self.W = (np.zeros((layers, n, m)) for m in (q, n, n))
        self.B, self.Q_down, self.QX = (np.zeros((layers, q, m)) for m in (n, q, n))

    def run(self, report: Report) -> Course:
        """Return the course.

        Raises:
            Diverged: the outputs explode.
        """
        for t in range(self.T):
            self._up(t)
            self.rows.outputs[t] = self._outputs(t)
            if exploded(self.rows.outputs[t], self.task.y):
                raise Diverged(t, self._course())
            apart = self.task.y - self.rows.outputs[t]
            self.delta[t * self.P * self.C : (t + 1) * self.P * self.C] = apart.ravel()
            self.shifts[t + 1] = self.shifts[t] + self.task.rate * self.net.readout_bias * apart.sum(0)
            self._down(t)
            report(t)
        return self._course()

    def _course(self) -> Course:
        if len(self.task.X_test):
            self.rows.test_outputs[:] = self._tested()
        return self.rows.course(self.net, self.first)

    def _windows(self, t: int) -> tuple[slice, slice, slice, slice]:
        """Return rows now and columns up to now, of (time, input) and of (time, input, output)."""
        n, q = self.P, self.P * self.C
        return slice(t * n, t * n + n), slice(0, t * n + n), slice(t * q, t * q + q), slice(0, t * q + q)

    def _up(self, t: int) -> None:
        now, upto, _, _ = self._windows(t)
        past, net, F = slice(0, t * self.P * self.C), self.net, self.rows.features
        pull = self.step * spread(np.tile(self.first, t), self.C) * self.delta[past]
        self.Y[0, now, past] = pull
        self.Z[0, now, upto] = np.tile(self.first, t + 1)
        for l in range(self.layers + 1):
            _unit(self.R[l], now, self.Y[l, now, past] @ self.X[l, past, : now.start])
            R, Y = self.R[l, upto, upto], self.Y[l, upto, past]
            self.N[l, now, upto] = self.Z[l, now, upto] + Y[now] @ _symmetric(self.Xi[l], past) @ Y.T
            N = _symmetric(self.N[l], upto)
            F[l, now, upto] = R[now] @ N @ R.T
            if l == self.layers:
                return
            a = net.scales[l]
            response = a * net.weight**0.5 * R[now] @ Y
            self.rows.feature_responses[l, now, past] = response
            k = net.noise(F[l, now, upto])
            push = self.step * a * a * spread(k[:, : now.start], self.C) * self.delta[past]
            self.A[l, now, past] = a * net.weight**0.5 * response + push
            _unit(self.R_up[l], now, Y[now] @ self.B[l, past, : now.start])
            Rn, G = self.R_up[l, upto, upto], _symmetric(self.rows.gradients[l + 1], past)
            self.W[l, now, upto] = self.Z[l, now, upto] + a * a * net.weight * Y[now] @ G @ Y.T
            self.Y[l + 1, now, past] = Rn[now] @ Y + self.A[l, now, past]
            self.Z[l + 1, now, upto] = Rn[now] @ _symmetric(self.W[l], upto) @ Rn.T + a * a * k

    def _down(self, t: int) -> None:
        now, _, _now, _upto = self._windows(t)
        past, net, G = slice(0, now.start), self.net, self.rows.gradients
        for l in range(self.layers, -1, -1):
            X = self.X[l, _upto, past]
            _unit(self.Q[l], _now, X[_now] @ self.Y[l, past, : _now.start])
            Q = self.Q[l, _upto, _upto]
            self.M[l, _now, _upto] = self.Xi[l, _now, _upto] + X[_now] @ _symmetric(self.Z[l], past) @ X.T
            G[l, _now, _upto] = Q[_now] @ _symmetric(self.M[l], _upto) @ Q.T
            if l == 0:
                return
            a = net.scales[l - 1]
            response = a * net.weight**0.5 * Q[_now] @ X
            self.rows.gradient_responses[l - 1, _now, past] = response
            pull = (G[l, _now, : _now.start] * self.delta[: _now.start]).reshape(_now.stop - _now.start, -1, self.C)
            push = self.step * a * a * net.weight * pull.sum(2)
            self.B[l - 1, _now, past] = a * net.weight**0.5 * response + push
            _unit(self.Q_down[l - 1], _now, X[_now] @ self.A[l - 1, past, : _now.start])
            Qd = self.Q_down[l - 1, _upto, _upto]
            self.QX[l - 1, _now, past] = Qd[_now] @ X
            QX, k = self.QX[l - 1, _upto, past], net.noise(_symmetric(self.rows.features[l - 1], past))
            self.X[l - 1, _now, past] = QX[_now] + self.B[l - 1, _now, past]
            below = Qd[_now] @ _symmetric(self.Xi[l], _upto) @ Qd.T + a * a * QX[_now] @ k @ QX.T
            self.Xi[l - 1, _now, _upto] = below + a * a * net.weight * G[l, _now, _upto]

    def _outputs(self, t: int) -> Array:
        """Write the rows of the readout at time t and return f = <g^L h^L> / gamma, (P, C)."""
        now, upto, _now, _upto = self._windows(t)
        past, before = slice(0, now.start), slice(0, _now.start)
        errors = self.delta[before].reshape(-1, self.C)
        self.X[-1, _now, past] = self.step * self.net.readout * np.tile(errors.T, (self.P, 1))
        self.Xi[-1, _now, _upto] = np.tile(self.net.readout * np.eye(self.C), (self.P, (t + 1) * self.P))
        _unit(self.Q[-1], _now, self.X[-1, _now, past] @ self.Y[-1, past, before])
        X, Z = self.X[-1, _upto, past], _symmetric(self.Z[-1], upto)[past]
        both = X @ Z + _symmetric(self.Xi[-1], _upto)[:, before] @ self.Y[-1, upto, before].T
        w = self.Q[-1, _now.start : _now.start + self.C, _upto]
        return (w @ both @ self.R[-1, now, upto].T).T / self.task.gamma + self.shifts[t]

    def _tested(self) -> Array:
        """Return outputs at the test inputs, (T, M, C): h_* = Y_* g + zeta_* beside the trained inputs' matrices."""
        task, net, M = self.task, self.net, len(self.task.X_test)
        first = np.tile(net.first(task.X_test, task.X), (self.T, self.T))
        past = np.kron(np.tri(self.T, k=-1), np.ones((M, self.P * self.C)))
        Y, Z = self.step * spread(first, self.C) * self.delta * past, first
        for l, a in enumerate(net.scales):
            X, Q, R = self.X[l], self.Q[l], self.R[l]
            through = Y @ Q
            features = (through @ (X @ _mirror(self.Z[l]) + _mirror(self.Xi[l]) @ self.Y[l].T) + Z) @ R.T
            k, B, up = net.noise(features), self.B[l], self.R_up[l]
            A = a * a * net.weight * through + self.step * a * a * spread(k, self.C) * self.delta * past
            turned = Y + Y @ B @ up @ self.Y[l]
            G = _mirror(self.rows.gradients[l + 1])
            Z = (Z + Y @ B @ up @ _mirror(self.Z[l]) + a * a * net.weight * turned @ G @ self.Y[l].T) @ up.T + a * a * k
            Y = turned + A
        both = _mirror(self.rows.gradients[-1]) @ Y.T + self.Q[-1] @ self.X[-1] @ Z.T
        both = both.reshape(self.T, self.P, self.C, self.T, M)[:, 0]
        return np.einsum("tctm->tmc", both) / task.gamma + self.shifts[: self.T, None]


def _unit(inverse: Array, now: slice, row: Array) -> None:
    """Write the rows `now` of (I - K)^-1 from those of K before them: K is a lower triangle without diagonal blocks."""
    before = slice(0, now.start)
    inverse[now, before] = row @ inverse[before, before]
    inverse[now, now] = np.eye(now.stop - now.start)


def _symmetric(lower: Array, window: slice) -> Array:
    return _mirror(lower[window, window])


def _mirror(lower: Array) -> Array:
    return np.tril(lower) + np.tril(lower, -1).T
