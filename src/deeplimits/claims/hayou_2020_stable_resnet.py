"""Residual networks whose branch scales have a bounded sum of squares keep their gradients and their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, pi
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.inputs import pair, sphere
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

C0 = 0.2
HEADLINE = "gradient norm, uniform scales, depth 1000 over depth 10"
STABLE = ("uniform", "decreasing")
DEGREES = (1, 2, 3, 5, 9, 25)


@dataclass(frozen=True)
class Sizes:
    """Widths, depths and numbers of networks."""

    width: int
    depths: tuple[int, ...]
    networks: int
    tangent: tuple[int, int, int]
    unscaled_depth: int
    points: int


def _net(name: str) -> Any:
    from deeplimits.architecture.zoo import ResNet, StableResNet

    return ResNet("relu", scale=1.0) if name == "unscaled" else StableResNet("relu", sequence=name)


@one_thread()
def log_gradients(name: str, width: int, depth: int, networks: int) -> np.ndarray:
    """Return log(|dv.y_L/dy_0|^2 / |v|^2) for a random direction v of the output features, network by network."""
    import torch

    from deeplimits.finite.build import build
    from deeplimits.numerics.seeds import generator

    found = []
    x = torch.from_numpy(pair(C0)[:1])
    for index in range(networks):
        stream = generator(1, "claims", "gradient", name, depth, index)
        module = build(_net(name), width, depth, int(stream.integers(2**63)), features_in=2, dtype=torch.float64)
        readin, *blocks = list(module.children())[:-1]
        first = readin(x).detach().requires_grad_()
        last = first
        for block in blocks:
            last = block(last)
        direction = torch.from_numpy(stream.standard_normal(width)).expand_as(last)
        (gradient,) = torch.autograd.grad(last, first, direction)
        found.append(float(2 * torch.log(gradient.norm() / direction.norm())))
    return np.array(found)


def gradients(sizes: Sizes) -> Measured:
    """Measure how the gradient's norm grows from the smallest to the largest depth."""
    shallow, deep = sizes.depths[0], sizes.depths[-1]
    logs = {
        name: [log_gradients(name, sizes.width, depth, sizes.networks) for depth in sizes.depths]
        for name in ("unscaled", *STABLE)
    }
    squares = {name: [_log_square(name, depth) for depth in sizes.depths] for name in ("unscaled", *STABLE)}
    words = f"depth {deep} over depth {shallow}"
    parts: list[Part] = []
    for name in STABLE:
        ratio = _ratio(logs[name][0], logs[name][-1])
        predicted = exp((squares[name][-1] - squares[name][0]) / 2)
        parts.append(
            agreement.near(
                f"gradient norm, {name} scales, {words}", predicted, ratio, 0.5,
                bias=4 / sizes.width, because="4/n of the width", networks=sizes.networks,
            )
        )  # fmt: skip
        for depth, square, found in zip(sizes.depths, squares[name], logs[name], strict=True):
            parts.append(_norm(f"gradient norm, {name} scales, depth {depth}", exp(square / 2), found))
    growth = agreement.average(logs["unscaled"][-1] - logs["unscaled"][0].mean(), 0.5 / log(10))
    rate = agreement.average(logs["unscaled"][-1], 1 / deep)
    parts += [
        agreement.above(
            f"log10 of the gradient norm of an unscaled network, {words}, exceeds 1", 1.0, growth,
            predicted=(deep - shallow) * log(1.5) / (2 * log(10)), networks=sizes.networks,
        ),
        agreement.near(
            f"growth a layer of log |gradient|^2, unscaled, depth {deep}", log(1.5), rate, 0.1 * log(1.5),
            bias=1 / sizes.width, because="half a logarithm's variance a layer, below 1/n", networks=sizes.networks,
            paper=False,
        ),
    ]  # fmt: skip
    return Measured(parts, [_gradient_panel(sizes, logs, squares)])


def _ratio(before: np.ndarray, after: np.ndarray) -> Estimate:
    """Return the ratio of geometric means of the norm, with its standard error."""
    low, high = agreement.average(before, 0.5), agreement.average(after, 0.5)
    value = exp(high.value - low.value)
    return Estimate(value, value * (low.error**2 + high.error**2) ** 0.5)


def _norm(name: str, predicted: float, logs: np.ndarray) -> Part:
    mean = agreement.average(logs, 0.5)
    found = Estimate(exp(mean.value), exp(mean.value) * mean.error)
    return agreement.between(name, predicted, found, 0.5, 2.0, networks=len(logs))


def _log_square(name: str, depth: int) -> float:
    """Return log E|gradient|^2 at infinite width: sum over layers of log(1 + alpha^2/2)."""
    scale = {"unscaled": lambda l: 1.0, "uniform": lambda l: depth**-0.5, "decreasing": lambda l: 1 / l}[name]
    return sum(log(1 + scale(index) ** 2 / 2) for index in range(1, depth + 1))


def _gradient_panel(sizes: Sizes, logs: dict[str, Any], squares: dict[str, Any]) -> Panel:
    scale = 0.5 / log(10)
    curves = []
    for name, found in logs.items():
        means = [agreement.average(values, scale) for values in found]
        line = [scale * value for value in squares[name]]
        x = [float(depth) for depth in sizes.depths]
        curves.append(Curve(name, x, [m.value for m in means], [m.error for m in means], line))
    title = "Unscaled gradients explode, stable ones stay"
    return Panel(title, "depth L", "log₁₀ of the gradient's norm", curves, x_scale="log", y_scale="symlog")


def tangent(sizes: Sizes) -> Measured:
    """Measure NNGP and NTK of sampled stable networks, and gradients beside them."""
    from deeplimits.finite.sample import sample
    from deeplimits.limits.kernel.ask import kernel

    width, depth, networks = sizes.tangent
    parts = []
    for name in STABLE:
        drawn = sample(_net(name), pair(C0), *sizes.tangent, seed=2, get=("nngp", "ntk"))
        edge = kernel(_net(name), pair(C0), depth=depth)
        for kind, samples, matrix in (("NNGP", drawn.gram, edge.nngp), ("NTK", drawn.ntk, edge.ntk)):
            predicted = float(matrix[0, 1])
            parts.append(
                agreement.near(
                    f"{kind} of two inputs, {name} scales, width {width}, depth {depth}", predicted,
                    agreement.average(np.asarray(samples)[:, 0, 1]), 0.15 * predicted, bias=predicted / width,
                    because="1/n of the width, relative", networks=networks,
                )
            )  # fmt: skip
    return Measured(parts, [])


def kernels(sizes: Sizes) -> Measured:
    """Compute what the infinitely deep kernels keep of their inputs."""
    from deeplimits.architecture.zoo import Mlp
    from deeplimits.limits.kernel.ask import kernel

    X = sphere(sizes.points, 3, seed=3)
    nearest = float(np.max(X @ X.T / 3 - np.eye(len(X)) * 2))
    parts = []
    for name in STABLE:
        limit = kernel(_net(name), X, depth=inf)
        for kind, matrix in (("NNGP", limit.nngp), ("NTK", limit.ntk)):
            size = float(matrix[0, 0])
            least = float(np.linalg.eigvalsh(matrix)[0]) / size
            largest = float(np.max(matrix / size - np.eye(len(X)) * 2))
            words = f"infinitely deep {kind}, {name} scales, {len(X)} points on a sphere"
            parts += [
                agreement.above(
                    f"smallest eigenvalue over the diagonal, {words}", 64 * len(X) * float(np.finfo(float).eps),
                    Estimate(least, 0.0),
                ),
                agreement.above(
                    f"1 - largest correlation, {words}", 1e-12, Estimate(1 - largest, 0.0),
                    note=f"of the inputs: {1 - nearest:.3g}",
                ),
            ]  # fmt: skip
    parts += [_expressivity(sizes.unscaled_depth), *_spectrum()]
    angles = np.linspace(0.0, pi, 65)
    cosines = np.cos(angles)
    curves = [
        Curve(f"{name}, infinitely deep", cosines.tolist(), predicted=_on_circle(_net(name), inf, angles).tolist())
        for name in STABLE
    ]
    for label, net in (("unscaled", _net("unscaled")), ("MLP", Mlp("relu"))):
        line = _on_circle(net, float(sizes.unscaled_depth), angles)
        curves.append(Curve(f"{label}, depth {sizes.unscaled_depth}", cosines.tolist(), predicted=line.tolist()))
    panel = Panel(
        "What depth leaves of two inputs", "correlation of the inputs", "correlation of the features", curves, "linear"
    )
    return Measured(parts, [panel])


def _on_circle(net: Any, depth: float, angles: np.ndarray) -> np.ndarray:
    """Return the NNGP correlation between inputs at the given angles."""
    from deeplimits.limits.kernel.ask import kernel

    X = 2**0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    row = kernel(net, 2**0.5 * np.array([[1.0, 0.0]]), X, depth=depth, get="nngp")[0]
    return np.asarray(row / row[0] if angles[0] == 0 else row)


def _expressivity(depth: int) -> Part:
    """Compare the unscaled network's decorrelation with its law 1 - c ~ (9 pi^2/2) ((2 + s)/s)^2 / L^2, s = 1."""
    lost = 1 - float(_on_circle(_net("unscaled"), depth, np.array([0.0, np.arccos(C0)]))[1])
    predicted = 9 * pi**2 / 2 * 9
    return agreement.equal(
        f"L^2 (1 - correlation), unscaled, depth {depth}", predicted, depth**2 * lost,
        10 * predicted * log(depth) / depth, "corrections of order log L / L, factor 10 allowed", paper=False,
    )  # fmt: skip


def legendre(degree: int, depth: float, net: Any) -> float:
    """Return the eigenvalue (1/2) int c(t) P_k(t) dt of a kernel on the sphere in three dimensions."""
    nodes, weights = np.polynomial.legendre.leggauss(600)
    angles = np.concatenate([[0.0], pi * (nodes + 1) / 2])
    values = _on_circle(net, depth, angles)[1:]
    polynomial = np.polynomial.legendre.Legendre.basis(degree)(np.cos(angles[1:]))
    return float(np.sum(weights * values * polynomial * np.sin(angles[1:]))) * pi / 4


def _spectrum() -> list[Part]:
    from deeplimits.architecture.zoo import Mlp

    found = [legendre(degree, inf, _net("uniform")) for degree in DEGREES]
    shallow = legendre(3, 1, Mlp("relu"))
    parts = [
        agreement.above(
            f"eigenvalue of degree {degree} on the sphere, infinitely deep, uniform scales", 1e-12,
            Estimate(value, 0.0), note="the bound is the quadrature's rounding",
        )
        for degree, value in zip(DEGREES, found, strict=True)
    ]  # fmt: skip
    zero = agreement.equal(
        "eigenvalue of degree 3, one hidden ReLU layer: blind to it", 0.0, shallow, 1e-10, "the quadrature's rounding",
        paper=False,
    )  # fmt: skip
    return [*parts, zero]


CLAIM = Claim(
    key="hayou-2020-stable-resnet",
    statement=(
        "Branch scales with a bounded sum of squares keep a residual network's gradients bounded at any depth, "
        "and its infinitely deep kernels tell inputs apart."
    ),
    source="hayou-2020-stable-resnet",
    headline=HEADLINE,
    steps=(Step("gradients", gradients, 40.0), Step("tangent", tangent, 5.0), Step("kernels", kernels, 2.0)),
    full=Sizes(96, (10, 100, 1000), 12, (256, 32, 200), 800, 64),
    reduced=Sizes(16, (10, 1000), 3, (32, 8, 30), 200, 24),
)
