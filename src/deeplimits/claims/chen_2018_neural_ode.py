"""Residual networks with branches scaled by 1/L become an equation, and its gradient needs no memory of the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.saved import saved_bytes
from deeplimits.numerics.fit import slope

if TYPE_CHECKING:
    from torch import Tensor

HEADLINE = "exponent in the depth of a residual network's distance to the equation"
FEATURES, HIDDEN, BATCH = 8, 32, 16
SINGLE, DOUBLE = 1e-4, 1e-8  # gates of the gradient: the paper's set-up in float32, and the aim in float64


@dataclass(frozen=True)
class Sizes:
    """Depths of residual networks, seeds of gradients, and tolerances of the solver whose memory is counted."""

    depths: tuple[int, ...]
    seeds: int
    tolerances: tuple[float, ...]


@cache
def _field_class() -> Any:
    import torch
    from torch import nn

    class Field(nn.Module):
        """f(t, z) = B tanh(A z + t c), smooth, the same weights at all depths."""

        def __init__(self, draw: torch.Generator):
            super().__init__()
            self.a = nn.Parameter(torch.randn(HIDDEN, FEATURES, generator=draw, dtype=torch.float64) / FEATURES**0.5)
            self.c = nn.Parameter(torch.randn(HIDDEN, generator=draw, dtype=torch.float64))
            self.b = nn.Parameter(torch.randn(FEATURES, HIDDEN, generator=draw, dtype=torch.float64) / HIDDEN**0.5)

        def forward(self, time: float, z: Tensor) -> Tensor:
            return torch.tanh(z @ self.a.T + time * self.c) @ self.b.T

    return Field


def _drawn(seed: int) -> tuple[Any, Tensor]:
    """Return a field and a batch of inputs."""
    import torch

    from deeplimits.numerics.seeds import torch_generator

    draw = torch_generator(seed, "claims", "neural ODE")
    field = _field_class()(draw)
    return field, torch.randn(BATCH, FEATURES, generator=draw, dtype=torch.float64)


@one_thread()
def depth(sizes: Sizes) -> Measured:
    """Measure how far residual networks of L tied layers, scaled by 1/L, are from the equation's solution."""
    import torch

    from deeplimits.blocks import NeuralODE

    field, x = _drawn(0)
    with torch.no_grad():
        exact = NeuralODE(field, tolerance=1e-12)(x)
        errors = [float((NeuralODE(field, steps=L)(x) - exact).square().mean().sqrt()) for L in sizes.depths]
    fitted = slope(sizes.depths, errors, confidence=CONFIDENCE)
    note = "the paper reads residual networks as Euler steps; the rate is Euler's"
    parts = [agreement.inside(HEADLINE, -1.0, fitted, -1.1, -0.9, paper=False, note=note)]
    line = [errors[-1] * sizes.depths[-1] / L for L in sizes.depths]
    curve = Curve("tied tanh field; line: 1/L", [float(L) for L in sizes.depths], errors, predicted=line)
    title = "A residual network of depth L beside its equation"
    return Measured(parts, [Panel(title, "depth L", "root mean square error of z(1)", [curve], y_scale="log")])


def _gap(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    return max(float((a.double() - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True))


def _gradients(layer: Any, x: Tensor) -> tuple[Tensor, ...]:
    import torch

    x = x.clone().requires_grad_()
    return torch.autograd.grad(0.5 * layer(x).square().sum(), [x, *layer.parameters()])


@one_thread()
def gradient(sizes: Sizes) -> Measured:
    """Compare the adjoint's gradients with those of backpropagation through the solver's steps."""
    import torch

    from deeplimits.blocks import NeuralODE

    double, single = [], []
    for seed in range(1, sizes.seeds + 1):
        field, x = _drawn(seed)
        through = _gradients(NeuralODE(field, tolerance=1e-11, adjoint=False), x)
        double.append(_gap(_gradients(NeuralODE(field, tolerance=1e-11), x), through))
        rough = field.to(torch.float32)
        single.append(_gap(_gradients(NeuralODE(rough, tolerance=1e-6), x.float()), through))
    where = f"largest relative difference of the adjoint's gradients to backpropagation, {sizes.seeds} fields"
    parts = [
        agreement.equal(f"{where}, float32", 0.0, max(single), SINGLE, "the gate of 1e-4", paper=False),
        agreement.equal(f"{where}, float64", 0.0, max(double), DOUBLE, "solver tolerance 1e-11", paper=False),
    ]
    x = [float(seed) for seed in range(1, sizes.seeds + 1)]
    curves = [Curve("float32, tolerance 1e-6", x, single), Curve("float64, tolerance 1e-11", x, double)]
    title = "The adjoint's gradient beside backpropagation"
    panel = Panel(title, "field", "largest relative difference", curves, x_scale="linear", y_scale="log")
    return Measured(parts, [panel])


@one_thread()
def memory(sizes: Sizes) -> Measured:
    """Count what is kept for the backward pass, as the solver takes more and more evaluations."""
    from deeplimits.blocks import NeuralODE

    field, x = _drawn(0)
    kept: dict[bool, list[int]] = {True: [], False: []}
    evaluations: list[float] = []
    for tolerance in sizes.tolerances:
        for adjoint, found in kept.items():
            layer = NeuralODE(field, tolerance=tolerance, adjoint=adjoint)
            found.append(saved_bytes(lambda layer=layer: layer(x)))
            if adjoint and layer.forward_report is not None:
                evaluations.append(float(layer.forward_report.evaluations))
    growth, work = kept[False][-1] / kept[False][0], evaluations[-1] / evaluations[0]
    note = f"{evaluations[0]:.0f} to {evaluations[-1]:.0f} evaluations; tensors saved by autograd are counted"
    parts = [
        agreement.equal(
            "bytes kept at the smallest tolerance over those at the largest, adjoint", 1.0,
            kept[True][-1] / kept[True][0], 0.0, "not one byte more", note=note,
        ),
        agreement.equal(
            "the same over the ratio of evaluations, backpropagation", 1.0, growth / work, 0.35,
            "rejected steps keep nothing, weights and inputs count once", paper=False,
        ),
    ]  # fmt: skip
    curves = [
        Curve("adjoint", evaluations, [float(n) for n in kept[True]]),
        Curve("backpropagation", evaluations, [float(n) for n in kept[False]]),
    ]
    panel = Panel("Memory", "evaluations of the field", "bytes kept for the backward pass", curves, y_scale="log")
    return Measured(parts, [panel])


CLAIM = Claim(
    key="chen-2018-neural-ode",
    statement=(
        "A residual network of L tied layers scaled by 1/L follows an ordinary differential equation, whose adjoint "
        "gives the gradient with memory that does not grow with the steps."
    ),
    source="chen-2018-neural-ode",
    headline=HEADLINE,
    steps=(Step("depth", depth, 2.0), Step("gradient", gradient, 6.0), Step("memory", memory, 1.0)),
    full=Sizes(depths=(32, 64, 128, 256, 512, 1024, 2048), seeds=12, tolerances=(1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)),
    reduced=Sizes(depths=(64, 128, 256, 512), seeds=2, tolerances=(1e-3, 1e-10)),
)
