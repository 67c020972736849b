"""From a description to a plain torch module."""

from __future__ import annotations

from typing import Any

import torch

from deeplimits.finite.build import activation, attention, compose, controlled, norm, shaped
from deeplimits.finite.build.dense import make
from deeplimits.finite.build.place import building, place

__all__ = ["activation", "attention", "build", "building", "compose", "controlled", "norm", "shaped"]


def build(
    net: Any,
    width: int,
    depth: int,
    seed: int,
    parametrization: str = "ntk",
    features_in: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> torch.nn.Module:
    """Return a network of the family as a plain torch module, randomly initialised.

    ntk: parameters N(0, 1), forward weight_std / sqrt(in) * W x + bias_std * b; standard: parameters
    N(0, weight_std**2 / in) and N(0, bias_std**2), forward W x + b. Both are the same function at initialisation for
    the same seed. A layer with bias_std = 0 has no bias.

    Args:
        net: description of the family.
        width: number that WIDTH stands for.
        depth: number that DEPTH stands for.
        seed: every parameter draws from its own stream, named after its path: float32 and float64 networks agree.
        parametrization: "ntk" or "standard".
        features_in: number of inputs d, or of channels of paths; by default the layer that meets them learns it at
            the first forward pass (run one before making an optimizer that copies parameters, as with torch's lazy
            modules).
        dtype: of the parameters.

    Returns:
        Module from (..., d) to (..., outputs), with names such as readin.weight, blocks.3.branch.dense.weight. With
        attention: from tokens, (..., m, d), to (..., m, outputs). Of a
        ControlledResNet: from paths, (batch, points, d) or a list of arrays (points, d) each, to (batch, 1).

    Raises:
        DescriptionError: not a description, or sizes that cannot be added.
        InputError: a width, depth, seed or features_in that is not a whole number in range.
        NoRule: a layer without a rule for building.

    Source: jacot-2018-ntk, section 2 (ntk); sohl-dickstein-2020-infinite-width, section 2 (standard).

    Example:
        >>> import deeplimits as dl, torch
        >>> module = dl.build(dl.Mlp("relu"), width=8, depth=2, seed=0)
        >>> module(torch.ones(3, 5)).shape
        torch.Size([3, 1])
    """
    at = place(net, width, depth, seed, parametrization, features_in, dtype, make, "build")
    module, _ = building(net, at)
    return module
