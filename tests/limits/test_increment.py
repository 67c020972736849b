"""Kernels of blocks given by their increment, against the same blocks written with parts, and what is refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import exp, inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.architecture.increment import Increment
from deeplimits.errors import AccuracyWarning, DescriptionError, NoRule
from deeplimits.layer import DEPTH, Dense, Layer, Repeat, Residual, RMSNorm
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.kernel.increment import TOLERANCE, Block

ONE = np.ones((1, 3))
PAIR = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0]])
MIXED = np.array([[1.0, 0.2, -0.4], [0.3, -1.0, 0.5], [2.0, 0.4, -0.8]])


@dataclass(frozen=True)
class Branch(Layer):
    """W f(x) + b."""

    name: str = "tanh"
    bias_std: float = 0.0


@dataclass(frozen=True)
class Normed(Layer):
    """W relu(x / sqrt(mean of squares))."""


@dataclass(frozen=True)
class Product(Layer):
    """W tanh(x) * V sigmoid(x)."""


@dataclass(frozen=True)
class Odd(Layer):
    """Whatever a test wants to go wrong."""

    kind: str = ""


@dataclass(frozen=True)
class Unknown(Layer):
    """A block nobody has a rule for."""


WRONG = {
    "shape": lambda u, v, mean: u * v,
    "infinite": lambda u, v, mean: mean(u * v) * float("inf"),
    "asymmetric": lambda u, v, mean: mean(torch.sigmoid(u) * torch.tanh(v)),
    "kink": lambda u, v, mean: mean(torch.relu(u - 0.7) * torch.relu(v - 0.7)),
    "type": lambda u, v, mean: "a word",
    "loose": Increment(lambda u, v, mean: mean(u * v) / 2, gaussian=False),
}


@pytest.fixture(autouse=True, scope="module")
def registered():
    rule = dl.increment.rule

    @rule(Branch, source="definition")
    def branch(layer):
        f = getattr(torch, layer.name)
        return lambda u, v, mean: mean(f(u) * f(v)) + layer.bias_std**2

    @rule(Normed, source="definition")
    def normed(layer):
        unit = lambda u, mean: torch.relu(u / mean(u * u).sqrt())
        return lambda u, v, mean: mean(unit(u, mean) * unit(v, mean))

    @rule(Product, source="definition")
    def product(layer):
        def covariance(u, v, mean):
            return mean(torch.tanh(u) * torch.tanh(v)) * mean(torch.sigmoid(u) * torch.sigmoid(v))

        return Increment(covariance, learned=lambda u, v, mean: 2 * covariance(u, v, mean), gaussian=False)

    rule(Odd, source="definition")(lambda layer: WRONG.get(layer.kind, layer.kind))
    yield
    for kind in (Branch, Normed, Product, Odd):
        del dl.increment.rules[kind]


def network(block, **readin):
    return Dense(**readin) >> Repeat(Residual(block, DEPTH**-0.5), DEPTH) >> Dense(features=1)


def close(found, expected, tolerance):
    for name in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_equals_the_same_block_written_with_parts(name, depth):
    parts = dl.ResNet(name, bias_std=0.3)
    close(dl.kernel(network(Branch(name, 0.3)), MIXED, depth=depth), dl.kernel(parts, MIXED, depth=depth), 1e-10)


def test_tanh_at_infinite_depth():
    found = dl.kernel(network(Branch("tanh")), PAIR, depth=inf)
    close(found, dl.kernel(dl.ResNet("tanh"), PAIR, depth=inf), 1e-10)
    assert abs(found.nngp[0, 0] - 1.42790) < 1e-5


@pytest.mark.slow  # a kink needs 64 Runge-Kutta steps; covers the golden values of ReLU at depth 64 and infinity
def test_relu_at_large_and_infinite_depth():
    close(dl.kernel(network(Branch("relu")), PAIR, depth=64), dl.kernel(dl.ResNet("relu"), PAIR, depth=64), 1e-12)
    found = dl.kernel(network(Branch("relu")), ONE, depth=inf)
    assert abs(found.nngp[0, 0] - exp(0.5)) < 1e-10
    assert abs(found.ntk[0, 0] - 2.5 * exp(0.5)) < 1e-10


def test_averages_inside_averages():
    parts = network(RMSNorm() >> dl.act.Relu() >> Dense())
    close(dl.kernel(network(Normed()), MIXED, depth=4), dl.kernel(parts, MIXED, depth=4), 1e-10)


@pytest.mark.parametrize("apart", [1e-3, 1e-7, 1e-11])
def test_nearly_coincident_inputs(apart):
    rows = np.array([[1.0, 0.5, 0.25], [1.0, 0.5, 0.25 + apart]])
    close(dl.kernel(network(Branch("relu")), rows, depth=4), dl.kernel(dl.ResNet("relu"), rows, depth=4), 1e-13)


@pytest.mark.parametrize("ratio", [1.0, 1.3])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_small_gaps_keep_their_own_accuracy(name, ratio):
    gap = np.array([0.0, 1e-18, 1e-12, 1e-8, 1e-4, 5e-3, 0.019, 0.021, 0.5, 1.0, 1.9, 2.0])
    q1, s = np.ones_like(gap), np.sqrt(ratio)
    found = Block(Branch(name)).near(gap * s, (2 - gap) * s, q1, ratio * q1)
    expected = family(dl.act.activation(name)).near(gap * s, (2 - gap) * s, q1, ratio * q1)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)  # of the quadrature, relative to the diagonal
    np.testing.assert_allclose(found[0][:4], expected[0][:4], rtol=1e-9)  # integrated over the gap


def test_a_block_without_a_skip_has_a_phase():
    found = dl.describe(Dense() >> Repeat(Branch("tanh", 2.0)) >> Dense(1), probe=(1.0,))
    expected = dl.describe(Dense() >> Repeat(dl.act.Tanh() >> Dense(bias_std=2.0)) >> Dense(1), probe=(1.0,))
    assert "ordered phase" in str(found) and str(found)[:140] == str(expected)[:140]


def test_what_is_learned_enters_the_tangent_kernel_alone():
    with pytest.warns(AccuracyWarning, match="Gaussian only up to a term of order 1/depth"):
        found = dl.kernel(network(Product()), ONE, depth=1)
    z, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    sigmoid = 1 / (1 + np.exp(-z))
    a, b = weights @ np.tanh(z) ** 2, weights @ sigmoid**2
    slope = (weights @ (1 - np.tanh(z) ** 2) ** 2) * b + a * (weights @ (sigmoid * (1 - sigmoid)) ** 2)
    k = 1 + a * b
    assert abs(found.nngp[0, 0] - k) < 1e-9
    assert abs(found.ntk[0, 0] - (1 + slope + 2 * a * b + k)) < 1e-8


def test_the_limit_of_a_block_that_is_not_gaussian_is_told_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dl.kernel(network(Odd("loose")), ONE, depth=inf, get="nngp")
    assert abs(found[0, 0] - exp(0.5)) < 1e-10


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("shape", "not one number for each pair of inputs.*put every use of u and v inside mean"),
        ("infinite", "not finite"),
        ("asymmetric", r"not symmetric: C\(u, v\) = .* where C\(v, u\) ="),
        ("type", "returned a str"),
        ("", "the increment's rule returned a str"),
    ],
)
def test_a_wrong_increment_is_refused(kind, words):
    with pytest.raises(DescriptionError, match=words):
        dl.kernel(network(Odd(kind)), PAIR, depth=2)


def test_a_kink_away_from_zero_says_its_error():
    with pytest.warns(AccuracyWarning, match="quadrature of the increment of Odd is good to"):
        dl.kernel(network(Odd("kink")), ONE, depth=1)


def test_a_block_without_rules_names_the_line_to_write():
    with pytest.raises(NoRule, match=r"@kernel.rule\(Unknown, source=...\) or @increment.rule\(Unknown, source=...\)"):
        dl.kernel(network(Unknown()), ONE, depth=2)


def test_what_an_increment_cannot_tell():
    net = network(Branch())
    with pytest.raises(DescriptionError, match="number of inputs"):
        dl.kernel(net, ONE, depth=2, parametrization="standard", widths=8)
    with pytest.raises(DescriptionError, match="no gradients"):
        dl.kernel(net, torch.ones(1, 3, dtype=torch.float64, requires_grad=True), depth=2)
    with pytest.raises(DescriptionError, match="not Gaussian in the limit"):
        dl.kernel(Branch() >> Dense(features=1), ONE, depth=2)
    with pytest.raises(DescriptionError, match="use Gaussian weights"):
        dl.increment(Dense(weights=dl.layer.Orthogonal()))
