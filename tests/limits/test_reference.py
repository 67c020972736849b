"""Kernels against values computed by independent programs (tests/reference/INDEX.json says by which)."""

from __future__ import annotations

import json
import re
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch

import deeplimits as dl

FOLDER = Path(__file__).parent.parent / "reference"
INDEX = {entry["file"]: entry for entry in json.loads((FOLDER / "INDEX.json").read_text())}
Dense, Residual, Repeat, LayerNorm = dl.layer.Dense, dl.layer.Residual, dl.layer.Repeat, dl.layer.LayerNorm
ACTIVATIONS = {
    "relu": dl.act.Relu(),
    "erf": dl.act.Erf(),
    "abs": dl.act.Abs(),
    "gelu": dl.act.Gelu(),
    "leaky_relu_0.2": dl.act.LeakyRelu(0.2),
    "abrelu_-0.3_1.4": dl.act.AbRelu(-0.3, 1.4),
    "sign": dl.act.Sign(),
    "exp_.5_.6": dl.act.Exp(0.5, 0.6),
    "sin_a1_b1.2_c.4": dl.act.Sin(1, 1.2, 0.4),
    "rbf_0.7": dl.act.Sin(sqrt(2), sqrt(1.4), pi / 4),
    "sigmoid_like": dl.act.Erf(0.5, 1 / 2.4020563531719796, 0.5),
    "monomial3": dl.act.Polynomial((0, 0, 0, 1)),
    "tanh": dl.act.Tanh(),
    "gabor": dl.act.Custom(lambda x: torch.exp(-(x**2)) * torch.sin(x), name="gabor"),
    **{f"rectmono{p}": dl.act.RectifiedMonomial(p) for p in range(4)},
}


def network(name):
    """Return the description and the options that a reference file was computed with."""
    relu, erf, readout = dl.act.Relu(), dl.act.Erf(), Dense(1, 0.9, 0.1)
    if plain := re.fullmatch(r"fc_(.*)_L(\d+)\.npz", name):
        act, depth = plain[1], int(plain[2])
        if act == "relu_nobias":
            return dl.Mlp("relu", weight_std=1.5), {"depth": depth}
        if act.startswith(("relu_standard", "erf_standard")):
            phi = relu if act.startswith("relu") else erf
            sizes = (8, 8) if "s16" in act else (64, 96)
            net = Dense(sizes[0], 1.3, 0.2) >> phi >> Dense(sizes[1], 1.1, 0.3) >> phi >> readout
            return net, {"parametrization": "standard"}
        net = dl.Mlp(ACTIVATIONS[act], weight_std=1.3, bias_std=0.2, readout_std=0.9, readout_bias_std=0.1)
        return net, {"depth": depth}
    norm = LayerNorm(1e-12)
    if name == "fc_ln_relu.npz":
        second = Dense(weight_std=1.1, bias_std=0.1)
        return Dense(weight_std=1.3, bias_std=0.2) >> norm >> relu >> second >> norm >> relu >> readout, {}
    if name == "fc_ln_hermite2.npz":
        return Dense(weight_std=1.3, bias_std=0.2) >> norm >> dl.act.Hermite(2) >> readout, {}
    readin = Dense(weight_std=1.2, bias_std=0.1)
    if name == "res2_relu_B3.npz":
        branch = relu >> Dense(weight_std=1.4, bias_std=0.1) >> relu >> Dense(weight_std=0.5, bias_std=0.05)
        return readin >> Repeat(Residual(branch), 3) >> relu >> readout, {}
    _, act, blocks, scale = re.fullmatch(r"(res)_(\w+)_B(\d+)_s([\d.]+)\.npz", name).groups()
    phi = ACTIVATIONS[act]
    block = Residual(phi >> Dense(weight_std=1.4, bias_std=0.3), float(scale))
    return readin >> Repeat(block, int(blocks)) >> phi >> readout, {}


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("name", sorted(INDEX))
def test_reference(name):
    values, tolerance = np.load(FOLDER / name), INDEX[name]["tolerance"]
    net, options = network(name)
    exact = "_exact" if "nngp_exact" in values else ""
    k = dl.kernel(net, values["x1"], values["x2"], **options)
    assert error(k.nngp, values[f"nngp{exact}"]) <= tolerance
    assert error(k.ntk, values[f"ntk{exact}"]) <= tolerance
    if "nngp_sym" in values and not exact:
        k = dl.kernel(net, values["x1"], **options)
        assert error(k.nngp, values["nngp_sym"]) <= tolerance
        assert error(k.ntk, values["ntk_sym"]) <= tolerance


def test_every_file_is_used():
    assert {path.name for path in FOLDER.glob("*.npz")} == set(INDEX)
