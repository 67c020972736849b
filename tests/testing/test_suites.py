"""The conformance suites fail where they should, and say so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import deeplimits as dl
from deeplimits.errors import DescriptionError, InputError
from deeplimits.finite.build import building
from deeplimits.layer import Layer
from deeplimits.testing import CheckFailed, check_layer, check_limit
from deeplimits.testing.agreement import Gap, agree, bound, extrapolated
from deeplimits.testing.record import Log


@dataclass(frozen=True)
class Block(Layer):
    """A block with a mistake."""

    mistake: str


@dataclass
class Melting(Layer):
    """A description that is not frozen."""

    number: float = 1.0


MISTAKES = {
    "shape": (lambda u, v, mean: u * v, "covariance: the covariance returned shape"),
    "asymmetric": (lambda u, v, mean: mean(u * v * v), "covariance: its covariance is not symmetric"),
    "indefinite": (lambda u, v, mean: mean(u * v) - mean(u * u) - mean(v * v), "positive semi-definite: smallest"),
    "first neuron": (lambda u, v, mean: mean(u[..., :1] * v[..., :1]), "order of neurons: differs by"),
    "batch": (
        lambda u, v, mean: mean(u * v) * torch.as_tensor(u).abs().max(),
        "order of inputs|diagonal|alone or among",
    ),
}


@pytest.fixture(autouse=True, scope="module")
def registered():
    dl.increment.rule(Block, source="definition")(lambda layer: MISTAKES[layer.mistake][0])
    dl.increment.rule(Melting, source="definition")(lambda layer: lambda u, v, mean: mean(u * v))
    yield
    for kind in (Block, Melting):
        del dl.increment.rules[kind]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_covariance_is_caught(mistake):
    with pytest.raises(CheckFailed, match=MISTAKES[mistake][1]):
        check_limit(Block(mistake))


def test_a_description_that_can_change_is_caught():
    with pytest.raises(CheckFailed, match=r"description: it is no frozen dataclass\. Fix: write @dataclass"):
        check_limit(Melting())


def test_a_block_without_an_increment_is_caught():
    with pytest.raises(CheckFailed, match=r"rule: it has no increment.*@increment.rule"):
        check_limit(dl.act.Relu())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"layer": 3}, DescriptionError),
        ({"width": 1}, InputError),
        ({"networks": 2}, InputError),
        ({"depth": 0}, InputError),
        ({"chance": 2.0}, DescriptionError),
    ],
)
def test_bad_input(changes, error):
    with pytest.raises(error):
        check_limit(**({"layer": dl.ResNet("relu")} | changes))


def test_a_kernel_that_disagrees_with_its_module_is_caught():
    @dataclass(frozen=True)
    class Half(Layer):
        """A module that halves, with the kernel of the identity."""

    from deeplimits.limits.kernel import kernel

    class Module(torch.nn.Module):
        def forward(self, x):
            return x / 2

    kernel.rule(Half, source="definition")(lambda layer, state: None)
    building.rule(Half, source="definition")(lambda layer, place: (Module(), place.features))
    try:
        with pytest.raises(CheckFailed, match=r"check_layer\(.*Half\(\)\): NNGP: .* standard errors"):
            check_layer(Half(), networks=50, width=16)
    finally:
        del kernel.rules[Half], building.rules[Half]


def test_check_layer_holds_for_an_activation():
    report = check_layer(dl.act.Tanh(), networks=100, width=32)
    assert [check.part for check in report.checks] == ["description", "hashable", "NNGP", "NTK"]
    assert "4 checks held (a right layer fails with chance 0.0001)" in str(report)


def test_extrapolation_takes_out_the_first_order():
    small, large = (Gap(np.array([3.0 / n + 5.0 / n**2]), np.array([0.1])) for n in (32, 64))
    gap = extrapolated(small, large)
    assert abs(gap.value[0] + 2.5 / 32**2) < 1e-12
    assert abs(gap.error[0] - 0.1 * 5**0.5) < 1e-12


def test_agreement_is_a_test_in_standard_errors():
    log = Log("suite", "layer", 1e-4)
    agree("near", Gap(np.array([0.3, -0.39]), np.array([0.1, 0.1])), "a", "b", bound(1e-4, 2), log)
    agree("exact", Gap(np.zeros(1), np.zeros(1)), "a", "b", 4.0, log)
    agree("allowed", Gap(np.array([1.0]), np.array([0.1]), 0.8), "a", "b", 4.0, log)
    assert log.report()["near"].measured == pytest.approx(3.9)
    assert log.report()["allowed"].measured == pytest.approx(2.0)
    with pytest.raises(CheckFailed, match="far"):
        agree("far", Gap(np.array([0.5]), np.array([0.1])), "a", "b", 4.0, log)
    with pytest.raises(CheckFailed):
        agree("not a number", Gap(np.array([np.nan]), np.array([0.1])), "a", "b", 4.0, log)
