"""Model-agnostic meta-learning of linear networks of one hidden layer: adaptation, and the gradient through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.training.one_hidden import network
from deeplimits.limits.training.one_hidden.loss import Loss
from deeplimits.limits.training.one_hidden.start import Neurons

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tasks:
    """K tasks: support inputs (K, P, r) over sqrt(d) and targets (K, P, C), queries (K, Q, r) and (K, Q, C)."""

    support: Array
    support_targets: Array
    query: Array
    query_targets: Array


@dataclass(frozen=True, eq=False)
class Adaptation:
    """How networks learn a task: `steps` of gradient descent on its support, of rate `rate` n.

    theta_{i+1} = theta_i - rate n grad L_support(theta_i); with H_i the second derivative of L_support,
    grad L_query(theta_k) in theta_0 = (1 - rate n H_0) ... (1 - rate n H_{k-1}) grad L_query(theta_k),
    all H dropped where `first_order`.
    """

    loss: Loss
    rate: float
    steps: int
    first_order: bool = False

    def adapt(self, start: Neurons, tasks: Tasks) -> list[Neurons]:
        """Return the neurons before every inner step and after the last, (R, K, n, ...)."""
        path = [Neurons(start.U[:, None], start.V[:, None], start.weight)]
        for _ in range(self.steps):
            now = path[-1]
            chi = self.loss.slope(answers(now, tasks.support), tasks.support_targets)
            dU, dV = _gradient(now, tasks.support, chi)
            path.append(Neurons(now.U - self.rate * dU, now.V - self.rate * dV, now.weight))
        return path

    def gradient(self, path: list[Neurons], tasks: Tasks) -> tuple[Array, Array]:
        """Return n times the gradient of the query losses at the end of a path in its start, the mean over tasks."""
        end = path[-1]
        along = _gradient(end, tasks.query, self.loss.slope(answers(end, tasks.query), tasks.query_targets))
        for now in path[-2::-1] if not self.first_order else ():
            f = answers(now, tasks.support)
            chi = self.loss.slope(f, tasks.support_targets)

            def turn(change: Array, f: Array = f) -> Array:
                return self.loss.turn(f, tasks.support_targets, change)

            bent = network.curvature(now.U, now.V, tasks.support, chi, turn, along, now.weight)
            along = along[0] - self.rate * bent[0], along[1] - self.rate * bent[1]
        return along[0].mean(axis=1), along[1].mean(axis=1)


def answers(neurons: Neurons, X: Array) -> Array:
    """Return the outputs of adapted networks, (R, K, P, C)."""
    return network.outputs(X @ neurons.U.swapaxes(-1, -2), neurons.V, neurons.weight)


def _gradient(neurons: Neurons, X: Array, chi: Array) -> tuple[Array, Array]:
    return network.gradient(X @ neurons.U.swapaxes(-1, -2), None, neurons.V, X, chi)
