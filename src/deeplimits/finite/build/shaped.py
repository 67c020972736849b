"""What the width shapes, as modules: activations near the identity, skips of fixed weight."""

from __future__ import annotations

from torch import Tensor, nn

from deeplimits.architecture.activation import ShapedRelu
from deeplimits.architecture.layer import as_float
from deeplimits.architecture.shaped import WeightedSkip
from deeplimits.finite.build.activation import Pointwise
from deeplimits.finite.build.compose import same_features
from deeplimits.finite.build.place import Place, building


class Weighted(nn.Module):
    """skip * x + scale * branch(x)."""

    def __init__(self, branch: nn.Module, skip: float, scale: float):
        super().__init__()
        self.branch, self.skip, self.scale = branch, skip, scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted sum of the skip and the branch."""
        return self.skip * x + self.scale * self.branch(x)

    def extra_repr(self) -> str:
        return f"skip={self.skip:g}, scale={self.scale:g}"


@building.rule(ShapedRelu, source="definition")
def shaped_relu(layer: ShapedRelu, place: Place) -> tuple[nn.Module, int | None]:
    """Return the two-slope ReLU of that width."""
    return Pointwise(layer.at(place.width)), place.features


@building.rule(WeightedSkip, source="noci-2023-shaped-transformer")
def weighted_skip(layer: WeightedSkip, place: Place) -> tuple[nn.Module, int | None]:
    """Return the skip connection, its weights numbers."""
    branch, features = building(layer.branch, place.at("branch", place.features))
    same_features("WeightedSkip", place.path, "the skip", place.features, "the branch", features)
    skip, scale = layer.mixing
    return Weighted(branch, as_float(skip), as_float(scale)), features
