"""Layers that have no kernel, or none where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import pytest
import torch

import deeplimits as dl
from deeplimits.architecture.layer import Layer
from tests.limits.refusal import X, kernel, refused

act, layer, errors = dl.act, dl.layer, dl.errors
Dense, Residual, Parallel, Serial = layer.Dense, layer.Residual, layer.Parallel, layer.Serial


@dataclass(frozen=True)
class Mine(Layer):
    """A layer that nothing is known about."""


@pytest.mark.parametrize("law", [layer.LowRank(4), layer.Sparse(4), layer.BlockDiagonal(4)])
def test_fixed_sizes_have_no_limit(law):
    refused(kernel(X, net=dl.Mlp("relu", weights=law)), errors.DescriptionError, "fixed", "no limit", "0.25 * WIDTH")
    refused(kernel(X, net=dl.Mlp("relu", weights=law), depth=inf), errors.DescriptionError, "fixed", "no limit")


LAYERS = {
    "two activations": (
        Dense() >> act.Relu() >> act.Erf() >> Dense(1),
        "Erf",
        "the output of Relu",
        "put a Dense layer",
    ),
    "activation first": (act.Erf() >> Dense(1), "Erf", "the raw input", "put a Dense layer"),
    "two carriers": (Dense() >> Parallel(Serial(), Serial()) >> Dense(1), "2 branches", "cross terms"),
    "open branch": (Dense() >> Parallel(act.Relu(), Dense()) >> Dense(1), "Parallel", "end the branch in a Dense"),
    "activation on the skip": (Dense() >> Residual(act.Relu()) >> Dense(1), "Residual", "end the branch in a Dense"),
    "identity on the skip": (Dense() >> Residual(Serial()) >> Dense(1), "cross term", "end the branch in a Dense"),
    "norm of raw inputs": (layer.LayerNorm() >> Dense(1), "LayerNorm", "use RMSNorm"),
    "norm of activations": (Dense() >> act.Relu() >> layer.LayerNorm() >> Dense(1), "LayerNorm", "use RMSNorm"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_without_a_kernel_here(name):
    net, *words = LAYERS[name]
    error = refused(kernel(X, net=net), errors.DescriptionError, *words)
    assert error.__notes__, "the path to the layer"


def test_no_rule():
    error = refused(
        kernel(X, net=Dense() >> Mine() >> Dense(1)), errors.NoRule, "Mine", "dl.sample", "@kernel.rule(Mine"
    )
    assert any("Serial" in note for note in error.__notes__)
    assert isinstance(error, NotImplementedError)
    refused(lambda: dl.build(Dense() >> Mine() >> Dense(1), 4, 1, 0), errors.NoRule, "Mine")


CUSTOM = {
    "raises": (lambda x: x.nothing(), "raised AttributeError"),
    "shape": (lambda x: x.sum(), "return one number for each entry"),
    "infinite": (lambda x: torch.log(x.abs()), "not finite at x="),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_functions(name):
    function, words = CUSTOM[name]
    refused(kernel(X, net=dl.Mlp(act.Custom(function, name="mine"))), errors.DescriptionError, "mine", words)
    refused(lambda: act.Custom("relu"), errors.DescriptionError, "not callable")
