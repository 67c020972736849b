"""Normalisation layers as modules, without trained gain."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deeplimits.architecture import norm
from deeplimits.finite.build.place import Place, building


class Normalise(nn.Module):
    """x / sqrt(mean of squares over the features + epsilon), after centring where asked; zero stays zero."""

    def __init__(self, epsilon: float, centre: bool):
        super().__init__()
        self.epsilon, self.centre = float(epsilon), centre

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised features, (..., n) to (..., n)."""
        if self.centre:
            x = x - x.mean(-1, keepdim=True)
        square = (x * x).mean(-1, keepdim=True) + self.epsilon
        positive = square > 0
        return x * torch.where(positive, torch.rsqrt(torch.where(positive, square, 1.0)), 0.0)

    def extra_repr(self) -> str:
        return f"epsilon={self.epsilon:g}, centre={self.centre}"


@building.rule(norm.LayerNorm, source="ba-2016-layer-norm, eq. 3")
def layer_norm(layer: norm.LayerNorm, place: Place) -> tuple[nn.Module, int | None]:
    """Return centring and scaling to unit variance."""
    return Normalise(layer.epsilon, centre=True), place.features


@building.rule(norm.RMSNorm, source="zhang-sennrich-2019-rmsnorm, eq. 4")
def rms_norm(layer: norm.RMSNorm, place: Place) -> tuple[nn.Module, int | None]:
    """Return scaling to unit mean square."""
    return Normalise(layer.epsilon, centre=False), place.features
