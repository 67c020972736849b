"""Pairs of inputs at small angles, against 50-digit recursions, relative to the diagonal."""

from __future__ import annotations

import numpy as np
import pytest

import deeplimits as dl
from tests.limits import oracle

ANGLES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
NETWORKS = {
    "relu": (dl.act.Relu(), 2**0.5, 0.0),
    "relu, biases": (dl.act.Relu(), 1.3, 0.2),
    "leaky": (dl.act.LeakyRelu(0.2), 1.3, 0.1),
    "abs": (dl.act.Abs(), 1.0, 0.1),
    "erf": (dl.act.Erf(), 1.3, 0.2),
    "erf, chaotic": (dl.act.Erf(), 1.5, 0.05),
    "gelu": (dl.act.Gelu(), 1.4, 0.2),
    "sin": (dl.act.Sin(), 1.2, 0.3),
}
TOLERANCE = 1e-13


@pytest.mark.parametrize("ratio", [1.0, 1.7])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_mlp_at_small_angles(name, ratio):
    activation, weight_std, bias_std = NETWORKS[name]
    dual = oracle.DUALS[name.split(",")[0]]
    net = dl.Mlp(activation, weight_std=weight_std, bias_std=bias_std)
    pairs = [oracle.near_pairs(angle, ratio, seed=place) for place, angle in enumerate(ANGLES)]
    exact = [oracle.mlp(dual, x, y, 64, weight_std, bias_std) for x, y in pairs]
    same = [[oracle.mlp(dual, v, v, 64, weight_std, bias_std) for v in pair] for pair in pairs]
    for depth in (1, 2, 3, 8, 64):
        for place, (x, y) in enumerate(pairs):
            k = dl.kernel(net, np.stack([x, y]), depth=depth)
            for found, index in ((k.nngp, 0), (k.ntk, 1)):
                a, b = (float(values[depth][index]) for values in same[place])
                diagonal = (a * b) ** 0.5
                wanted = oracle.mpf(exact[place][depth][index])
                assert abs(float(oracle.mpf(float(found[0, 1])) - wanted)) <= TOLERANCE * diagonal, (depth, place)
                assert abs(found[0, 0] - a) <= TOLERANCE * a
                assert abs(found[1, 1] - b) <= TOLERANCE * b


@pytest.mark.parametrize("name", ["relu", "relu, biases", "erf"])
def test_resnet_at_small_angles(name):
    activation, weight_std, bias_std = NETWORKS[name]
    dual = oracle.DUALS[name.split(",")[0]]
    net = dl.ResNet(activation, weight_std=weight_std, bias_std=bias_std)
    for depth in (1, 16, 64):
        for angle in ANGLES:
            x, y = oracle.near_pairs(angle, 1.3)
            k = dl.kernel(net, x[None], y[None], depth=depth)
            nngp, ntk = oracle.resnet(dual, x, y, depth, weight_std, bias_std)
            same = [oracle.resnet(dual, v, v, depth, weight_std, bias_std) for v in (x, y)]
            for found, wanted, place in ((k.nngp, nngp, 0), (k.ntk, ntk, 1)):
                diagonal = float(same[0][place] * same[1][place]) ** 0.5
                assert abs(float(oracle.mpf(float(found[0, 0])) - wanted)) <= TOLERANCE * diagonal, (depth, angle)
