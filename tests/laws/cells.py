"""The networks of the law tests: one for every layer with a kernel rule, at the right edge and at the corner."""

from __future__ import annotations

import numpy as np
import torch

import deeplimits as dl
from deeplimits.architecture.layer import Layer

act, layer, DEPTH = dl.act, dl.layer, dl.DEPTH
Dense, Parallel, Repeat, Residual = layer.Dense, layer.Parallel, layer.Repeat, layer.Residual

X = np.array(
    [
        [0.9, -0.4, 1.3, 0.2, -0.7],
        [0.3, 0.8, -0.5, 1.1, 0.4],
        [-0.6, 0.5, -1.0, 0.3, 0.9],
        [0.45, -0.2, 0.65, 0.1, -0.35],
    ]
)

ACTIVATIONS = {
    "identity": act.Identity(),
    "relu": act.Relu(),
    "leaky": act.LeakyRelu(0.3),
    "abrelu": act.AbRelu(-0.3, 1.2),
    "abs": act.Abs(),
    "sign": act.Sign(),
    "step": act.Step(),
    "rectified square": act.RectifiedMonomial(2),
    "erf": act.Erf(1.2, 0.8, 0.1),
    "sin": act.Sin(1.1, 1.2, 0.4),
    "cos": act.Cos(0.9, 1.1, 0.3),
    "exp": act.Exp(0.6, 0.5),
    "bump": act.GaussianBump(0.7),
    "probit": act.Probit(),
    "gelu": act.Gelu(),
    "polynomial": act.Polynomial((0.2, 0.5, 0.3)),
    "hermite": act.Hermite(2),
    "tanh": act.Tanh(),
    "sigmoid": act.Sigmoid(),
    "softplus": act.Softplus(),
    "silu": act.Silu(),
    "ornstein-uhlenbeck": act.OrnsteinUhlenbeck(0.8, 0.3),
    "custom": act.Custom(lambda x: torch.sin(x) + 0.5 * torch.exp(-(x**2) / 2), name="wave"),
    "custom with derivative": act.Custom(
        lambda x: x * torch.sin(x), lambda x: torch.sin(x) + x * torch.cos(x), "x sin x"
    ),
}
STEEP = {"rectified square": 0.45, "hermite": 0.6, "polynomial": 0.8, "exp": 0.9}
FLOW = {
    **{"rectified square": 0.25, "hermite": 0.3, "polynomial": 0.4, "exp": 0.45, "sign": 0.35, "step": 0.5},
    "ornstein-uhlenbeck": 0.35,
}


def perceptron(activation: Layer, weight_std: float = 1.1, weights: Layer | None = None) -> Layer:
    """Return two hidden layers with biases everywhere."""
    law = {} if weights is None else {"weights": weights}
    return dl.Mlp(activation, weight_std, 0.3, readout_std=0.9, readout_bias_std=0.2, **law)


WEIGHTS = {
    "gaussian": layer.Gaussian(),
    "orthogonal": layer.Orthogonal(),
    "low rank": layer.LowRank(0.25 * dl.WIDTH),
    "sparse": layer.Sparse(0.1),
    "block diagonal": layer.BlockDiagonal(0.125 * dl.WIDTH),
}

_first, _second = Dense(weight_std=1.3, bias_std=0.2), Dense(weight_std=1.1, bias_std=0.1)
_readout = Dense(1, 0.9, 0.1)
_sum = Parallel(act.Relu() >> Dense(weight_std=0.8), act.Erf() >> Dense(weight_std=1.2, bias_std=0.3))
_skip = Residual(act.Erf() >> Dense(weight_std=0.8, bias_std=0.2), 0.7)

COMPOSITIONS = {
    "layer norm": _first >> layer.LayerNorm(0.1) >> act.Relu() >> _second >> layer.LayerNorm() >> act.Erf() >> _readout,
    "rms norm": layer.RMSNorm(0.2) >> _first >> act.Relu() >> layer.RMSNorm() >> _second >> act.Erf() >> _readout,
    "sum of branches": _first >> _sum >> act.Relu() >> _readout,
    "sum with a carrier": _first
    >> Parallel(act.Relu() >> Dense(weight_std=0.8), layer.Serial())
    >> act.Erf()
    >> _readout,
    "residual": _first >> _skip >> act.Relu() >> _readout,
    "repeat": _first >> Repeat(_skip, 3) >> _readout,
    "residual of residuals": _first >> Residual(Residual(_skip.branch, 0.5) >> act.Relu() >> _second, 0.6) >> _readout,
    "norm before the branch": _first >> Residual(layer.LayerNorm() >> act.Relu() >> _second, 0.5) >> _readout,
}

RESNETS = {
    "resnet": dl.ResNet("relu"),
    "biases": dl.ResNet("erf", 0.7, 0.2, readin_std=0.8, readin_bias_std=0.4, readout_std=1.1, readout_bias_std=0.2),
    "two-layer branches": dl.ResNet("relu", 0.8, 0.2, branch_layers=2, inner_std=1.1, inner_bias_std=0.3),
    "final activation": dl.ResNet("relu", bias_std=0.2, final_activation="erf", readout_std=0.7),
    "stable, uniform": dl.StableResNet("relu", "uniform", weight_std=0.8, bias_std=0.1),
    "stable, decreasing": dl.StableResNet("relu", "decreasing", weight_std=0.4, bias_std=0.1),
    "another factor": dl.ResNet("tanh", scale=0.7 * DEPTH**-0.5),
    "sequence": dl.ResNet("erf", 0.7, scale=lambda place, depth: (2 * place - 1) ** 0.5 / depth),
}


def _deep(block: Layer) -> Layer:
    return _first >> Repeat(block) >> _readout


_scale = 0.7 * DEPTH**-0.5
_weighted = layer.WeightedSkip(act.Relu() >> _second, skip=0.9, scale=0.6)
DEEP_BLOCKS = {
    "layer norm": _deep(Residual(layer.LayerNorm() >> act.Relu() >> _second, _scale)),
    "rms norm": _deep(Residual(layer.RMSNorm(0.1) >> act.Erf() >> _second, _scale)),
    "sum of branches": _deep(Residual(_sum, 0.8 * _scale)),
    "two branches": _deep(Residual(act.Relu() >> _second, _scale) >> Residual(act.Erf() >> Dense(), 0.7 * _scale)),
    "repeat in the branch": _deep(Residual(Repeat(act.Erf() >> _second, 2), _scale)),
    "weighted skip before it": _first >> _weighted >> Repeat(Residual(act.Erf() >> _second, _scale)) >> _readout,
}


def kinds(net: Layer) -> set[type]:
    """Return the types of all layers in a description, names of the zoo written out."""
    if (simpler := net.parts()) is not None:
        return kinds(simpler)
    return {type(net)}.union(*(kinds(child) for _, child in net.children()))


RIGHT_EDGE = {
    **{f"activation: {name}": perceptron(phi, STEEP.get(name, 1.1)) for name, phi in ACTIVATIONS.items()},
    **{f"composition: {name}": net for name, net in COMPOSITIONS.items()},
    "weighted skip": _first >> _weighted >> _readout,
    **{f"resnet: {name}": net for name, net in RESNETS.items()},
}
CORNER = {
    **{f"activation: {name}": dl.ResNet(phi, FLOW.get(name, 0.6), 0.2) for name, phi in ACTIVATIONS.items()},
    **{f"resnet: {name}": net for name, net in RESNETS.items()},
    **{f"block: {name}": net for name, net in DEEP_BLOCKS.items()},
}
PSEUDO_IID = {name: law for name, law in WEIGHTS.items() if name != "gaussian"}
