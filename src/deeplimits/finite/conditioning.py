"""Dense layers with Gaussian weights that are never formed: only what k inputs see of them is drawn.

Forward: Y = L Q with Q orthonormal rows; W Q^T has independent Gaussian entries, so Y W^T = L G, G (r x out) normal.
Backward: W^T g = Q^T (W Q^T)^T g + (I - Q^T Q) W'^T g with W' a fresh copy of W, of which only W'^T g is drawn: a
Gaussian matrix of Gram matrix g g^T. Exact in law, since each weight matrix is used once in each direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimits.architecture import dense as description
from deeplimits.finite.build.place import Place
from deeplimits.numerics.seeds import generator

FORWARD, BIAS, BACKWARD = 0, 1, 2


def triangle(y: Tensor) -> Tensor:
    """Return L with y = L Q, Q orthonormal rows: (S, k, n) to (S, k, min(k, n))."""
    if y.shape[-2] >= y.shape[-1]:
        return y
    return torch.linalg.qr(y.mT, mode="r").R.mT


def factors(y: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return (L, Q) with y = L Q; Q is None, for the identity, where there are no fewer inputs than features."""
    if y.shape[-2] >= y.shape[-1]:
        return y, None
    q, r = torch.linalg.qr(y.mT)
    return r.mT, q.mT


@dataclass
class Draws:
    """The normals of a chunk of networks, and where their NTK is summed up.

    seeds: (S, layers, 3), one stream for each network, dense layer and direction, so that no draw depends on the chunk
    or on the order of the others; ntk: (S, k, k), or None where only the forward pass is asked for.
    """

    standard: bool
    anchor: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64, requires_grad=True))
    seeds: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 3), dtype=np.int64))
    ntk: Tensor | None = None
    layers: int = 0
    _generator: torch.Generator = field(default_factory=torch.Generator)

    def start(self, seed: int, networks: range, inputs: int | None) -> None:
        """Begin a chunk; `inputs` is k where the NTK is asked for, else None."""
        shape = (self.layers, 3)
        self.seeds = np.stack([generator(seed, "network", index).integers(2**63, size=shape) for index in networks])
        self.ntk = None if inputs is None else torch.zeros(len(networks), inputs, inputs, dtype=torch.float64)

    def normals(self, layer: int, purpose: int, rows: int, columns: int) -> Tensor:
        """Return standard normals (S, rows, columns): drawn in float32 (exact to 6e-8), held in float64."""
        drawn = torch.empty(len(self.seeds), rows, columns)
        for seed, matrix in zip(self.seeds[:, layer, purpose].tolist(), drawn, strict=True):
            matrix.normal_(generator=self._generator.manual_seed(seed))
        return drawn.double()

    def learn(self, layer: description.Dense, features: int, y_gram: Tensor, g_gram: Tensor) -> None:
        """Add a layer's weights and biases to the NTK, from the Gram matrices of its inputs and output gradients.

        ntk: (weight_std**2 / n) YY^T * gg^T + bias_std**2 gg^T; standard: YY^T * gg^T + gg^T.
        """
        assert self.ntk is not None
        weight = 1.0 if self.standard else float(layer.weight_std) ** 2 / features
        bias = float(layer.bias_std) ** 2
        self.ntk += weight * y_gram * g_gram
        if bias:
            self.ntk += (1.0 if self.standard else bias) * g_gram


class ConditionedDense(nn.Module):
    """A Gaussian dense layer of S networks at once, (S, k, in) to (S, k, out)."""

    def __init__(self, layer: description.Dense, features: int, features_out: int, draws: Draws):
        super().__init__()
        self.layer, self.features, self.features_out, self.draws = layer, features, features_out, draws
        self.index = draws.layers
        self.scale = float(layer.weight_std) / sqrt(features)
        draws.layers += 1

    def forward(self, y: Tensor) -> Tensor:
        """Return the output for inputs y, drawing what y sees of the weights."""
        if self.draws.ntk is None:
            lower = triangle(y)
            return self._output(lower, self.draws.normals(self.index, FORWARD, lower.shape[-1], self.features_out))
        return _Conditioned.apply(y, self.draws.anchor, self)  # type: ignore[return-value]

    def _output(self, lower: Tensor, seen: Tensor) -> Tensor:
        z = (self.scale * lower) @ seen
        bias = float(self.layer.bias_std)
        return z + bias * self.draws.normals(self.index, BIAS, 1, self.features_out) if bias else z

    def pull_back(self, g: Tensor, corner: Tensor, seen: Tensor, q: Tensor | None) -> Tensor:
        """Return g W (S, k, in) given W Q^T = scale * seen^T; `corner` C has C C^T = g g^T."""
        through = g @ seen.mT
        if q is None:
            return self.scale * through
        fresh = corner @ self.draws.normals(self.index, BACKWARD, corner.shape[-1], self.features)
        return self.scale * (torch.baddbmm(fresh, through - fresh @ q.mT, q))


class _Conditioned(torch.autograd.Function):
    """The conditioned layer; its backward pass also adds the layer to the NTK."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, anchor: Tensor, layer: ConditionedDense) -> Tensor:
        lower, q = factors(y)
        seen = layer.draws.normals(layer.index, FORWARD, lower.shape[-1], layer.features_out)
        ctx.layer, ctx.held = layer, (lower, q, seen)
        return layer._output(lower, seen)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:  # type: ignore[override]
        layer, (lower, q, seen), g = ctx.layer, ctx.held, gradients[0]
        corner = triangle(g)
        layer.draws.learn(layer.layer, layer.features, lower @ lower.mT, corner @ corner.mT)
        back = layer.pull_back(g, corner, seen, q) if ctx.needs_input_grad[0] else None
        return back, torch.zeros_like(layer.draws.anchor), None


def conditioned(draws: Draws) -> Any:
    """Return what `Place.dense` needs to make conditioned layers that share `draws`."""

    def make(layer: description.Dense, place: Place, features_out: int) -> nn.Module:
        assert place.features is not None
        return ConditionedDense(layer, place.features, features_out, draws)

    return make
