"""Networks of continuous depth: the output is the solution of an ordinary differential equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.blocks.runge_kutta import Path, adaptive, euler, largest, within
from deeplimits.errors import InputError, PrecisionError


@dataclass(frozen=True)
class Passed:
    """What one pass through time took: accepted steps and evaluations of the field."""

    steps: int
    evaluations: int


class NeuralODE(nn.Module):
    """z(T) of z' = f(t, z), z(0) = x.

    With `steps` = L it is the residual network z_(l+1) = z_l + (T/L) f(l T/L, z_l), whose distance to z(T) falls as
    1/L; its gradient is plain backpropagation. Without, an adaptive method of order 5 chooses the steps, and the
    gradient comes from the adjoint equation, solved backwards beside z itself: a' = -a^T df/dz,
    dL/dtheta' = -a^T df/dtheta, a(T) = dL/dz(T). It keeps z(T) and nothing else: memory does not grow with the steps.

    Args:
        field: f, a module that takes (t, z), t a float, and returns z's shape.
        time: T.
        steps: L, or None for the adaptive method.
        tolerance: on the error of an adaptive step, absolute and relative, per sample; on the way back, also that of
            the adjoint and of the parameters' gradient.
        adjoint: False backpropagates through the adaptive steps instead, whose states are then all kept.
        evaluations: of the field at most, each way.

    Valid when: f is smooth enough for its solution to be unique. The adjoint reaches the field's own parameters and x,
    no other tensor that f may use, and goes back along z: where f contracts strongly, going back amplifies errors
    by as much, so lower the tolerance or take adjoint=False. Gradients of gradients need adjoint=False.
    `forward_report` and `backward_report` keep the counts.

    Raises:
        InputError: settings that cannot be, NaN or infinite entries of x, adjoint=True with steps.
        PrecisionError: the solution leaves every bound by T, or needs more evaluations than allowed.

    Source: chen-2018-neural-ode.

    Example:
        >>> class Rotate(nn.Module):
        ...     def forward(self, t, z):
        ...         return torch.stack([-z[..., 1], z[..., 0]], dim=-1)
        >>> x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        >>> z = NeuralODE(Rotate(), time=torch.pi / 2, tolerance=1e-10)(x)
        >>> bool((z - torch.tensor([[0.0, 1.0]])).abs().max() < 1e-9)
        True
    """

    def __init__(
        self,
        field: nn.Module,
        *,
        time: float = 1.0,
        steps: int | None = None,
        tolerance: float = 1e-6,
        adjoint: bool | None = None,
        evaluations: int = 100_000,
    ):
        super().__init__()
        self.field = given.module("NeuralODE", "field", field)
        self.time = given.positive("NeuralODE", "time", time)
        self.steps = None if steps is None else whole("NeuralODE", "steps", steps)
        self.tolerance = given.positive("NeuralODE", "tolerance", tolerance)
        self.evaluations = whole("NeuralODE", "evaluations", evaluations)
        if adjoint and steps is not None:
            why = f"adjoint=True with steps={steps}"
            raise InputError("NeuralODE", why, "a network of fixed steps is backpropagated; leave adjoint out")
        self.adjoint = steps is None if adjoint is None else adjoint
        self.forward_report: Passed | None = None
        self.backward_report: Passed | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return z(T) of x, (batch, ...)."""
        given.batch("NeuralODE", "x", x)
        if self.steps is not None:
            self.forward_report = Passed(self.steps, self.steps)
            end = euler(self._slope, x, self.time, self.steps)
            if not bool(torch.isfinite(end.detach()).all()):
                why = f"after {self.steps} steps to time {self.time:g} the solution is no longer finite"
                raise PrecisionError("NeuralODE", why, "take more steps, a smaller time, or bound the field")
            return end
        if not self.adjoint:
            return self._solve(x)
        parameters = [one for one in self.field.parameters() if one.requires_grad]
        result: Any = _Adjoint.apply(self, x, *parameters)
        return result

    def _slope(self, time: float, z: Tensor) -> Tensor:
        slope = given.applied("NeuralODE", "the field", self.field, time, z=z)
        if slope.shape != z.shape:
            why = f"the field sends shape {tuple(z.shape)} to {tuple(slope.shape)}"
            raise InputError("NeuralODE", why, "z' has the shape of z")
        return slope

    def _solve(self, x: Tensor) -> Tensor:
        path = adaptive(self._slope, x, 0.0, self.time, within(self.tolerance), evaluations=self.evaluations)
        self.forward_report = _arrived("NeuralODE", path, self.evaluations)
        return path.state

    def extra_repr(self) -> str:
        how = f"tolerance={self.tolerance:g}, adjoint={self.adjoint}" if self.steps is None else f"steps={self.steps}"
        return f"time={self.time:g}, {how}"


def _arrived(where: str, path: Path, evaluations: int) -> Passed:
    if not path.finished:
        size = float(path.state.detach().abs().max())
        why = f"the solution stopped at time {path.time:.4g} with entries up to {size:.3g}, after {path.steps} steps"
        fix = f"raise evaluations={evaluations}, raise the tolerance, or bound the field: this one may explode"
        raise PrecisionError(where, why, fix)
    return Passed(path.steps, path.evaluations)


class _Adjoint(torch.autograd.Function):
    """The solution of the equation forward, that of its adjoint backward."""

    @staticmethod
    def forward(ctx: Any, layer: NeuralODE, x: Tensor, *parameters: Tensor) -> Tensor:
        end = layer._solve(x)
        ctx.layer = layer
        ctx.save_for_backward(end, *parameters)
        return end

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        given.once("NeuralODE, backward", "take adjoint=False")
        layer, (end, *parameters), (gradient,) = ctx.layer, ctx.saved_tensors, gradients
        size = float(gradient.abs().max()) if gradient.numel() else 0.0
        if size == 0.0 or not (parameters or ctx.needs_input_grad[1]):
            return None, torch.zeros_like(gradient), *(torch.zeros_like(one) for one in parameters)
        shapes = [end.shape, end.shape, *(one.shape for one in parameters)]
        begin = torch.cat(
            [end.flatten(), gradient.flatten() / size, *(one.new_zeros(one.numel()) for one in parameters)]
        )
        sizes = [shape.numel() for shape in shapes]

        def parts(state: Tensor) -> list[Tensor]:
            return [part.reshape(shape) for part, shape in zip(state.split(sizes), shapes, strict=True)]

        def field(time: float, state: Tensor) -> Tensor:
            z, a = parts(state)[:2]
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                slope = layer._slope(time, z)
            found = torch.autograd.grad(slope, (z, *parameters), a, allow_unused=True, materialize_grads=True)
            return torch.cat([slope.detach().flatten(), *(-one.flatten() for one in found)])

        def norm(scaled: Tensor) -> Tensor:
            z, a, *rest = parts(scaled)
            return torch.stack([largest(z), largest(a), *(one.square().mean().sqrt() for one in rest)]).max()

        scale = within(layer.tolerance)
        path = adaptive(field, begin, layer.time, 0.0, scale, norm=norm, evaluations=layer.evaluations)
        layer.backward_report = _arrived("NeuralODE, backward", path, layer.evaluations)
        _, a, *found = parts(path.state)
        return None, a * size, *(one * size for one in found)
