"""Layers, weight laws and compositions: `dl.layer.Dense(...)`, `dl.layer.Orthogonal()`, `dl.layer.DEPTH`."""

from deeplimits.architecture.attention import Attention, Transformer
from deeplimits.architecture.compose import Parallel, Repeat, Residual, Serial
from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.dense import BlockDiagonal, Dense, Gaussian, LowRank, Orthogonal, Sparse, WeightLaw
from deeplimits.architecture.increment import Increment
from deeplimits.architecture.layer import DEPTH, WIDTH, Layer, Power, Share
from deeplimits.architecture.norm import LayerNorm, RMSNorm
from deeplimits.architecture.scale import Decreasing
from deeplimits.architecture.shaped import ShapedResNet, ShapedTransformer, WeightedSkip

__all__ = [
    "DEPTH",
    "WIDTH",
    "Attention",
    "BlockDiagonal",
    "ControlledResNet",
    "Decreasing",
    "Dense",
    "Gaussian",
    "Increment",
    "Layer",
    "LayerNorm",
    "LowRank",
    "Orthogonal",
    "Parallel",
    "Power",
    "RMSNorm",
    "Repeat",
    "Residual",
    "Serial",
    "ShapedResNet",
    "ShapedTransformer",
    "Share",
    "Sparse",
    "Transformer",
    "WeightLaw",
    "WeightedSkip",
]
