"""What a march of a residual network fills row by row, and the course it makes of it."""

from __future__ import annotations

import numpy as np

from deeplimits.limits.training.mean_field.record import Array, Course
from deeplimits.limits.training.mean_field.residual_blocks import Blocks, spread


class Rows:
    """Matrices over (time, input) and (time, input, output), lower triangles in time, filled time by time.

    Layers 0 .. L of features are phi(h^0), ..., phi(h^{L-1}) and h^L; of gradients g^0, ..., g^L.
    """

    def __init__(self, layers: int, times: int, inputs: int, outputs: int, test: int):
        self.shape = times, inputs, outputs
        n, q = times * inputs, times * inputs * outputs
        self.features, self.gradients = np.zeros((layers + 1, n, n)), np.zeros((layers + 1, q, q))
        self.feature_responses, self.gradient_responses = np.zeros((layers, n, q)), np.zeros((layers, q, n))
        self.outputs, self.test_outputs = np.zeros((times, inputs, outputs)), np.zeros((times, test, outputs))

    @staticmethod
    def needed(layers: int, times: int, inputs: int, outputs: int) -> int:
        """Return the bytes of these matrices and of the course made of them."""
        n, q = times * inputs, times * inputs * outputs
        return 8 * (2 * (layers + 1) * (n * n + q * q) + 4 * layers * n * q + 3 * q * q)

    def course(self, net: Blocks, first: Array) -> Course:
        """Return the course, its kernel summed over layers; `first` is the covariance of the read-in, (P, P)."""
        times, inputs, outputs = self.shape
        features, gradients = _mirrored(self.features), _mirrored(self.gradients)
        kernel = np.kron(net.readout * features[-1] + net.readout_bias, np.eye(outputs))
        kernel += _repeated(np.tile(first, (times, times)), outputs) * gradients[0]
        for l, a in enumerate(net.scales):
            kernel += a * a * _repeated(net.noise(features[l]), outputs) * gradients[l + 1]
        return Course(
            self.outputs,
            self._by_time(features, inputs, inputs),
            self._by_time(gradients, inputs * outputs, inputs * outputs),
            self._by_time(self.feature_responses, inputs, inputs * outputs),
            self._by_time(self.gradient_responses, inputs * outputs, inputs),
            self._by_time(kernel, inputs * outputs, inputs * outputs)[0],
            self.test_outputs,
        )

    def _by_time(self, matrices: Array, rows: int, columns: int) -> Array:
        times = self.shape[0]
        return matrices.reshape(-1, times, rows, times, columns).transpose(0, 1, 3, 2, 4)


def _mirrored(lower: Array) -> Array:
    """Return symmetric matrices of which the block lower triangle is filled."""
    return np.tril(lower) + np.tril(lower, -1).swapaxes(-1, -2)


def _repeated(matrix: Array, outputs: int) -> Array:
    return spread(spread(matrix, outputs).swapaxes(-1, -2), outputs).swapaxes(-1, -2)
