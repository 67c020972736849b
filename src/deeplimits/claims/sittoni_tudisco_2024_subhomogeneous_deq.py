"""A subhomogeneous layer of degree below one has one fixed point and a known rate, however large its weights."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

if TYPE_CHECKING:
    from torch import Tensor

HEADLINE = "largest relative difference between the ends of all starts"
FEATURES_IN = 8
LARGE, MODEST = (128.0, 6.0), (2.0, 1.0)  # spectral norm of W, near, and a where starts are exp(uniform on [-a, a])
LAYERS = {
    "sqrt(ReLU)": (LARGE, {"activation": "relu", "power": 0.5}),
    "softplus^0.9": (LARGE, {"activation": "softplus", "power": 0.9}),
    "tanh + 1.2": (MODEST, {"activation": "tanh", "shift": 1.2, "power": 1.0}),
    "sigmoid": (MODEST, {"activation": "sigmoid", "power": 1.0}),
}


@dataclass(frozen=True)
class Sizes:
    """Features of the layer, starts, and steps of iteration that are watched."""

    features: int
    starts: int
    steps: int


def _made(size: tuple[float, float], settings: dict[str, Any], sizes: Sizes) -> tuple[Any, Tensor, Tensor]:
    """Return a layer, one input for all starts, and the starts."""
    import torch

    from deeplimits.blocks import SubhomogeneousDeepEquilibrium

    torch.manual_seed(2)
    double, (norm, spread) = torch.float64, size
    weight = 2 * norm / sizes.features * torch.rand(sizes.features, sizes.features, dtype=double)
    layer = SubhomogeneousDeepEquilibrium(FEATURES_IN, sizes.features, weight=weight, tolerance=1e-12, **settings)
    x = torch.randn(1, FEATURES_IN, dtype=double).expand(sizes.starts, FEATURES_IN)
    starts = (spread * (2 * torch.rand(sizes.starts, sizes.features, dtype=double) - 1)).exp()
    return layer.double(), x, starts


def _norm(layer: Any) -> float:
    import torch

    return float(torch.linalg.matrix_norm(layer.weight.detach(), 2))


@one_thread()
def uniqueness(sizes: Sizes) -> Measured:
    """Solve layers from many starts, and see whether they end at one point."""
    import torch

    from deeplimits.blocks import degree

    apart, norms = [], []
    for size, settings in LAYERS.values():
        layer, x, starts = _made(size, settings, sizes)
        with torch.no_grad():
            ends = layer(x, starts)
        apart.append(float((ends / ends[:1] - 1).abs().max()))
        norms.append(_norm(layer))
    signed = degree("tanh", shift=1.2, domain="real")
    note = f"{sizes.starts} starts each, {', '.join(LAYERS)}"
    parts = [
        agreement.equal(HEADLINE, 0.0, max(apart), 1e-8, "the gate of 1e-8; solved to 1e-12", note=note),
        agreement.above("smallest spectral norm of the weights", 1.0, Estimate(min(norms), 0.0)),
        agreement.between(
            "degree of tanh + 1.2 for arguments of any sign",
            0.9991,
            Estimate(signed, 0.0),
            0.0,
            1 - 1e-6,
            paper=False,
            note="a shift of 1.2 is just enough: 1.1 has degree 1.41",
        ),
    ]
    return Measured(parts, [])


@one_thread()
def contraction(sizes: Sizes) -> Measured:
    """Measure, step by step, by how much iteration brings all pairs of starts together."""
    import torch

    from deeplimits.blocks import thompson

    parts, panels = [], []
    steps = [float(step) for step in range(sizes.steps + 1)]
    for name, (size, settings) in LAYERS.items():
        layer, x, z = _made(size, settings, sizes)
        other, largest = z.flip(0), []
        with torch.no_grad():
            distances = [thompson(z, other)]
            for _ in range(sizes.steps):
                z, other = layer.block(z, x), layer.block(other, x)
                distances.append(thompson(z, other))
        for before, after in pairwise(distances):
            wide = before > 1e-6  # closer pairs are compared by rounding
            largest.append(float((after[wide] / before[wide]).max()) if bool(wide.any()) else 0.0)
        mu, worst = layer.degree, max(largest)
        what, high = f"largest ratio of two distances in succession, {name}", mu * (1 + 1e-9)  # rounding
        parts.append(agreement.between(what, mu, Estimate(worst, 0.0), 0.0, high))
        course = [float(distance.max()) for distance in distances]
        curves = [
            Curve("measured; line: bound", steps, course, predicted=[course[0] * mu**step for step in steps]),
        ]  # fmt: skip
        title = f"{name}, degree {mu:.3g}"
        panels.append(Panel(title, "step", "largest distance of two states", curves, "linear", "log"))
    return Measured(parts, panels)


@one_thread()
def plain(sizes: Sizes) -> Measured:
    """Iterate plain ReLU layers, of degree 1, with the same weights and with mixed signs."""
    import torch

    from deeplimits.blocks import fixed_point

    layer, x, starts = _made(*LAYERS["sqrt(ReLU)"], sizes)
    inside = torch.nn.functional.softplus(layer.injection(x)).detach()
    signs = torch.randint(0, 2, layer.weight.shape, generator=torch.Generator().manual_seed(3)) * 2.0 - 1
    parts = []
    for name, weight in (("the same weights", layer.weight.abs()), ("mixed signs", layer.weight.abs() * signs)):
        matrix = weight.detach()
        found = fixed_point(
            lambda z, matrix=matrix: torch.relu(z @ matrix.T + inside), starts, method="picard", iterations=200
        )
        share = float((found.residual <= 1e-6).double().mean())
        parts.append(
            agreement.equal(
                f"share of starts from which ReLU iteration converges, {name}", 0.0, share, 0.0,
                "none of them: the degree is 1", note=f"spectral norm {float(torch.linalg.matrix_norm(matrix, 2)):.0f}",
            )
        )  # fmt: skip
    return Measured(parts, [])


@one_thread()
def gradient(sizes: Sizes) -> Measured:
    """Compare implicit gradients with those of an unrolled network."""
    import torch

    gaps = []
    for _, settings in LAYERS.values():
        layer, x, starts = _made(MODEST, settings, sizes)
        z, parameters = starts, list(layer.parameters())
        for _ in range(30 + int(np.ceil(30 / -np.log10(layer.degree)))):
            z = layer.block(z, x)
        found = torch.autograd.grad(layer(x).square().mean(), parameters)
        expected = torch.autograd.grad(z.square().mean(), parameters)
        gaps += [float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True)]
    name = "largest relative difference of implicit gradients to backpropagation through the iteration"
    return Measured([agreement.equal(name, 0.0, max(gaps), 1e-8, "solved to 1e-12", paper=False)], [])


CLAIM = Claim(
    key="sittoni-tudisco-2024-subhomogeneous-deq",
    statement=(
        "An equilibrium layer whose map is subhomogeneous with a degree below one has exactly one positive fixed "
        "point, which iteration reaches at that rate in Thompson's metric, whatever the norm of its weights."
    ),
    source="sittoni-tudisco-2024-subhomogeneous-deq",
    headline=HEADLINE,
    steps=(
        Step("uniqueness", uniqueness, 2.0),
        Step("contraction", contraction, 1.0),
        Step("plain", plain, 1.0),
        Step("gradient", gradient, 2.0),
    ),
    full=Sizes(features=64, starts=50, steps=30),
    reduced=Sizes(features=16, starts=50, steps=10),
)
