"""Networks shaped by their width, built and at the edge where the width is infinite."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import DescriptionError
from deeplimits.layer import Dense, Repeat, ShapedResNet, ShapedTransformer, WeightedSkip

X = np.random.default_rng(0).standard_normal((3, 5))


def test_the_activation_keeps_the_variance_at_every_width():
    z = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
    weight = torch.exp(-z * z / 2) / sqrt(2 * np.pi) * (z[1] - z[0])
    for width in (4, 100):
        module = dl.build(Dense() >> dl.act.ShapedRelu(0.5, -1.5), width=width, depth=1, seed=0)[1]
        assert float((weight * module(z) ** 2).sum()) == pytest.approx(1.0, rel=1e-6)
        slopes = module(torch.tensor([1.0, -1.0], dtype=torch.float64))
        ratio = (1 - 1.5 / sqrt(width)) / (1 + 0.5 / sqrt(width))
        assert float(-slopes[1] / slopes[0]) == pytest.approx(ratio)


def test_a_weighted_skip_is_the_sum_it_says():
    net = Dense() >> Repeat(WeightedSkip(Dense(), skip=0.7, scale=0.4), 1) >> Dense(2)
    module = dl.build(net, width=8, depth=1, seed=0, features_in=5, dtype=torch.float64)
    x = module[0](torch.from_numpy(X))
    block = module[1][0]
    torch.testing.assert_close(block(x), 0.7 * x + 0.4 * block.branch(x))
    assert "skip=0.7, scale=0.4" in repr(block)
    with pytest.raises(DescriptionError, match="the skip has 8 features and the branch 4"):
        dl.build(Dense() >> WeightedSkip(Dense(4)), width=8, depth=1, seed=0, features_in=5)


def test_at_infinite_width_shapes_are_the_identity():
    start = X @ X.T / 5
    for net in (dl.ShapedMlp(), ShapedResNet(0.6), dl.ShapedMlp(2.0, -3.0)):
        np.testing.assert_allclose(dl.kernel(net, X, depth=7, get="nngp"), start, atol=1e-12)
    grown = dl.kernel(ShapedResNet(0.6, skip=1.0), X, depth=3, get="nngp")
    np.testing.assert_allclose(grown, start * 1.36**3, rtol=1e-12)


def test_kernels_of_a_weighted_skip_are_those_of_networks():
    report = dl.testing.check_layer(WeightedSkip(dl.act.Erf() >> Dense(), skip=0.7, scale=0.9), networks=200)
    assert len(report.checks) == 4


def test_a_transformer_has_both_blocks_and_its_heads():
    net = ShapedTransformer(0.5, heads=2, causal=True)
    module = dl.build(net, width=8, depth=2, seed=0, features_in=5, dtype=torch.float64)
    tokens = torch.from_numpy(X)
    assert module(tokens).shape == (3, 1)
    later = tokens.clone()
    later[2] += 1.0
    torch.testing.assert_close(module(later)[:2], module(tokens)[:2])
    assert not torch.allclose(module(later)[2], module(tokens)[2])
    plain = dl.build(ShapedTransformer(0.5, mlp=False), width=8, depth=2, seed=0, features_in=5)
    assert len(list(plain.parameters())) == 2 + 2 * 3
