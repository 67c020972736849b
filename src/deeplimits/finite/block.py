"""A block given by its increment, in networks sampled by conditioning: rows are drawn, no weights exist."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.architecture.increment import Covariance, checked, increment, increment_of
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, NoRule
from deeplimits.finite.build.place import Place, building
from deeplimits.finite.conditioning import FORWARD, Draws

NEGATIVE = 1e-8


class ConditionedBlock(nn.Module):
    """The outputs of S networks at once, (S, k, n) to (S, k, n): n independent rows N(0, C) given the inputs.

    C (k, k) is the covariance of the increment with averages over the n neurons of the block's input.
    """

    def __init__(self, layer: Layer, draws: Draws):
        super().__init__()
        self.layer, self.draws, self.index = layer, draws, draws.layers
        self.covariance: Covariance = increment_of(layer).covariance
        draws.layers += 1

    def forward(self, y: Tensor) -> Tensor:
        """Return the output for inputs y."""
        rows = [self._row(y[:, index : index + 1], y) for index in range(y.shape[1])]
        values, vectors = torch.linalg.eigh(torch.stack(rows, dim=1))
        lowest = values[:, 0] / values[:, -1].abs().clamp(min=1e-300)
        if bool((lowest < -NEGATIVE).any()):
            least = float(lowest.min())
            why = f"its covariance is not positive semi-definite: an eigenvalue is {least:.3g} of the largest"
            fix = "check the signs and the cross terms of the increment"
            raise DescriptionError(f"increment of {type(self.layer).__name__}", why, fix)
        root = vectors * values.clamp(min=0).sqrt()[:, None]
        return root @ self.draws.normals(self.index, FORWARD, y.shape[1], y.shape[2])

    def _row(self, one: Tensor, all_of_them: Tensor) -> Tensor:
        shape = (*all_of_them.shape[:2], 1)
        value = checked(self.layer, self.covariance(one, all_of_them, average), shape)
        return torch.as_tensor(value, dtype=all_of_them.dtype).expand(shape)[..., 0]


def average(h: Any) -> Any:
    """Return the average over neurons, the last dimension, which is kept."""
    return torch.mean(h, dim=-1, keepdim=True) if isinstance(h, Tensor) and h.ndim else h


def conditioned_block(draws: Draws) -> Any:
    """Return what `Place.block` needs to make blocks that share `draws`."""
    return lambda layer: ConditionedBlock(layer, draws)


@building.through(increment, source="definition (rows given the state are Gaussian and alike)", valid="sampling only")
def block(layer: Layer, place: Place) -> tuple[nn.Module, int | None]:
    """Return the conditioned block; a module with weights is what an increment cannot give.

    Raises:
        NoRule: a module with weights is asked for.
    """
    if place.block is None:
        kind = type(layer).__name__
        why = "its increment says how its outputs vary together, not what its weights are, so no module can be built"
        fix = f"add the module: @building.rule({kind}, source=...) of deeplimits.finite.build; sampling needs none"
        raise NoRule(kind, why, fix)
    return place.block(layer), place.features
