"""Activations as modules."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deeplimits.architecture import activation as act
from deeplimits.finite.build.place import Place, building
from deeplimits.numerics.erfi import inverse_erfi


class Pointwise(nn.Module):
    """An activation applied to every entry; `activation` is its description."""

    def __init__(self, activation: act.Activation):
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Return phi(x), entry by entry."""
        return FUNCTIONS[type(self.activation)](self.activation, x)

    def extra_repr(self) -> str:
        return repr(self.activation)


def step(x: Tensor) -> Tensor:
    """Return 1 where x > 0, else 0, with derivative zero."""
    return torch.relu(torch.sign(x))


def polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Return sum_j coefficients[j] x**j by Horner's rule."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def hermite(order: int, x: Tensor) -> Tensor:
    """Return the normalised Hermite polynomial h_n: sqrt(n+1) h_{n+1} = x h_n - sqrt(n) h_{n-1}."""
    before, now = torch.zeros_like(x), torch.ones_like(x)
    for index in range(order):
        before, now = now, (x * now - sqrt(index) * before) / sqrt(index + 1)
    return now


class _WithDerivative(torch.autograd.Function):
    """A function whose derivative is given rather than found by autograd."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, function: Callable[[Tensor], Tensor], derivative: Callable[[Tensor], Tensor]) -> Tensor:
        del derivative
        return function(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.derivative = inputs[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        return gradients[0] * ctx.derivative(ctx.saved_tensors[0]), None, None


def custom(layer: act.Custom, x: Tensor) -> Tensor:
    """Return the user's function of x, with the user's derivative where one was given."""
    if layer.derivative is None:
        return layer.function(x)
    return _WithDerivative.apply(x, layer.function, layer.derivative)  # type: ignore[return-value]


class _InverseErfi(torch.autograd.Function):
    """u with erfi(u) = y, differentiable any number of times: du/dy = sqrt(pi)/2 exp(-u**2)."""

    @staticmethod
    def forward(y: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(inverse_erfi(y.detach().cpu().double().numpy()))).to(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # type: ignore[override]
        return gradients[0] * sqrt(pi) / 2 * torch.exp(-(ctx.saved_tensors[0] ** 2))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], y: Tensor) -> tuple[Any, int]:
        del info
        return _InverseErfi.apply(y), in_dims[0]


FUNCTIONS: dict[type, Callable[[Any, Tensor], Tensor]] = {
    act.Identity: lambda a, x: x,
    act.Relu: lambda a, x: torch.relu(x),
    act.LeakyRelu: lambda a, x: functional.leaky_relu(x, a.slope),
    act.AbRelu: lambda a, x: a.positive * torch.relu(x) - a.negative * torch.relu(-x),
    act.Abs: lambda a, x: torch.abs(x),
    act.Sign: lambda a, x: torch.sign(x),
    act.Step: lambda a, x: step(x),
    act.RectifiedMonomial: lambda a, x: torch.relu(x) ** a.power if a.power else step(x),
    act.Erf: lambda a, x: a.amplitude * torch.erf(a.frequency * x) + a.shift,
    act.Sin: lambda a, x: a.amplitude * torch.sin(a.frequency * x + a.phase),
    act.Cos: lambda a, x: a.amplitude * torch.cos(a.frequency * x + a.phase),
    act.Exp: lambda a, x: a.amplitude * torch.exp(a.rate * x),
    act.GaussianBump: lambda a, x: torch.exp(-a.rate * x * x),
    act.Probit: lambda a, x: torch.special.ndtr(x),
    act.Gelu: lambda a, x: functional.gelu(x),
    act.Polynomial: lambda a, x: polynomial(a.coefficients, x),
    act.Hermite: lambda a, x: hermite(a.order, x),
    act.Tanh: lambda a, x: torch.tanh(x),
    act.Sigmoid: lambda a, x: torch.sigmoid(x),
    act.Softplus: lambda a, x: functional.softplus(x, threshold=40.0),
    act.Silu: lambda a, x: functional.silu(x),
    act.OrnsteinUhlenbeck: lambda a, x: torch.exp(_InverseErfi.apply(a.alpha * x + a.beta) ** 2),
    act.Custom: custom,
}


@building.rule(*FUNCTIONS, source="definition")
def pointwise(layer: act.Activation, place: Place) -> tuple[nn.Module, int | None]:
    """Return the activation as a module and the number of features that leave it."""
    return Pointwise(layer), place.features
