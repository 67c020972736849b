"""Blocks given by their increment in sampled networks: the law is that of the same block written with parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.architecture.increment import Increment
from deeplimits.errors import AccuracyWarning, DescriptionError, NoRule
from deeplimits.finite.build import building
from deeplimits.layer import DEPTH, Dense, Layer, Orthogonal, Repeat, Residual

PAIR = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, -1.0]])


@dataclass(frozen=True)
class Branch(Layer):
    """W tanh(x) + b."""

    bias_std: float = 0.4


@dataclass(frozen=True)
class Wrong(Layer):
    """A block whose increment is no covariance, or not Gaussian."""

    kind: str = "indefinite"


@pytest.fixture(autouse=True, scope="module")
def registered():
    @dl.increment.rule(Branch, source="definition")
    def branch(layer):
        return lambda u, v, mean: mean(torch.tanh(u) * torch.tanh(v)) + layer.bias_std**2

    @dl.increment.rule(Wrong, source="definition")
    def wrong(layer):
        if layer.kind == "indefinite":
            return lambda u, v, mean: mean(u * v) * mean(u * v) - 2 * mean(u * u) * mean(v * v)
        if layer.kind == "shape":
            return lambda u, v, mean: u * v
        return Increment(lambda u, v, mean: mean(u * v), gaussian=False)

    yield
    for kind in (Branch, Wrong):
        del dl.increment.rules[kind]


def network(block, **readin):
    return Dense(**readin) >> Repeat(Residual(block, DEPTH**-0.5), DEPTH) >> Dense(features=1)


def test_the_law_is_that_of_the_block_written_with_parts():
    own = dl.sample(network(Branch()), PAIR, width=12, depth=5, networks=2000, seed=0)
    parts = dl.sample(dl.ResNet("tanh", bias_std=0.4), PAIR, width=12, depth=5, networks=2000, seed=1)
    error = np.hypot(own.standard_error, parts.standard_error)
    assert (np.abs(own.mean - parts.mean) < 4.5 * error).all()
    error = np.hypot(own.log_variance_error, parts.log_variance_error)
    assert (np.abs(own.log_variance - parts.log_variance) < 4.5 * error).all()


def test_a_prefix_of_the_networks_is_the_same():
    many = dl.sample(network(Branch()), PAIR, width=8, depth=3, networks=40, seed=0)
    few = dl.sample(network(Branch()), PAIR, width=8, depth=3, networks=10, seed=0)
    np.testing.assert_allclose(many.gram[:10], few.gram, rtol=1e-12)


def test_what_needs_weights_is_refused():
    with pytest.raises(NoRule, match=r"no module can be built.*@building.rule\(Branch, source=...\)"):
        dl.build(network(Branch()), width=4, depth=2, seed=0)
    with pytest.raises(DescriptionError, match="NTK needs the weights of Branch"):
        dl.sample(network(Branch()), PAIR, width=4, depth=2, networks=2, seed=0, get="ntk")
    with pytest.raises(NoRule, match="no module can be built"):
        dl.sample(network(Branch(), weights=Orthogonal()), PAIR, width=8, depth=2, networks=2, seed=0)


def test_a_module_of_its_own_is_used_where_there_is_one():
    class Doubled(torch.nn.Module):
        def __init__(self, dense):
            super().__init__()
            self.dense = dense

        def forward(self, x):
            return 0.0 * self.dense(torch.tanh(x))

    @building.rule(Branch, source="definition")
    def module(layer, place):
        dense, features = building(Dense(place.features), place.at("dense", place.features))
        return Doubled(dense), features

    try:
        found = dl.sample(network(Branch()), PAIR, width=64, depth=4, networks=200, seed=0, get=("nngp", "ntk"))
        assert dl.build(network(Branch()), width=4, depth=2, seed=0) is not None
    finally:
        del building.rules[Branch]
    assert (np.abs(found.mean - PAIR @ PAIR.T / 5) < 4.5 * found.standard_error).all()
    assert found.ntk is not None


@pytest.mark.parametrize(
    ("kind", "words"), [("indefinite", "not positive semi-definite"), ("shape", "not one number for each pair")]
)
def test_a_wrong_increment_is_refused(kind, words):
    with pytest.raises(DescriptionError, match=words):
        dl.sample(network(Wrong(kind)), PAIR, width=4, depth=2, networks=4, seed=0)
    with pytest.raises(DescriptionError, match=words):
        dl.diffusion(network(Wrong(kind)), PAIR, width=4, depth=2, samples=4, seed=0)


def test_outputs_that_are_not_gaussian_are_told():
    net = network(Wrong("loose"))
    with pytest.warns(AccuracyWarning, match="sample: the outputs of Wrong, not Gaussian"):
        dl.sample(net, PAIR, width=4, depth=2, networks=4, seed=0)
    with pytest.warns(AccuracyWarning, match="diffusion: the outputs of Wrong are not Gaussian"):
        law = dl.diffusion(net, PAIR, width=4, depth=2, samples=4, seed=0)
    assert "right up to order 1/depth" in law.describe()
