"""Networks driven by paths as modules."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from deeplimits.architecture import dense
from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import as_float
from deeplimits.errors import InputError, PrecisionError
from deeplimits.finite.build.place import Place, building
from deeplimits.finite.build.weights import normal
from deeplimits.numerics.path import check_paths

FORWARD = "forward of a ControlledResNet"


class Field(nn.Module):
    """sum_j (weight_scale weight_j phi + bias_scale bias_j) step_j: one layer of a network driven by a path.

    weight: (d, n, n); bias: (d, n) or None.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, weight: Tensor, weight_scale: float, bias: Tensor | None, bias_scale: float):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)
        self.weight_scale, self.bias_scale = weight_scale, bias_scale

    def forward(self, phi: Tensor, step: Tensor) -> Tensor:
        """Return what one step adds, from phi(state) (batch, n) and the step (batch, d): (batch, n)."""
        channels = self.weight.shape[0]
        if step.shape[-1] != channels:
            why = f"the paths have {step.shape[-1]} channels, the time among them where it is added, not {channels}"
            raise InputError(FORWARD, why, "give paths like those it was built for")
        each = functional.linear(phi, self.weight.flatten(0, 1)).unflatten(-1, self.weight.shape[:2])
        each = each * self.weight_scale
        if self.bias is not None:
            each = each + self.bias_scale * self.bias
        return (each * step[..., None]).sum(-2)

    def extra_repr(self) -> str:
        return (
            f"weight={tuple(self.weight.shape)}, weight_scale={self.weight_scale:.6g}, bias_scale={self.bias_scale:.6g}"
        )


class LazyField(LazyModuleMixin, Field):
    """A field that learns the number of channels at the first forward pass and then becomes a plain one."""

    cls_to_become = Field
    like: Tensor

    def __init__(self, net: ControlledResNet, place: Place):
        weight_scale, bias_scale = _scales(net, place)
        super().__init__(torch.empty(0), weight_scale, None, bias_scale)  # pyright: ignore
        self.weight = UninitializedParameter(dtype=place.dtype)  # type: ignore[assignment]
        if as_float(net.bias_std):
            self.bias = UninitializedParameter(dtype=place.dtype)  # type: ignore[assignment]
        self.register_buffer("like", torch.empty(0, dtype=place.dtype), persistent=False)  # follows .to(...)
        self.net, self.place = net, place

    def initialize_parameters(self, phi: Tensor, step: Tensor) -> None:  # type: ignore[override]
        """Make the parameters for steps (batch, d)."""
        made = _parameters(self.net, self.place, step.shape[-1])
        with torch.no_grad():
            for mine, value in zip((self.weight, self.bias), made, strict=True):
                if value is not None:
                    held: Any = mine
                    held.materialize(value.shape, device=self.like.device, dtype=self.like.dtype)
                    held.copy_(value)
        del self.net, self.place, self.like

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        weight = state_dict.get(prefix + "weight")
        if weight is None or isinstance(weight, UninitializedParameter):
            super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]
            return
        self._infer_parameters(self, (weight, self.like.new_empty(1, len(weight))))  # pyright: ignore
        type(self)._load_from_state_dict(self, state_dict, prefix, *rest)  # type: ignore[misc]

    def forward(self, phi: Tensor, step: Tensor) -> Tensor:
        """Return what one step adds; by now the object is a plain field."""
        return type(self).forward(self, phi, step)

    def extra_repr(self) -> str:
        return "channels unknown until the first forward pass"


class Driven(nn.Module):
    """The states at the end of paths: (batch, points, d), or a list of arrays (points, d) each, to (batch, n).

    `fields` holds one layer for all steps, or one for each; initial_scale * `initial` (n,) is the state before the
    first step, no parameter where initial_std is 0.
    """

    initial: Tensor

    def __init__(self, net: ControlledResNet, depth: int, initial: Tensor, scale: float, fields: list[nn.Module],
                 activation: nn.Module):  # fmt: skip
        super().__init__()
        self.net, self.depth, self.initial_scale = net, depth, scale
        if bool(initial.any()):
            self.initial = nn.Parameter(initial)
        else:
            self.register_buffer("initial", initial)
        self.activation, self.fields = activation, nn.ModuleList(fields)

    def forward(self, paths: Any) -> Tensor:
        """Return the last state of each path.

        Raises:
            InputError: paths that cannot be used; says which path and point.
            PrecisionError: a state leaves the range of the parameters' dtype.
        """
        steps = grid(self.net, paths, self.depth, self.initial).diff(dim=1)
        if not self.net.homogeneous:
            steps = steps * sqrt(self.depth)
        state = (self.initial_scale * self.initial).expand(len(steps), -1)
        for index in range(self.depth):
            layer = self.fields[index % len(self.fields)]
            state = state + layer(self.activation(state), steps[:, index])
        if not bool(state.isfinite().all()):
            refuse_overflow(self.net, steps, int(torch.nonzero(~state.isfinite())[0, 0]), str(state.dtype))
        return state

    def extra_repr(self) -> str:
        return f"depth={self.depth}, homogeneous={self.net.homogeneous}, initial_scale={self.initial_scale:g}"


def refuse_overflow(net: ControlledResNet, steps: Tensor, path: int, dtype: str, where: str = FORWARD) -> None:
    """Say how large the steps of a path are under which the state overflowed; `steps` (batch, depth, d)."""
    length = float(steps[path].detach().double().norm(dim=-1).sum())
    why = f"the state of path {path} leaves the range of {dtype}: weight_std = {as_float(net.weight_std):.3g}, length "
    why += f"of the path {length:.3g}" + ("" if net.homogeneous else " with steps divided by sqrt(dt)")
    raise PrecisionError(where, why, "scale the paths or weight_std down")


def grid(net: ControlledResNet, paths: Any, depth: int, like: Tensor) -> Tensor:
    """Return paths at depth + 1 places spread evenly over their times, (batch, depth + 1, d), differentiable.

    Args:
        net: the description, which may add the time or read it from a channel.
        paths: (batch, points, d), or a list of arrays (points, d) each; numpy or torch.
        depth: number of steps.
        like: a tensor of the dtype and on the device wanted.

    Raises:
        InputError: paths that cannot be used; says which path and point.
    """
    if isinstance(paths, Tensor) and paths.ndim == 3 and paths.shape[1] > 1 and bool(paths.isfinite().all()):
        if net.clock is not None:
            check_paths(FORWARD, "paths", paths, net.clock)
        return _places(net, paths.to(like), depth)
    check_paths(FORWARD, "paths", paths, net.clock)
    return torch.cat([_places(net, torch.as_tensor(path).to(like)[None], depth) for path in paths])


def _places(net: ControlledResNet, paths: Tensor, depth: int) -> Tensor:
    """Return paths of equal length, straight between their points, at depth + 1 places."""
    batch, points, _ = paths.shape
    even = torch.linspace(0, 1, points, dtype=paths.dtype, device=paths.device).expand(batch, -1)
    if net.time:
        paths = torch.cat([paths, even[..., None]], dim=-1)
    own = even
    if net.clock is not None:
        times = paths[..., net.clock]
        own = (times - times[:, :1]) / (times[:, -1:] - times[:, :1])
    wanted = torch.linspace(0, 1, depth + 1, dtype=paths.dtype, device=paths.device).repeat(batch, 1)
    low = torch.searchsorted(own.detach().contiguous(), wanted, right=True).sub(1).clamp(0, points - 2)
    before, after = own.gather(1, low), own.gather(1, low + 1)
    which = low[..., None].expand(-1, -1, paths.shape[-1])
    share = ((wanted - before) / (after - before))[..., None]
    return torch.lerp(paths.gather(1, which), paths.gather(1, which + 1), share)


def _stds(net: ControlledResNet, place: Place) -> tuple[float, float]:
    return as_float(net.weight_std) / sqrt(place.width), as_float(net.bias_std)


def _scales(net: ControlledResNet, place: Place) -> tuple[float, float]:
    return (1.0, 1.0) if place.parametrization == "standard" else _stds(net, place)


def _parameters(net: ControlledResNet, place: Place, channels: int) -> tuple[Tensor, Tensor | None]:
    """Return the weight and the bias of a field."""
    inside = _stds(net, place) if place.parametrization == "standard" else (1.0, 1.0)
    weight = normal((channels, place.width, place.width), place, "weight") * inside[0]
    if not as_float(net.bias_std):
        return weight.to(place.dtype), None
    return weight.to(place.dtype), (normal((channels, place.width), place, "bias") * inside[1]).to(place.dtype)


def _field(net: ControlledResNet, place: Place, channels: int | None) -> nn.Module:
    if channels is None:
        return LazyField(net, place)
    (weight, bias), (weight_scale, bias_scale) = _parameters(net, place, channels), _scales(net, place)
    return Field(weight, weight_scale, bias, bias_scale)


@building.rule(ControlledResNet, source="cirone-2023-neural-signature-kernels")
def controlled(net: ControlledResNet, place: Place) -> tuple[nn.Module, int | None]:
    """Return the states at the end of paths, then the readout: a module of paths."""
    hidden = place.at("hidden", place.width)
    channels = None if place.features is None else place.features + net.time
    layers = range(1 if net.homogeneous else place.depth)
    fields = [_field(net, hidden.at(f"fields.{index}", place.width), channels) for index in layers]
    std, standard = as_float(net.initial_std), place.parametrization == "standard"
    initial = normal((place.width,), hidden, "initial") * (std if standard else float(std > 0))
    activation, _ = building(net.activation, hidden.at("activation", place.width))
    driven = Driven(net, place.depth, initial.to(place.dtype), 1.0 if standard else std, fields, activation)
    readout, outputs = building(dense.Dense(features=1), place.at("readout", place.width))
    return nn.Sequential(OrderedDict(hidden=driven, readout=readout)), outputs
