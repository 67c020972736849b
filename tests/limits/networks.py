"""Rows and networks that the tests of arrays and of gradients share."""

from __future__ import annotations

from math import inf

import numpy as np

import deeplimits as dl

act, layer = dl.act, dl.layer
Dense, Repeat = layer.Dense, layer.Repeat


def inputs(count=24, features=7, seed=0):
    """Rows of norms over two decades: a duplicate, an opposite, a multiple, a near pair, and zero in the last place."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, features)) * np.exp(rng.uniform(-1.5, 1.5, (count, 1)))
    X[1], X[3], X[5] = X[0], -X[2], 3 * X[4]
    X[7] = X[6] * (1 + 1e-4) + 1e-5 * X[8]
    X[-1] = 0
    return X


X = inputs()
_norm = (
    Dense(weight_std=1.3) >> Repeat(layer.RMSNorm(1e-3) >> act.Erf() >> Dense(weight_std=1.2, bias_std=0.1)) >> Dense(1)
)
_layer_norm = (
    layer.RMSNorm() >> Dense() >> layer.LayerNorm() >> act.Relu() >> Dense(bias_std=0.1) >> act.Erf() >> Dense(1)
)
NETS = {
    "relu": (dl.Mlp("relu"), (1, 3, 64)),
    "relu, biases": (dl.Mlp("relu", 1.3, 0.3, 0.9, 0.1), (3, 20)),
    "leaky": (dl.Mlp(act.LeakyRelu(0.2)), (5,)),
    "abs": (dl.Mlp("abs"), (3, 20)),
    "abrelu": (dl.Mlp(act.AbRelu(-0.3, 1.2), 1.1, 0.1), (5,)),
    "sign": (dl.Mlp("sign", 1.2, 0.1), (1, 2)),
    "step": (dl.Mlp("step", 1.2, 0.1), (2,)),
    "rectified square": (dl.Mlp(act.RectifiedMonomial(2), 0.5, 0.1), (1, 2)),
    "erf": (dl.Mlp("erf", 1.3, 0.2), (1, 3, 20)),
    "erf, chaotic": (dl.Mlp("erf", 1.5, 0.1), (10, 64)),
    "erf, chaotic, no biases": (dl.Mlp("erf", 2.0), (12,)),
    "gelu": (dl.Mlp("gelu", 1.4, 0.1), (1, 10)),
    "probit": (dl.Mlp("probit", 1.4, 0.1), (4,)),
    "sin": (dl.Mlp("sin", 1.2, 0.1), (3,)),
    "cos": (dl.Mlp("cos", 1.2, 0.1), (3,)),
    "exp": (dl.Mlp(act.Exp(0.5, 0.1), 1.0, 0.1), (2,)),
    "bump": (dl.Mlp("gaussian", 1.2, 0.1), (3,)),
    "tanh": (dl.Mlp("tanh", 1.3, 0.2), (2, 10)),
    "silu": (dl.Mlp("silu", 1.3, 0.2), (5,)),
    "softplus": (dl.Mlp("softplus", 1.0, 0.2), (3,)),
    "polynomial": (dl.Mlp(act.Polynomial((0.2, 0.5, 0.1)), 0.7, 0.1), (2,)),
    "resnet": (dl.ResNet("relu"), (1, 32, inf)),
    "resnet, erf": (dl.ResNet("erf", 1.2, 0.3, readin_bias_std=0.1), (16,)),
    "resnet, two layers": (dl.ResNet("relu", 1.0, 0.1, branch_layers=2, final_activation="erf"), (8,)),
    "stable": (dl.StableResNet("relu", "decreasing"), (16, inf)),
    "rms norm": (_norm, (1, 5)),
    "layer norm": (_layer_norm, (1,)),
    "erf, small": (dl.Mlp("erf", 0.8), (1, 20)),
    "sin, small": (dl.Mlp("sin", 0.8), (1, 20)),
    "cos, no biases": (dl.Mlp("cos", 0.8).body, (2,)),
    "tanh, small": (dl.Mlp("tanh", 0.8), (6,)),
}
CASES = [(name, depth) for name, (_, depths) in NETS.items() for depth in depths]


def both(net, X1, X2=None, **options):
    """Return {kind: array}."""
    k = dl.kernel(net, X1, X2, **options)
    return {"nngp": k.nngp, "ntk": k.ntk}


def relative(found, expected, diagonal1=None, diagonal2=None):
    """Largest difference relative to the diagonal, sqrt(K(x, x) K(x', x'))."""
    one = np.diag(expected) if diagonal1 is None else diagonal1
    two = one if diagonal2 is None else diagonal2
    scale = np.sqrt(np.outer(one, two))
    wrong = np.abs(np.asarray(found, dtype=np.float64) - expected)
    assert np.all(wrong[scale == 0] <= 1e-30)
    return float((wrong / np.where(scale > 0, scale, 1)).max())
