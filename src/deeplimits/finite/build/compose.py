"""Compositions as modules, with the names that parameters get."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from deeplimits.architecture import compose
from deeplimits.architecture.activation import Activation
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer, Power, as_float
from deeplimits.architecture.norm import LayerNorm, RMSNorm
from deeplimits.architecture.scale import alpha
from deeplimits.errors import DescriptionError
from deeplimits.finite.build.place import Place, building

_NAMES: dict[type, str] = {compose.Repeat: "blocks", LayerNorm: "norm", RMSNorm: "norm"}


class Residual(nn.Module):
    """x + scale * branch(x)."""

    def __init__(self, branch: nn.Module, scale: float):
        super().__init__()
        self.branch, self.scale = branch, scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the skip plus the scaled branch."""
        return x + self.scale * self.branch(x)

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}"


class Parallel(nn.Module):
    """The sum of branches of one input."""

    def __init__(self, branches: list[nn.Module]):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum over branches."""
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return total


def names(layers: tuple[Layer, ...], whole: bool) -> list[str]:
    """Return one name a layer: readin, blocks, readout and so on in a whole network, the kind's name elsewhere."""
    found: list[str] = []
    for place, layer in enumerate(layers):
        if whole and isinstance(layer, Dense) and place == len(layers) - 1:
            name = "readout"
        elif whole and isinstance(layer, Dense) and place == 0:
            name = "readin"
        elif isinstance(layer, Activation):
            name = "activation"
        else:
            name = _NAMES.get(type(layer), type(layer).__name__.lower())
        found.append(f"{name}_layer" if hasattr(nn.Sequential, name) else name)  # half, double and so on are methods
    for place, name in enumerate(found):
        count = found[:place].count(name)
        if count:
            found[place] = f"{name}_{count + 1}"
    return found


@building.rule(compose.Serial, source="definition")
def serial(layer: compose.Serial, place: Place) -> tuple[nn.Module, int | None]:
    """Return nn.Sequential with named children."""
    modules, features = OrderedDict(), place.features
    for name, part in zip(names(layer.layers, whole=not place.path), layer.layers, strict=True):
        modules[name], features = building(part, place.at(name, features))
    return nn.Sequential(modules), features


@building.rule(compose.Repeat, source="definition")
def repeat(layer: compose.Repeat, place: Place) -> tuple[nn.Module, int | None]:
    """Return nn.Sequential of the blocks 0, 1, ..., each with its own weights."""
    count = place.depth if isinstance(layer.times, Power) else int(layer.times)
    modules, features = [], place.features
    inside = place if place.path else place.at("blocks", features)
    for index in range(count):
        at = inside.at(str(index), features, index=index + 1, repeats=count)
        module, features = building(layer.block, at)
        modules.append(module)
    blocks = nn.Sequential(*modules)
    return (blocks if place.path else nn.Sequential(OrderedDict(blocks=blocks))), features


@building.rule(compose.Residual, source="hayou-yang-2023-commute, eq. 1")
def residual(layer: compose.Residual, place: Place) -> tuple[nn.Module, int | None]:
    """Return the skip connection, its scale a number."""
    branch, features = building(layer.branch, place.at("branch", place.features))
    same_features("Residual", place.path, "the skip", place.features, "the branch", features)
    scale = alpha(layer.scale, place.index, place.repeats, place.depth)
    return Residual(branch, as_float(scale)), features


@building.rule(compose.Parallel, source="definition")
def parallel(layer: compose.Parallel, place: Place) -> tuple[nn.Module, int | None]:
    """Return the sum of branches."""
    modules, features = [], None
    for index, part in enumerate(layer.branches):
        module, out = building(part, place.at(f"branches.{index}", place.features))
        if index:
            same_features("Parallel", place.path, "branch 0", features, f"branch {index}", out)
        features = out if features is None else features
        modules.append(module)
    return Parallel(modules), features


def same_features(kind: str, path: str, one: str, features: int | None, other: str, others: int | None) -> None:
    """Refuse a sum of different numbers of features; None stands for a number that is not known yet."""
    if features is not None and others is not None and features != others:
        why = f"{one} has {features} features and {other} {others}, which cannot be added"
        raise DescriptionError(
            f"{kind} at {path or 'the network'}", why, "end both in a Dense layer of the same features"
        )
