"""Perceptrons in the mean-field limit: which solver answers, in how much memory, and the march through time."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.training.mean_field.chain import Chain, read
from deeplimits.limits.training.mean_field.jacobian import JacobianSite, kinked
from deeplimits.limits.training.mean_field.linear import LinearSite
from deeplimits.limits.training.mean_field.noise import Normals
from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.limits.training.mean_field.site import Entry, Site
from deeplimits.limits.training.mean_field.task import Diverged, Report, Task, exploded


def solvers(task: Task) -> tuple[str, ...]:
    """Return the solvers that can answer, the default first.

    Raises:
        NoLimit: infinite depth.
        NoRule: not a perceptron with Gaussian weights and one width.
    """
    chain = read(task.net, task.depth)
    if all(layer.linear for layer in chain.hidden):
        return ("exact", "stein", "jacobian")
    return ("stein",) if any(kinked(layer.function) for layer in chain.hidden) else ("stein", "jacobian")


def needed(task: Task) -> int:
    """Return the bytes needed: kernels (P T)^2 of the march and of what is averaged, particles P T S of the march."""
    layers, times = len(read(task.net, task.depth).hidden), task.steps + 1
    n, q = times * len(task.X), times * task.y.size
    matrices = (n + q) ** 2 * layers
    if task.solver == "exact":
        return 8 * (5 * matrices + 3 * q * q)
    paths = layers * 3 * (n + q) * task.particles // 2
    if task.solver == "jacobian":
        paths += 2 * layers * (n + q) * max(n, q) * task.particles
    return 8 * (7 * matrices + 5 * q * q + paths)


def march(task: Task, number: int, report: Report) -> Course:
    """Return one march over all times.

    At every time a sweep through the layers moves h, phi, Phi and C, then f; a sweep back moves z, g, G and D. All of
    it depends on the past alone, so nothing is iterated.

    Raises:
        Diverged: the outputs explode.

    Source: bordelon-pehlevan-2022 (the equations); the order of the march is derived here.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _March(task, read(task.net, task.depth), number).run(report)


class _March:
    """The sites of all layers, the errors so far, and what the march has found."""

    def __init__(self, task: Task, chain: Chain, number: int):
        self.task, self.chain = task, chain
        self.P, self.C, self.M, self.T = len(task.X), task.y.shape[1], len(task.X_test), task.steps + 1
        self.Q = self.P * self.C
        self.sites = [self._site(number, index) for index in range(len(chain.hidden))]
        both = np.concatenate([task.X, task.X_test])
        self.inputs = both @ task.X.T / task.X.shape[1]
        self.test_squares = (task.X_test**2).sum(1) / task.X.shape[1]
        self.push = np.zeros(self.T * self.Q)
        self.shift = np.zeros(self.C)
        self.outputs = np.zeros((self.T, self.P, self.C))
        self.test_outputs = np.zeros((self.T, self.M, self.C))

    def _site(self, number: int, index: int) -> LinearSite | Site:
        layer, last = self.chain.hidden[index], index == len(self.chain.hidden) - 1
        sizes = self.T, self.P, self.C
        if self.task.solver == "exact":
            return LinearSite(layer, *sizes, self.M, last)
        normals = Normals(self.task.particles // 2, self.task.seed, "mean field", number, "layer", index)
        return (JacobianSite if self.task.solver == "jacobian" else Site)(layer, *sizes, normals, last)

    def run(self, report: Report) -> Course:
        for t in range(self.T):
            self._forward(t)
            if exploded(self.outputs[t], self.task.y):
                raise Diverged(t, self._course())
            self._backward(t)
            report(t)
        return self._course()

    def _forward(self, t: int) -> None:
        task, chain, past = self.task, self.chain, t * self.Q
        push = self.push[:past]
        Phi = np.tile(self.inputs[: self.P], (1, t + 1))
        tests = np.tile(self.inputs[self.P :], (1, t + 1)), self.test_squares
        answer, test_answer = np.zeros((self.P, past)), np.zeros((self.M, past))
        for site in self.sites:
            v, b = site.layer.weight, site.layer.bias
            entry = Entry(v * Phi + b, v * answer, v * tests[0] + b, v * tests[1] + b, v * test_answer)
            *tests, test_answer = site.forward(t, entry, push)
            now = slice(t * self.P, (t + 1) * self.P)
            Phi, answer = site.Phi[now, : (t + 1) * self.P], site.feature_answer[now, :past]
        top = self.sites[-1]
        for found, product in zip((self.outputs, self.test_outputs), top.readout(t, chain.weight, push), strict=True):
            found[t] = product / task.gamma + self.shift
        apart = task.y - self.outputs[t]
        self.push[past : past + self.Q] = task.rate * task.gamma * apart.reshape(-1)
        self.shift = self.shift + task.rate * chain.bias * apart.sum(0)

    def _backward(self, t: int) -> None:
        self.sites[-1].finish(t)
        now = slice(t * self.Q, (t + 1) * self.Q)
        for site, above in zip(self.sites[-2::-1], self.sites[:0:-1], strict=True):
            v = above.layer.weight
            rows, answer = above.G[now, : now.stop], above.gradient_answer[now, : (t + 1) * self.P]
            site.backward(t, v * rows, v * answer, self.push[: now.start])

    def _course(self) -> Course:
        T, sites = self.T, self.sites
        Phi = np.stack([_symmetric(site.Phi) for site in sites])
        G = np.stack([_symmetric(site.G) for site in sites])
        return Course(
            self.outputs, blocks(Phi, T), blocks(G, T),
            blocks(np.stack([site.feature_answer for site in sites])[:-1], T),
            blocks(np.stack([site.gradient_answer for site in sites])[1:], T),
            blocks(tangent(self.chain, self.inputs[: self.P], Phi, G, self.C), T), self.test_outputs,
        )  # fmt: skip


def blocks(matrices: Array, times: int) -> Array:
    """Return matrices over (time, row), shape (..., T a, T b), with the times apart: (..., T, T, a, b)."""
    *outer, n, m = matrices.shape
    return np.moveaxis(matrices.reshape(*outer, times, n // times, times, m // times), -3, -2)


def tangent(chain: Chain, inputs: Array, Phi: Array, G: Array, outputs: int) -> Array:
    """Return the NTK sum over layers of G^l o (weight_std^2 Phi^(l-1) + bias_std^2), and the readout's term.

    Args:
        chain: the network.
        inputs: X X^T / d, shape (P, P).
        Phi: of every hidden layer, over (time, input), shape (layers, T P, T P).
        G: of every hidden layer, over (time, input, output), shape (layers, T Q, T Q).
        outputs: C.
    """
    times = Phi.shape[1] // len(inputs)
    below = [np.tile(inputs, (times, times)), *Phi]
    wide = [np.repeat(np.repeat(matrix, outputs, 0), outputs, 1) for matrix in below]
    ntk = wide[-1] * chain.weight + chain.bias
    ntk *= np.tile(np.eye(outputs), (len(Phi[0]), len(Phi[0])))
    for layer, gradients, features in zip(chain.hidden, G, wide[:-1], strict=True):
        ntk += gradients * (layer.weight * features + layer.bias)
    return ntk


def _symmetric(lower: Array) -> Array:
    """Return the matrix whose blocks on and below the diagonal are given, those above it zero, with both filled."""
    return np.tril(lower) + np.tril(lower, -1).T
