"""Dense layers as modules, one for each law of weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from deeplimits.architecture import dense as description
from deeplimits.architecture.layer import as_float
from deeplimits.architecture.size import is_fixed, resolve
from deeplimits.finite.build.place import Place, building
from deeplimits.finite.build.weights import blocks, frame, normal, sparse_mask


class Dense(nn.Module):
    """y = weight_scale * weight x + bias_scale * bias, with the scales as plain numbers.

    weight: (out, in); bias: (out,) or None.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, weight: Tensor, weight_scale: float, bias: Tensor | None, bias_scale: float):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.weight_scale, self.bias_scale = weight_scale, bias_scale

    def product(self, x: Tensor) -> Tensor:
        """Return weight_scale * weight x."""
        return functional.linear(x, self.weight) * self.weight_scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output, (..., in) to (..., out)."""
        y = self.product(x)
        return y if self.bias is None else y + self.bias_scale * self.bias

    def extra_repr(self) -> str:
        return (
            f"weight={tuple(self.weight.shape)}, weight_scale={self.weight_scale:.6g}, bias_scale={self.bias_scale:.6g}"
        )


class LowRankDense(Dense):
    """W = basis weight, the basis (out, r) fixed with orthonormal columns and the weight (r, in) trained."""

    basis: Tensor

    def product(self, x: Tensor) -> Tensor:
        """Return weight_scale * basis (weight x)."""
        return functional.linear(functional.linear(x, self.weight), self.basis) * self.weight_scale


class SparseDense(Dense):
    """W = mask * weight, with the same number of kept entries in every row."""

    mask: Tensor

    def product(self, x: Tensor) -> Tensor:
        """Return weight_scale * (mask * weight) x."""
        return functional.linear(x, self.weight * self.mask) * self.weight_scale


class BlockDense(Dense):
    """Dense blocks between random groups of inputs and of outputs, whose sizes differ by at most one.

    weight: (blocks, rows, columns), each row scaled by 1/sqrt(columns in use); gather: (blocks, columns), the inputs of
    each block, an index equal to `in` standing for a zero; scatter: (out,), where each output lies among the rows.
    """

    gather: Tensor
    scatter: Tensor
    row_scale: Tensor

    def product(self, x: Tensor) -> Tensor:
        """Return the block product, gathered and scattered."""
        groups = functional.pad(x, (0, 1))[..., self.gather]
        rows = torch.einsum("...bi,boi->...bo", groups, self.weight * self.row_scale[:, None, None])
        return rows.flatten(-2)[..., self.scatter] * self.weight_scale


@dataclass(frozen=True)
class Recipe:
    """What a dense layer needs to be made once its number of inputs is known."""

    layer: description.Dense
    place: Place
    features_out: int

    def __call__(self, features: int) -> Dense:
        """Return the module for that number of inputs."""
        return MAKERS[type(self.layer.weights)](self, features)

    def finish(self, kind: type[Dense], weight: Tensor, std: float, **buffers: Tensor) -> Dense:
        """Return a module whose effective weights have `std` times those of `weight`.

        ntk: unit parameters and the scale in the forward pass; standard: the scale in the parameters.
        """
        dtype, bias_std = self.place.dtype, as_float(self.layer.bias_std)
        bias = normal((self.features_out,), self.place, "bias") if bias_std else None
        inside = self.place.parametrization == "standard"
        if inside:
            weight, bias = weight * std, None if bias is None else bias * bias_std
        module = kind(weight.to(dtype), 1.0 if inside else std, None if bias is None else bias.to(dtype),
                      1.0 if inside else bias_std)  # fmt: skip
        for name, buffer in buffers.items():
            module.register_buffer(name, buffer.to(dtype) if buffer.is_floating_point() else buffer)
        return module

    @property
    def std(self) -> float:
        """The description's weight_std as a number."""
        return as_float(self.layer.weight_std)

    def sized(self, name: str, size: Any, among: int) -> int:
        """Return a share of WIDTH, or a number, as a number of at most `among`.

        A layer that reads fewer inputs than the share keeps them all: the data's features do not grow with the width.
        """
        where = f"build at {self.place.path}"
        if is_fixed(size):
            return resolve(where, name, size, among)
        return min(resolve(where, name, size, self.place.width), among)


def gaussian(recipe: Recipe, features: int) -> Dense:
    """Return independent entries N(0, std**2 / in)."""
    weight = normal((recipe.features_out, features), recipe.place, "weight")
    return recipe.finish(Dense, weight, recipe.std / sqrt(features))


def orthogonal(recipe: Recipe, features: int) -> Dense:
    """Return a Haar (semi-)orthogonal matrix scaled to in * Var = std**2."""
    longer = max(recipe.features_out, features)
    haar = frame(recipe.features_out, features, recipe.place, "weight")
    return recipe.finish(Dense, haar * sqrt(longer), recipe.std / sqrt(features))


def low_rank(recipe: Recipe, features: int) -> Dense:
    """Return basis times weight with r Var(weight_ij) = std**2 out / in."""
    rank = recipe.sized("rank", recipe.layer.weights.rank, recipe.features_out)  # type: ignore[attr-defined]
    weight = normal((rank, features), recipe.place, "weight")
    basis = frame(recipe.features_out, rank, recipe.place, "basis")
    std = recipe.std * sqrt(recipe.features_out / (rank * features))
    return recipe.finish(LowRankDense, weight, std, basis=basis)


def sparse(recipe: Recipe, features: int) -> Dense:
    """Return kept entries of variance std**2 / (kept a row)."""
    kept = recipe.sized("density", recipe.layer.weights.density, features)  # type: ignore[attr-defined]
    weight = normal((recipe.features_out, features), recipe.place, "weight")
    mask = sparse_mask(recipe.features_out, features, kept, recipe.place)
    return recipe.finish(SparseDense, weight * mask, recipe.std / sqrt(kept), mask=mask)


def block_diagonal(recipe: Recipe, features: int) -> Dense:
    """Return blocks whose entries have variance std**2 / (inputs of the block)."""
    size = recipe.sized("block", recipe.layer.weights.block, features)  # type: ignore[attr-defined]
    count = max(1, min(round(features / size), recipe.features_out))
    layout = blocks(recipe.features_out, features, count, recipe.place)
    shape = (count, layout.rows, layout.gather.shape[1])
    weight = normal(shape, recipe.place, "weight") * layout.used
    scale = layout.columns.double() ** -0.5
    return recipe.finish(BlockDense, weight, recipe.std, gather=layout.gather, scatter=layout.scatter, row_scale=scale)


MAKERS = {
    description.Gaussian: gaussian,
    description.Orthogonal: orthogonal,
    description.LowRank: low_rank,
    description.Sparse: sparse,
    description.BlockDiagonal: block_diagonal,
}


class LazyDense(LazyModuleMixin, Dense):
    """A dense layer that learns its number of inputs at the first forward pass and then becomes its own kind."""

    cls_to_become = Dense
    like: Tensor

    def __init__(self, recipe: Recipe):
        bias_std, standard = as_float(recipe.layer.bias_std), recipe.place.parametrization == "standard"
        bias = normal((recipe.features_out,), recipe.place, "bias") if bias_std else None
        if bias is not None:
            bias = (bias * bias_std if standard else bias).to(recipe.place.dtype)
        super().__init__(torch.empty(0), 1.0, bias, 1.0 if standard else bias_std)  # pyright: ignore
        self.weight = UninitializedParameter(dtype=recipe.place.dtype)  # type: ignore[assignment]
        self.register_buffer("like", torch.empty(0, dtype=recipe.place.dtype), persistent=False)  # follows .to(...)
        self.recipe = recipe

    def initialize_parameters(self, x: Tensor) -> None:  # type: ignore[override]
        """Make the parameters for inputs (..., features)."""
        made = self.recipe(x.shape[-1]).to(self.like)
        weight: Any = self.weight
        with torch.no_grad():
            weight.materialize(made.weight.shape, device=self.like.device, dtype=self.like.dtype)
            weight.copy_(made.weight)
        for name, buffer in made.named_buffers():
            self.register_buffer(name, buffer)
        self.weight_scale = made.weight_scale
        self.cls_to_become = type(made)
        del self.recipe, self.like

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        if weight is None or isinstance(weight, UninitializedParameter):
            super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]
            return
        scale = state_dict.get(prefix + "row_scale")
        features = weight.shape[-1] if scale is None else round(float((scale.double() ** -2).sum()))
        self._infer_parameters(self, (self.like.new_empty(0, features),))  # pyright: ignore
        type(self)._load_from_state_dict(self, state_dict, prefix, *rest)  # type: ignore[misc]

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output; by now the object is of its own kind."""
        return type(self).forward(self, x)

    def extra_repr(self) -> str:
        return f"features unknown until the first forward pass, out={self.recipe.features_out}"


def make(layer: description.Dense, place: Place, features_out: int) -> nn.Module:
    """Return the module of a Dense layer, lazy where its number of inputs is not known."""
    recipe = Recipe(layer, place, features_out)
    return LazyDense(recipe) if place.features is None else recipe(place.features)


@building.rule(description.Dense, source="jacot-2018-ntk, section 2; naitsaada-2023-pseudo-iid for structured weights")
def dense(layer: description.Dense, place: Place) -> tuple[nn.Module, int | None]:
    """Return what the place makes of a dense layer, and its number of outputs."""
    features_out = place.size("features", layer.features)
    return place.dense(layer, place, features_out), features_out
