"""Kinks with biases, whose inputs come together layer by layer: the angle is kept however small it gets."""

from __future__ import annotations

import numpy as np
import pytest

import deeplimits as dl
from deeplimits import act
from deeplimits.layer import Dense, LayerNorm, Repeat
from deeplimits.limits.kernel import near
from deeplimits.limits.kernel.lowering import lower
from deeplimits.limits.kernel.tile import gap

NORMS = np.random.default_rng(1).uniform(0.01, 3, (40, 1))
X = np.random.default_rng(0).standard_normal((40, 10)) * NORMS
FAMILIES = {
    "relu": dl.Mlp("relu", 1.0, 0.1),
    "critical": dl.Mlp("relu", 2**0.5, 0.1),
    "leaky": dl.Mlp(act.LeakyRelu(0.2), 1.0, 0.1),
    "abs": dl.Mlp("abs", 0.7, 0.1),
    "step": dl.Mlp("step", 1.0, 1.0),
    "sign": dl.Mlp("sign", 1.0, 1.0),
    "resnet": dl.ResNet("relu", 1.0, 0.3),
    "layer norm": Dense() >> Repeat(LayerNorm() >> act.Relu() >> Dense(bias_std=0.2)) >> Dense(1),
}


def exact(net, depth, i, j):
    """The recursion in the angle, which test_near_coincident holds to 1e-13 of 50-digit values."""
    end = near.run(lower(net, depth, X.shape[1]).tape(), near.from_vectors(X[i], X[j]))
    return end.k, end.theta


@pytest.mark.parametrize("depth", [1, 5, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_pair_by_its_angle(family, depth):
    net = FAMILIES[family]
    tape = lower(net, depth, X.shape[1]).tape()
    assert gap.supports(tape)
    i, j = np.triu_indices(len(X), 1)
    for found, expected in zip(gap.evaluate(tape, X, None), exact(net, depth, i, j), strict=True):
        np.testing.assert_allclose(found[i, j], expected, rtol=0, atol=1e-13 * found.diagonal().max())
        np.testing.assert_array_equal(found, found.T)
    for square, rectangle in zip(gap.evaluate(tape, X, None), gap.evaluate(tape, X[:30], X[30:]), strict=True):
        np.testing.assert_allclose(rectangle, square[:30, 30:], rtol=0, atol=1e-13 * square.diagonal().max())


@pytest.mark.parametrize("depth", [3, 20, 64])
@pytest.mark.parametrize("family", ["relu", "leaky", "abs"])
def test_ordered_kinks_are_exact(family, depth):
    """At depth 64 all angles are near 2^-32, where 1 - cos is below rounding."""
    i, j = np.triu_indices(len(X), 1)
    k = dl.kernel(FAMILIES[family], X, depth=depth)
    for found, expected in zip((k.nngp, k.ntk), exact(FAMILIES[family], depth, i, j), strict=True):
        np.testing.assert_allclose(found[i, j], expected, rtol=0, atol=2e-12 * found.diagonal().max())


def test_two_sets_and_mixed_steps():
    """Steps without a formula in the gap (gelu) go pair by pair; twins and opposite inputs are exact too."""
    twins = np.concatenate([X[:4], X[:2] * (1 + 1e-9), -X[:2]])
    mixed = Dense(bias_std=0.1) >> Repeat(act.Relu() >> Dense(bias_std=0.1), 60) >> act.Gelu() >> Dense(1)
    for net, depth in ((FAMILIES["relu"], 64), (mixed, None)):
        together, apart = dl.kernel(net, twins, depth=depth), dl.kernel(net, twins, twins[:5], depth=depth)
        for kind in ("nngp", "ntk"):
            one, other = getattr(together, kind), getattr(apart, kind)
            np.testing.assert_allclose(one[:, :5], other, rtol=0, atol=1e-13 * one.max())


@pytest.mark.parametrize("size", [1e-7, 1e-8, 1e-9])
def test_inputs_much_smaller_than_the_biases(size):
    for depth in (1, 3, 20):
        k = dl.kernel(dl.Mlp("relu", 2**0.5, 0.1), X / NORMS * size, depth=depth)
        for matrix in (k.nngp, k.ntk):
            values = np.linalg.eigvalsh(matrix)
            assert values[0] >= -1e-12 * values[-1]
