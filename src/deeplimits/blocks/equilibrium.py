"""Layers of infinite depth with tied weights: the output is the fixed point of a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.blocks.iteration import FixedPoint, Map, column, fixed_point, rms, settings, tell
from deeplimits.blocks.steady import steady_state
from deeplimits.errors import InputError

Solver = Callable[[Map, Tensor], FixedPoint]


@dataclass(frozen=True)
class Report:
    """What a solve took: evaluations of the block on the batch, the largest residual, and whether all converged."""

    evaluations: int
    residual: float
    converged: bool


class DeepEquilibrium(nn.Module):
    """The fixed point z* = f(z*, x) of a block.

    f is applied until it changes nothing, as in a network of infinite depth whose layers share their weights. The
    gradient needs only z*: with J = df/dz at z*, the same solver finds u = J^T u + dL/dz*, that is
    u = (I - J^T)^(-1) dL/dz*, and parameters and x receive u^T df. Memory does not grow with the iterations.

    Args:
        block: f, a module that takes (z, x) and returns z's shape.
        features: shape of one sample's z, a number or several.
        method: "anderson" or "picard", as in `fixed_point`.
        tolerance: on the residual rms(f - z) / (1 + rms f) of each sample, forward and backward.
        iterations: evaluations at most, forward and backward each.
        memory: past iterates that Anderson's mixing uses.

    Valid when: f is deterministic (no dropout), samples do not mix, and I - J is regular at z*. Gradients of
    gradients are refused. Float32 reaches residuals of about 1e-6. Where no fixed point is found a ConvergenceWarning
    tells the residual; the best iterate is returned, and `forward_report` and `backward_report` keep the numbers.

    Raises:
        InputError: settings that cannot be, NaN or infinite entries of x.

    Source: bai-2019-deq; the tolerance and what is kept: definition.

    Example:
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.mix, self.read = nn.Linear(8, 8), nn.Linear(3, 8)
        ...     def forward(self, z, x):
        ...         return torch.tanh(0.5 * self.mix(z) + self.read(x))
        >>> layer = DeepEquilibrium(Block(), features=8)
        >>> x = torch.randn(5, 3)
        >>> z = layer(x)
        >>> bool((layer.block(z, x) - z).abs().max() < 1e-5), layer.forward_report.converged
        (True, True)
    """

    def __init__(
        self,
        block: nn.Module,
        features: int | tuple[int, ...],
        *,
        method: str = "anderson",
        tolerance: float = 1e-6,
        iterations: int = 200,
        memory: int = 5,
    ):
        super().__init__()
        name = type(self).__name__
        settings(method, tolerance, iterations, memory)
        self.block = given.module(name, "block", block)
        sizes = features if isinstance(features, tuple) else (features,)
        self.features = tuple(whole(name, "features", size) for size in sizes)
        self.method, self.tolerance, self.iterations, self.memory = method, tolerance, iterations, memory
        self.forward_report: Report | None = None
        self.backward_report: Report | None = None

    def start(self, x: Tensor) -> Tensor:
        """Return where the solver begins: zero."""
        return x.new_zeros(len(x), *self.features)

    def solve(self, function: Map, start: Tensor) -> FixedPoint:
        """Return the fixed point of a map, by this module's solver."""
        return fixed_point(
            function, start, method=self.method, tolerance=self.tolerance, iterations=self.iterations,
            memory=self.memory,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return z*, (batch, *features), of x, (batch, ...)."""
        given.batch(type(self).__name__, "x", x)
        with torch.no_grad():
            start = self.start(x)
        return self._from(start, x)

    def _from(self, start: Tensor, x: Tensor) -> Tensor:
        name = type(self).__name__
        with torch.no_grad():
            found = self.solve(lambda z: given.applied(name, "the block", self.block, z=z, x=x), start)
        self.forward_report = Report(found.evaluations, found.worst, found.converged)
        tell(name, found, self.tolerance)
        return implicit(self, found.value, x)

    def linear(self, transpose: Map, gradient: Tensor) -> FixedPoint:
        """Return u = J^T u + gradient, from the gradient's own direction, scaled to root mean square 1."""
        return self.solve(lambda u: transpose(u) + gradient, gradient)

    def extra_repr(self) -> str:
        return f"features={self.features}, method={self.method!r}, tolerance={self.tolerance:g}"


def implicit(layer: Any, value: Tensor, x: Tensor) -> Tensor:
    """Return `value`, the fixed point of layer.block, with the implicit gradient to x and the block's parameters."""
    image = layer.block(value, x)
    if not image.requires_grad:
        return value
    result: Any = _Implicit.apply(image, value, x.detach(), layer)
    return result


class _Implicit(torch.autograd.Function):
    """Forward: z* in place of f(z*, x). Backward: dL/dz* becomes u = (I - J^T)^(-1) dL/dz*."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, value: Tensor, x: Tensor, layer: Any) -> Tensor:
        del image
        ctx.save_for_backward(value, x)
        ctx.layer, ctx.versions = layer, [one._version for one in layer.parameters()]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        given.once(f"{type(ctx.layer).__name__}, backward", "differentiate once, or unroll the block")
        if [one._version for one in ctx.layer.parameters()] != ctx.versions:
            why = "parameters were changed between the forward and the backward pass"
            raise InputError(f"{type(ctx.layer).__name__}, backward", why, "step the optimizer after backward")
        value, x = ctx.saved_tensors
        layer, (gradient,) = ctx.layer, gradients
        size = column(rms(gradient), gradient).clamp_min(torch.finfo(gradient.dtype).tiny)
        with torch.enable_grad():
            z = value.detach().requires_grad_()
            image = layer.block(z, x)
        if not image.requires_grad:
            return gradient, None, None, None

        def transpose(u: Tensor) -> Tensor:
            (found,) = torch.autograd.grad(image, z, u, retain_graph=True, allow_unused=True)
            return torch.zeros_like(u) if found is None else found

        found = layer.linear(transpose, gradient / size)
        layer.backward_report = Report(found.evaluations, found.worst, found.converged)
        tell(f"{type(layer).__name__}, backward", found, layer.tolerance)
        return found.value * size, None, None, None


class ContinuousDeepEquilibrium(DeepEquilibrium):
    """The steady state of z' = f(z, x) - z: a neural ODE of infinite time, whose end is the fixed point of f.

    An adaptive Runge-Kutta method follows the flow until the residual is small. It finds a root wherever the flow is
    stable, that is where the eigenvalues of J have real parts below 1, also where plain iteration would swing; a
    smooth path is bought with more evaluations. The gradient is that of `DeepEquilibrium`: its linear equation is
    solved by Anderson's mixing, which also serves at a root that the flow only passes by.

    Args:
        block: f, a module that takes (z, x) and returns z's shape.
        features: shape of one sample's z.
        tolerance: on the residual rms(f - z) / (1 + rms f) of each sample, forward and backward.
        iterations: evaluations at most, forward and backward each.
        memory: past iterates that Anderson's mixing uses on the way back.

    Valid when: as for `DeepEquilibrium`, and the flow from zero has a steady state.

    Raises:
        InputError: settings that cannot be, NaN or infinite entries of x.

    Source: pal-2022-skip-deq.

    Example:
        >>> from deeplimits.blocks import Injected
        >>> layer = ContinuousDeepEquilibrium(Injected(3, 8), features=8)
        >>> x = torch.randn(5, 3)
        >>> z = layer(x)
        >>> bool((layer.block(z, x) - z).abs().max() < 1e-5)
        True
    """

    def __init__(
        self,
        block: nn.Module,
        features: int | tuple[int, ...],
        *,
        tolerance: float = 1e-6,
        iterations: int = 1000,
        memory: int = 10,
    ):
        super().__init__(block, features, tolerance=tolerance, iterations=iterations, memory=memory)
        self.method = "ode"

    def solve(self, function: Map, start: Tensor) -> FixedPoint:
        """Return the steady state of z' = f(z) - z."""
        return steady_state(function, start, tolerance=self.tolerance, evaluations=self.iterations)

    def linear(self, transpose: Map, gradient: Tensor) -> FixedPoint:
        """Return u = J^T u + gradient, by Anderson's mixing."""
        return fixed_point(
            lambda u: transpose(u) + gradient, gradient, tolerance=self.tolerance, iterations=self.iterations,
            memory=self.memory,
        )  # fmt: skip


class SkipDeepEquilibrium(nn.Module):
    """An equilibrium layer whose solver begins at an explicit guess g(x), trained beside it.

    Returns z* and weight * mean |g(x) - z*|^2, to be added to the loss: the better the guess, the fewer evaluations
    the solver needs. z* does not depend on the guess, up to the tolerance.

    Args:
        layer: a `DeepEquilibrium` or `ContinuousDeepEquilibrium`.
        predictor: g, a module from x to z's shape; None applies the block once, to zero, and adds no parameters.
        weight: lambda of the penalty, whose gradient reaches both g(x) and z*.

    Raises:
        InputError: a layer or predictor of another kind, a weight that is not positive, a guess of another shape.

    Source: pal-2022-skip-deq (the squared distance: definition).

    Example:
        >>> from deeplimits.blocks import Injected
        >>> layer = SkipDeepEquilibrium(DeepEquilibrium(Injected(3, 8), features=8), nn.Linear(3, 8), weight=0.1)
        >>> z, penalty = layer(torch.randn(5, 3))
        >>> loss = z.square().mean() + penalty
        >>> loss.backward()
        >>> layer.predictor.weight.grad.shape
        torch.Size([8, 3])
    """

    def __init__(self, layer: DeepEquilibrium, predictor: nn.Module | None = None, weight: float = 0.1):
        super().__init__()
        if not isinstance(layer, DeepEquilibrium):
            why = f"layer is a {type(layer).__name__}"
            raise InputError("SkipDeepEquilibrium", why, "give a DeepEquilibrium or a ContinuousDeepEquilibrium")
        self.layer = layer
        self.predictor = None if predictor is None else given.module("SkipDeepEquilibrium", "predictor", predictor)
        self.weight = given.positive("SkipDeepEquilibrium", "weight", weight)

    def guess(self, x: Tensor) -> Tensor:
        """Return g(x)."""
        name = type(self).__name__
        if self.predictor is None:
            return given.applied(name, "the block", self.layer.block, z=self.layer.start(x), x=x)
        return given.applied(name, "the predictor", self.predictor, x=x)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return z*, (batch, *features), and the penalty, a scalar."""
        given.batch("SkipDeepEquilibrium", "x", x)
        guess = self.guess(x)
        if guess.shape != (len(x), *self.layer.features):
            why = f"the guess has shape {tuple(guess.shape)}"
            raise InputError("SkipDeepEquilibrium", why, f"return {(len(x), *self.layer.features)} from the predictor")
        z = self.layer._from(guess.detach(), x)
        return z, self.weight * (guess - z).square().mean()
