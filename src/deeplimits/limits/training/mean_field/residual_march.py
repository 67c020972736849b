"""The causal march of a residual network: particles that see every layer, responses by Stein's lemma."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimits.limits.training.mean_field.noise import Growing
from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.limits.training.mean_field.residual_blocks import blocks, spread
from deeplimits.limits.training.mean_field.residual_course import Rows
from deeplimits.limits.training.mean_field.residual_noise import Shared, quasi
from deeplimits.limits.training.mean_field.task import Diverged, Report, Task, exploded


class March:
    """One march at a finite number of blocks.

    With per-site noise u^l ~ GP(s_w^2 Phi^l + s_b^2), r^l ~ GP(G^{l+1}) over (time, input), k = s_w^2 Phi + s_b^2,
    e = rate gamma and a = a_l, a site follows

    h^{l+1}(t) = h^l(t) + a [u^l(t) + s_w sum_{s<t} C^l(t, s) g^{l+1}(s)]
                 + e a^2 sum_{s<t} Delta(s) k^l(t, s) g^{l+1}(s)
    g^l(t) = g^{l+1}(t) + phi'(h^l(t)) { a s_w [r^l(t) + sum_{s<=t} D^l(t, s) phi(h^l(s))]
             + e a^2 s_w^2 sum_{s<t} Delta(s) G^{l+1}(t, s) phi(h^l(s)) }

    with h^0 = u + e sum Delta K g^0, g^L = s_o w + e s_o^2 sum Delta h^L, C^l = <d phi(h^l(t)) / d r^l(s)> and
    D^l = s_w <d g^{l+1}(t) / d u^l(s)>. Everything at t follows from earlier times, layer by layer, up and then down.

    Args:
        task: what is asked.
        number: of the march.
        layers: blocks.
        finest: blocks of the finest march whose noise is shared; a multiple of `layers` by a power of two.

    Source: derived; bordelon-2023-depthwise-transfer (continuous time).
    """

    def __init__(self, task: Task, number: int, layers: int, finest: int):
        self.task, self.net, self.layers = task, blocks(task.net, layers), layers  # type: ignore[arg-type]
        self.P, self.C, self.T, S = *task.y.shape, task.steps + 1, task.particles
        self.step = task.rate * task.gamma
        n, q = self.T * self.P, self.T * self.P * self.C
        points = np.concatenate([task.X, task.X_test])
        sizes = [len(points), self.C, *[self.P, self.P * self.C] * finest]
        table = quasi(sum(sizes), S // 2, task.seed, "mean field", number, "first")
        readin, readout, *first = np.split(table, np.cumsum(sizes)[:-1])

        def noise(name: str, sign: int, block: int) -> Any:
            places = range(block * finest // layers, (block + 1) * finest // layers)
            kind = ("features", "gradients").index(name)
            return Shared(sign, [first[2 * place + kind] for place in places], task.seed, (number, name), places)

        self.up = [Growing(n, noise("features", 1, l)) for l in range(layers)]
        self.down = [Growing(q, noise("gradients", -1, l)) for l in range(layers)]
        self.phi, self.g = np.empty((layers + 1, n, S)), np.empty((layers + 1, q, S))
        self.rows = Rows(layers, self.T, self.P, self.C, len(task.X_test))
        self.delta, self.shift = np.zeros(q), np.zeros(self.C)
        self.first = self.net.first(points, points)
        values, vectors = np.linalg.eigh(self.first)
        self.readin = vectors * np.sqrt(np.maximum(values, 0)) @ np.tile(readin, 2)
        self.readout = self.net.readout**0.5 * np.concatenate([readout, -readout], axis=1)

    def run(self, report: Report) -> Course:
        """Return the course.

        Raises:
            Diverged: the outputs explode.
        """
        for t in range(self.T):
            slopes = self._up(t)
            outputs = self.rows.outputs[t]
            if exploded(outputs, self.task.y):
                raise Diverged(t, self._course())
            apart = self.task.y - outputs
            self.delta[self._now(t, self.C)] = apart.ravel()
            self.shift = self.shift + self.task.rate * self.net.readout_bias * apart.sum(0)
            self._down(t, slopes)
            report(t)
        return self._course()

    def _course(self) -> Course:
        return self.rows.course(self.net, self.first[: self.P, : self.P])

    def _now(self, t: int, outputs: int = 1) -> slice:
        return slice(t * self.P * outputs, (t + 1) * self.P * outputs)

    def _up(self, t: int) -> list[Array]:
        """Carry all inputs up at time t, keep the outputs, and return phi'(h^l)."""
        P, net, before = self.P, self.net, t * self.P
        now, upto = self._now(t), slice(0, before + P)
        past = slice(0, before * self.C)
        pull = self.step * spread(np.tile(self.first[:, :P], t), self.C) * self.delta[past]
        h = self.readin + pull @ self.g[0, past]
        slopes = []
        for l, a in enumerate(net.scales):
            phi = net.family.function(h)
            slopes.append(net.family.derivative(h[:P]))
            self.phi[l, now] = phi[:P]
            row = phi @ self.phi[l, upto].T / phi.shape[1]
            self.rows.features[l, now, upto] = row[:P]
            response = self.down[l].slopes(phi, past.stop)
            self.rows.feature_responses[l, now, past] = response[:P]
            force = a * net.weight**0.5 * response
            force += self.step * a * a * spread(net.noise(row[:, :before]), self.C) * self.delta[past]
            h = h + a * self._field(l, net.noise(row), phi[P:]) + force @ self.g[l + 1, past]
        self.phi[-1, now] = h[:P]
        self.rows.features[-1, now, upto] = h[:P] @ self.phi[-1, upto].T / h.shape[1]
        self.w = self._readout(t)
        both = h @ self.w.T / (h.shape[1] * self.task.gamma) + self.shift
        self.rows.outputs[t], self.rows.test_outputs[t] = both[:P], both[P:]
        return slopes

    def _field(self, l: int, row: Array, test: Array) -> Array:
        """Return the Gaussian field of a block at all inputs, given its past: test inputs follow the training ones."""
        trained = self.up[l].extend(row[: self.P])
        if not len(test):
            return trained
        own = self.net.noise((test**2).mean(1))
        return np.concatenate([trained, self.up[l].beside(row[self.P :], own)])

    def _readout(self, t: int) -> Array:
        """Return s_o w at time t, (outputs, particles)."""
        push = self.step * self.net.readout * self.delta[: t * self.P * self.C].reshape(-1, self.C).T
        return self.readout + push @ self.phi[-1, : t * self.P]

    def _down(self, t: int, slopes: list[Array]) -> None:
        """Carry gradients down at time t."""
        net, before = self.net, t * self.P * self.C
        now, upto = self._now(t, self.C), slice(0, before + self.P * self.C)
        seen = slice(0, (t + 1) * self.P)
        g = np.tile(self.w, (self.P, 1))
        for l in range(self.layers, -1, -1):
            self.g[l, now] = g
            row = g @ self.g[l, upto].T / g.shape[1]
            self.rows.gradients[l, now, upto] = row
            if l == 0:
                return
            a = net.scales[l - 1]
            noise = self.down[l - 1].extend(row)
            response = self.up[l - 1].slopes(g, seen.stop) * net.weight**0.5
            self.rows.gradient_responses[l - 1, now, seen] = response
            force = a * net.weight**0.5 * response
            pull = (row[:, :before] * self.delta[:before]).reshape(len(g), -1, self.C).sum(2)
            force[:, : t * self.P] += self.step * a * a * net.weight * pull
            field = a * net.weight**0.5 * noise + force @ self.phi[l - 1, seen]
            g = g + spread(slopes[l - 1].T, self.C).T * field
