"""Someone outside the package writes blocks: one increment each gives flow, kernel, diffusion, samples, the suite."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import NoRule
from deeplimits.finite.build import building
from deeplimits.layer import DEPTH, Dense, Increment, Layer, Repeat, Residual
from deeplimits.testing import CheckFailed, check_limit

X = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0]])


@dataclass(frozen=True)
class Biased(Layer):
    """W tanh(x) + b."""

    bias_std: float = 0.3


@dataclass(frozen=True)
class Gated(Layer):
    """(W tanh(x)) * (V sigmoid(x)), entry by entry."""


@dataclass(frozen=True)
class Mixed(Layer):
    """W (tanh(x) + x) / 2."""


class Map(torch.nn.Module):
    """One dense layer of a function of the state."""

    def __init__(self, function, dense):
        super().__init__()
        self.function, self.dense = function, dense

    def forward(self, x):
        return self.dense(self.function(x))


class Product(torch.nn.Module):
    def __init__(self, left, right):
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x):
        return self.left(torch.tanh(x)) * self.right(torch.sigmoid(x))


def dense(place, name, **options):
    return building(Dense(place.features, **options), place.at(name, place.features))[0]


def gate(u, v, mean):
    return mean(torch.tanh(u) * torch.tanh(v)) * mean(torch.sigmoid(u) * torch.sigmoid(v))


def mixed(u, v, mean):
    return mean((torch.tanh(u) + u) * (torch.tanh(v) + v)) / 4


@pytest.fixture(autouse=True)
def registered():
    rule, module = dl.increment.rule, building.rule
    rule(Biased, source="definition")(
        lambda layer: lambda u, v, mean: mean(torch.tanh(u) * torch.tanh(v)) + layer.bias_std**2
    )
    rule(Gated, source="definition")(
        lambda layer: Increment(gate, learned=lambda u, v, mean: 2 * gate(u, v, mean), gaussian=False)
    )
    rule(Mixed, source="definition")(lambda layer: mixed)
    module(Gated, source="definition")(
        lambda layer, place: (Product(dense(place, "left"), dense(place, "right")), place.features)
    )
    module(Mixed, source="definition")(
        lambda layer, place: (Map(lambda x: (torch.tanh(x) + x) / 2, dense(place, "dense")), place.features)
    )
    yield
    for kind in (Biased, Gated, Mixed):
        del dl.increment.rules[kind]
        building.rules.pop(kind, None)


def network(block):
    return Dense() >> Repeat(Residual(block, DEPTH**-0.5), DEPTH) >> Dense(features=1)


def test_one_increment_gives_every_place_of_the_plane():
    net = network(Biased())
    flow = dl.kernel(net, X, depth=inf)
    gaps = [np.abs(dl.kernel(net, X, depth=depth).nngp - flow.nngp).max() for depth in (8, 16, 32)]
    assert 1.8 < gaps[0] / gaps[1] < 2.2 and 1.8 < gaps[1] / gaps[2] < 2.2
    law = dl.diffusion(net, X, width=64, samples=1000, seed=0)
    assert (np.abs(law.mean - flow.nngp) < 4 * law.standard_error + law.step_error * flow.nngp.max()).all()
    sampled = dl.sample(net, X, width=64, depth=8, networks=1000, seed=0)
    assert (np.abs(sampled.mean - dl.kernel(net, X, depth=8).nngp) < 4 * sampled.standard_error).all()
    with pytest.raises(NoRule, match="no module can be built"):
        dl.build(net, width=8, depth=2, seed=0)


def test_the_suite_says_what_the_samples_share():
    report = check_limit(Biased(), X, networks=200)
    assert report["kernel tends to the flow"].measured == pytest.approx(-1, abs=0.1)
    assert "Biased has no module of its own: the sampled networks share its increment" in str(report)


@pytest.mark.slow  # a flow of two quadratures and 100 modules; covers the suite on a block that is not Gaussian
def test_a_gated_block_with_its_module_passes():
    report = check_limit(Gated(), X, width=16, networks=100)
    parts = [check.part for check in report.checks]
    assert {"module: covariance", "module: tangent kernel", "networks and kernel", "tangent kernel"} <= set(parts)
    assert all(check.low <= check.measured <= check.high for check in report.checks)
    assert not any("share its increment" in note for note in report.notes)


WRONG = {
    "a factor of two": (
        Gated,
        Increment(lambda u, v, mean: 2 * gate(u, v, mean), gaussian=False),
        "module: covariance",
    ),
    "averages that belong apart": (
        Gated,
        Increment(lambda u, v, mean: mean(torch.tanh(u) * torch.tanh(v) * torch.sigmoid(u) * torch.sigmoid(v))),
        "module: covariance",
    ),
    "one layer of weights forgotten": (Gated, Increment(gate, gaussian=False), "module: tangent kernel"),
    "said to be Gaussian": (
        Gated,
        Increment(gate, learned=lambda u, v, mean: 2 * gate(u, v, mean)),
        "module: Gaussian",
    ),
    "a cross term forgotten": (
        Mixed,
        lambda u, v, mean: (mean(torch.tanh(u) * torch.tanh(v)) + mean(u * v)) / 4,
        "module: covariance",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_increment_beside_a_module_is_caught(mistake):
    kind, wrong, part = WRONG[mistake]
    dl.increment.rule(kind, source="definition", replace=True)(lambda layer: wrong)
    with pytest.raises(CheckFailed, match=rf"check_limit\({kind.__name__}\(\)\): {part}: .* standard errors"):
        check_limit(kind(), X, width=16, networks=100)


def test_a_right_increment_of_one_layer_passes_beside_its_module():
    report = check_limit(Mixed(), X, width=16, networks=100)
    assert report["module: Gaussian"].measured < report["module: Gaussian"].high
