"""Do a deep network's layers compute what a shallow one's do? Linear maps from each to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimits.diagnostics.stack import Stack, found
from deeplimits.errors import InputError


@dataclass(frozen=True)
class LinearMaps:
    """How well each layer of one network gives each layer of another, linearly.

    Attributes:
        error: [i][j], mean square error on held-out places of the best affine map from h_{i+1} of the first network to
            h_{j+1} of the second, over the variance of the latter: 0 perfect, 1 nothing.
        trained, held_out: numbers of places.
    """

    error: tuple[tuple[float, ...], ...]
    trained: int
    held_out: int

    @property
    def best(self) -> tuple[int, ...]:
        """For each layer of the second network, the layer of the first that gives it best."""
        return tuple(int(i) for i in np.argmin(np.array(self.error), axis=0))

    @property
    def spearman(self) -> float:
        """Rank correlation of `best` with the layer: 1 where deep layers are given by deep ones; 0 if all by one."""
        from scipy.stats import rankdata

        if len(set(self.best)) == 1:
            return 0.0
        return float(np.corrcoef(np.arange(len(self.best)), rankdata(self.best))[0, 1])


def linear_maps(
    first: nn.Module,
    second: nn.Module,
    inputs: Any,
    *,
    ridge: float = 1e-6,
    held_out: float = 0.5,
    blocks: tuple[str | Sequence[str | nn.Module] | None, str | Sequence[str | nn.Module] | None] = (None, None),
    features: int = -1,
) -> LinearMaps:
    """Fit affine maps from every layer of one network to every layer of another, on the same places.

    min_{W, b} |H_j - H_i W - b|^2 + ridge tr(H_i^T H_i)/d |W|^2, on the first part of the batch; errors on the rest. An
    error that is least along the diagonal, at equal relative depth, says that the deeper network spreads the same
    computation over more layers. Untrained pairs show part of that too: set one beside.

    Args:
        first: the shallow network.
        second: the deep one.
        inputs: as of `depth_use`, for both; the first dimension is that of prompts or examples, which is split.
        ridge: over the mean variance of the features.
        held_out: share of the prompts that errors are measured on.
        blocks: of the first and of the second, as of `depth_use`.
        features: dimension of the streams that holds features.

    Valid when: there are more places than features.

    Raises:
        InputError: streams with different places, too few of them, or as `depth_use`.

    Source: csordas-2025-depth-use; closed form in place of training: definition.

    Example:
        >>> from torch import nn
        >>> model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)))
        >>> maps = linear_maps(model, model, torch.randn(200, 8))
        >>> maps.best, round(maps.spearman, 6), max(maps.error[i][i] for i in range(3)) < 1e-6
        ((0, 1, 2), 1.0, True)
    """
    if not 0 < held_out < 1:
        raise InputError("linear_maps", f"held_out={held_out!r}", "give a share between 0 and 1")
    stacks = [
        Stack(model, inputs, found(model, inputs, names), features)
        for model, names in zip((first, second), blocks, strict=True)
    ]
    shapes = [tuple(stack.streams[0].shape[:-1]) for stack in stacks]
    if shapes[0] != shapes[1]:
        why = f"streams with places {shapes[0]} and {shapes[1]}"
        raise InputError("linear_maps", why, "compare networks that keep one vector for each place of the same inputs")
    train = shapes[0][0] - max(1, round(held_out * shapes[0][0]))
    sources, targets = ([_split(h, train) for h in stack.streams[1:]] for stack in stacks)
    width = sources[0][0].shape[-1]
    if len(sources[0][0]) <= width:
        why = f"{len(sources[0][0])} places to fit maps from {width} features"
        raise InputError("linear_maps", why, "give more prompts: several times as many places as features")
    return LinearMaps(tuple(_errors(one, targets, ridge) for one in sources), *map(len, sources[0]))


def _split(h: Tensor, train: int) -> tuple[Tensor, Tensor]:
    """Return the places of the first prompts and of the others, (places, features), less the mean of the first."""
    rows = h.double().flatten(1, -2) if h.dim() > 2 else h.double().unsqueeze(1)
    fitted, held = rows[:train].flatten(0, 1), rows[train:].flatten(0, 1)
    centre = fitted.mean(0)
    return fitted - centre, held - centre


def _errors(source: tuple[Tensor, Tensor], targets: Sequence[tuple[Tensor, Tensor]], ridge: float) -> tuple[float, ...]:
    """Return the held-out errors of the maps from one layer to all of them."""
    fitted, held = source
    gram = fitted.T @ fitted
    gram += ridge * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor = torch.linalg.cholesky(gram)
    errors = []
    for before, after in targets:
        weights = torch.cholesky_solve(fitted.T @ before, factor)
        errors.append(float((after - held @ weights).square().mean() / after.square().mean()))
    return tuple(errors)
