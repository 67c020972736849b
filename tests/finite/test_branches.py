"""Trained networks that add a mean: beside gradients written out by hand, and what is refused."""

from __future__ import annotations

from math import inf

import numpy as np

from deeplimits.errors import DeepLimitsError
from deeplimits.numerics.embedded import embedded
from deeplimits.numerics.seeds import generator
from deeplimits.training import MeanResNet, train_branches
from tests.limits.refusal import refused

X, Y = np.array([[1.0, 0.5], [-0.3, 2.0]]), np.array([1.0, -1.0])


def test_steps_are_those_written_out_by_hand():
    """One block of 3 units: f = w . (x + alpha/M sum v phi(u . x / sqrt D)), units moving by rate M / alpha^2."""
    alpha, rate = 1.5, 0.2
    found = train_branches(MeanResNet("tanh", scale=alpha), X, Y, depth=1, inner=3, networks=2, steps=3, rate=rate)
    w = embedded("test", X, Y, None, None, None).out[:, 0]
    for index in range(2):
        stream = generator(0, "branches", index)
        u, v = stream.standard_normal((3, 2)), stream.standard_normal((3, 2))
        for step in range(4):
            phi = np.tanh(X @ u.T / 2**0.5)
            f = (X + alpha / 3 * phi @ v) @ w
            np.testing.assert_allclose(found.outputs[index, step], f, rtol=1e-12)
            errors = (Y - f)[:, None]
            gate = errors * (1 - phi**2) * (v @ w)
            u, v = u + rate / alpha * gate.T @ X / 2**0.5, v + rate / alpha * (errors * phi).sum(0)[:, None] * w


def test_the_first_networks_of_more_are_the_same():
    options = {"depth": 2, "inner": 2, "steps": 2, "rate": 0.1, "X_test": X[:1]}
    few = train_branches(MeanResNet(), X, Y, networks=2, **options)
    more = train_branches(MeanResNet(), X, Y, networks=3, **options)
    np.testing.assert_allclose(more.outputs[:2], few.outputs, rtol=1e-12)
    np.testing.assert_allclose(few.test_outputs[..., 0], few.outputs[..., 0], rtol=1e-12)
    assert few.mean.shape == few.standard_error.shape == (3, 2)


def ask(net=MeanResNet(), x=X, y=Y, **options):  # noqa: B008 - frozen
    asked = {"depth": 2, "inner": 2, "networks": 2, "steps": 2, "rate": 0.1, **options}
    return lambda: train_branches(net, x, y, **asked)


def test_refused_by_name():
    refused(ask(net="tanh"), DeepLimitsError, "MeanResNet")
    refused(ask(MeanResNet(scale=inf)), DeepLimitsError, "scale=inf")
    refused(ask(MeanResNet(readout="trained")), DeepLimitsError, "readout_units")
    refused(ask(MeanResNet(readout="trained"), readout_units=5, unembedding=X), DeepLimitsError, "unembedding")
    refused(ask(readout_units=5), DeepLimitsError, "no effect")
    refused(ask(networks=1), DeepLimitsError, "networks=1")
    refused(ask(inner=0), DeepLimitsError, "inner=0")
    refused(ask(rate=-1.0), DeepLimitsError, "rate=-1.0")
    refused(ask(MeanResNet("identity"), x=9 * X, rate=10.0, steps=60), DeepLimitsError, "diverges at step")
