"""Descriptions are immutable data: composed, listed, changed by path, written out at a depth."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import deeplimits as dl
from deeplimits.architecture.compose import body, expand
from deeplimits.architecture.scale import alpha
from deeplimits.errors import DescriptionError, InputError

Dense, Residual, Repeat, Serial, DEPTH, WIDTH = (
    getattr(dl.layer, name) for name in ("Dense", "Residual", "Repeat", "Serial", "DEPTH", "WIDTH")
)


def test_describing_never_imports_torch():
    code = "import sys, deeplimits as dl; dl.ResNet() >> dl.act.Relu(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_serial_is_flat_and_associative():
    a, b, c = Dense(), dl.act.Relu(), Dense(1)
    assert (a >> b) >> c == a >> (b >> c) == Serial(a, b, c)


def test_a_description_is_frozen_hashable_and_picklable():
    net = dl.ResNet("erf", scale=2 * DEPTH**-0.5)
    with pytest.raises(FrozenInstanceError):
        net.weight_std = 2.0
    assert pickle.loads(pickle.dumps(net)) == net
    assert hash(net) == hash(dl.ResNet("erf", scale=2 * DEPTH**-0.5))


def test_hyperparameters_are_replaced_by_path():
    net = Dense(weight_std=1.5) >> Residual(dl.act.Relu() >> Dense(bias_std=0.1), 0.5 * DEPTH**-0.5) >> Dense(1)
    paths = net.hyperparameters()
    assert paths["0.weight_std"] == 1.5
    assert paths["1.scale"] == 0.5
    assert paths["1.branch.1.bias_std"] == 0.1
    changed = net.replace({"1.scale": 2.0, "1.branch.1.bias_std": 0.3})
    assert changed.hyperparameters() == paths | {"1.scale": 2.0, "1.branch.1.bias_std": 0.3}
    assert changed.layers[1].scale == 2 * DEPTH**-0.5
    assert net.hyperparameters() == paths
    with pytest.raises(DescriptionError, match=r"1\.scale"):
        net.replace({"1.scales": 2.0})


@pytest.mark.parametrize("depth", [1, 4])
def test_expand_writes_a_network_out(depth):
    written = expand(dl.ResNet(scale=DEPTH**-0.5), depth)
    scales = [layer.scale for layer in written.layers if isinstance(layer, Residual)]
    assert scales == [depth**-0.5] * depth


def test_sequences_count_from_one():
    net = Repeat(Residual(Dense(), lambda l, L: l / L))
    assert [layer.scale for layer in expand(net, 4).layers] == [0.25, 0.5, 0.75, 1.0]
    assert alpha(dl.layer.Decreasing(), 3, 10, 10) == pytest.approx(1 / 3)
    with pytest.raises(DescriptionError, match="inside Repeat"):
        expand(Residual(Dense(), lambda l, L: 1.0), 3)


def test_body_is_the_network_without_its_readout():
    assert body(Dense() >> dl.act.Relu() >> Dense(1)) == Dense() >> dl.act.Relu()
    with pytest.raises(DescriptionError, match="readout"):
        body(Dense() >> dl.act.Relu())


def test_defaults_of_the_zoo():
    assert dl.Mlp("relu").weight_std == pytest.approx(2**0.5)
    assert dl.Mlp("tanh").weight_std == 1.0
    net = dl.ResNet()
    assert (net.weight_std, net.bias_std, net.readin_std, net.readout_std) == (1.0, 0.0, 1.0, 1.0)
    assert net.final_activation is None
    assert net.scale == DEPTH**-0.5
    assert dl.StableResNet(sequence="decreasing").scale == dl.layer.Decreasing()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dl.act.activation("rleu"), "relu"),
        (lambda: dl.act.activation(3), "not an activation"),
        (lambda: Dense(weight_std=-1.0), "out of range"),
        (lambda: Dense(weight_std=float("nan")), "out of range"),
        (lambda: Dense(features=0), "not a size"),
        (lambda: Dense(weights="gaussian"), "not a law of weights"),
        (lambda: Residual(Dense(), "big"), "not a branch scale"),
        (lambda: Residual(Dense(), float("inf")), "not a branch scale"),
        (lambda: Repeat(Dense(), 0), "whole number"),
        (lambda: Repeat(Dense(), DEPTH**2), "times"),
        (lambda: Serial(Dense(), "relu"), "not a layer"),
        (lambda: dl.layer.Parallel(), "no branches"),
        (lambda: dl.layer.LowRank(rank=1.5), "share"),
        (lambda: dl.ResNet(branch_layers=3), "branch_layers"),
        (lambda: dl.StableResNet(sequence="increasing"), "decreasing"),
        (lambda: dl.act.Polynomial(()), "coefficients"),
        (lambda: dl.act.Custom(3), "not callable"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(dl.DeepLimitsError, match=words) as caught:
        make()
    assert caught.value.where
    assert caught.value.fix


def test_alphas_that_are_not_numbers_are_refused_where_they_stand():
    bad = Repeat(Residual(Dense(), lambda l, L: np.nan if l == 2 else 1.0))
    with pytest.raises(DescriptionError, match="l=2, L=3"):
        expand(bad, 3)


def test_depths_that_cannot_be_written_out_are_refused_at_once():
    with pytest.raises(InputError, match=r"depth=1e\+300: every block is written out, at most 1,000,000"):
        expand(dl.Mlp("relu"), int(1e300))
