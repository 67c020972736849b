"""Wide networks under plain SAM are perturbed in the last layer only; scales by layer keep every layer's share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.perceptrons import cross_entropy, drawn, edge, layers, rms
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator

HEADLINE = "exponent in the width of the hidden layer's perturbation effect, muP, one radius for all layers"
BASE, ROWS, EXAMPLES, NOISE = 64, 64, 200, 0.4
RATE, FALLS = -1.0, 0.9
LAYERS = ("input layer", "hidden layer", "readout")
PLAIN, SCALED = "muP, one radius for all layers", "muP with scales by layer"
PREDICTED = {PLAIN: (-1.5, -0.5, 0.5), SCALED: (0.0, 0.0, 0.0)}
SHRINKING, CONSTANT = "standard scaling, radius ∝ width^-1/2", "standard scaling, constant radius"


@dataclass(frozen=True)
class Sizes:
    """Widths and networks of the effects; of the largest radius, with steps; of the sweep, (width, networks), steps."""

    widths: tuple[int, ...]
    networks: int
    edges: tuple[tuple[int, ...], int, int]
    sweep: tuple[tuple[int, int], ...]
    steps: int
    rates: tuple[float, ...]
    radii: tuple[float, ...]


@cache
def numbers(width: int) -> tuple[list[float], list[float]]:
    """Return the factors of the learning rate and the scales of the perturbation, layer by layer, of a plan."""
    from torch import nn

    from deeplimits.transfer.make import transfer

    def build(width: int) -> nn.Module:
        shapes = ((64, width), (width, width), (width, 10))
        return nn.Sequential(*(nn.Linear(*shape, bias=False) for shape in shapes))

    if width == BASE:
        return [1.0] * 3, [1.0] * 3
    plan = transfer(build, {"width": BASE}, {"width": width}, "mup2_sam", "sgd")
    return [row.lr_mult for row in plan.rows], list(plan.perturbations().values())


def perturbed(weights: Sequence[Any], radii: Any, scales: Sequence[float], inputs: Any, labels: Any) -> list[Any]:
    """Return rho s_l^2 g_l / |(s_k g_k)_k| of every network and layer."""
    import torch

    found = torch.autograd.grad(cross_entropy(layers(weights, inputs)[-1], labels).sum(), list(weights))
    norm = torch.stack([s**2 * g.square().sum((1, 2)) for s, g in zip(scales, found, strict=True)]).sum(0).sqrt()
    share = torch.where(norm > 0, radii / norm, torch.zeros_like(norm))[:, None, None]
    return [share * s**2 * g for s, g in zip(scales, found, strict=True)]


@one_thread()
def effects(width: int, kind: str, networks: int) -> np.ndarray:
    """Return the root mean square of what each layer's perturbation adds to its own output, (layers, networks)."""
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    x, y = 8 * x[:ROWS], y[:ROWS]  # |x|^2 = d
    weights = drawn([x.shape[1], width, width, 10], networks, seed=width)
    with torch.no_grad():
        if kind in PREDICTED:
            weights[-1] *= width**-0.5  # N(0, 1/n^2), as muP has it
        given = [x.expand(networks, -1, -1), *(torch.relu(h) for h in layers(weights, x)[:-1])]
    radius = width**-0.5 if kind == SHRINKING else 1.0
    scales = numbers(width)[1] if kind == SCALED else [1.0] * 3
    moved = perturbed(weights, torch.full((networks,), radius), scales, x, y)
    return np.array([rms(h @ e.mT).numpy() for h, e in zip(given, moved, strict=True)])


def perturbations(sizes: Sizes) -> Measured:
    """Fit how the effect of each layer's perturbation scales with the width, at the start."""
    found = {
        kind: np.array([effects(width, kind, sizes.networks) for width in sizes.widths])
        for kind in (PLAIN, SCALED, SHRINKING, CONSTANT)
    }
    means = {kind: [[agreement.average(row[n]) for row in rows] for n in range(3)] for kind, rows in found.items()}
    fits = {
        kind: [slope(sizes.widths, [m.value for m in of], [m.error for m in of], CONFIDENCE) for of in layer]
        for kind, layer in means.items()
    }
    words = "exponent in the width of the {}'s perturbation effect, {}"
    parts: list[Part] = []
    for kind, expected in PREDICTED.items():
        for name, power, fitted in zip(LAYERS, expected, fits[kind], strict=True):
            margin = 0.1 if (kind, name) == (SCALED, LAYERS[1]) else 0.2
            parts.append(agreement.inside(words.format(name, kind), power, fitted, power - margin, power + margin))
    hidden = words.format(LAYERS[1], "{}")
    parts += [
        agreement.inside(f"{hidden.format(SHRINKING)}, is below -0.3", -0.5, fits[SHRINKING][1], -9.0, -0.3),
        agreement.inside(
            hidden.format(CONSTANT), 0.0, fits[CONSTANT][1], -0.2, 0.2, paper=False, counts=False,
            note="derived; the readout's effect then grows as width^1/2, and training bears no such radius",
        ),
    ]  # fmt: skip
    x, panels = [float(width) for width in sizes.widths], []
    for kind, expected in PREDICTED.items():
        curves = []
        for name, power, of in zip(LAYERS, expected, means[kind], strict=True):
            line = [of[-1].value * (width / x[-1]) ** power for width in x]
            curves.append(Curve(f"{name}; line: n^{power:g}", x, [m.value for m in of], [m.error for m in of], line))
        title = f"Perturbation effects, {'scales by layer' if kind == SCALED else 'one radius'}"
        panels.append(Panel(title, "width n", "root mean square", curves, y_scale="log"))
    return Measured(parts, panels)


@cache
def noisy() -> tuple[Any, Any, Any, Any]:
    """Return a few digits, four tenths of them with labels at random, and the others with their own."""
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    stream = generator(2, "claims", "noisy")
    order, wrong = torch.from_numpy(stream.permutation(len(y))), torch.from_numpy(stream.random(EXAMPLES) < NOISE)
    few, rest = order[:EXAMPLES], order[EXAMPLES:]
    labels = torch.where(wrong, torch.from_numpy(stream.integers(0, 10, EXAMPLES)), y[few])
    return 8 * x[few], labels, 8 * x[rest], y[rest]


@one_thread()
def trained(width: int, scaled: bool, log2_rates: np.ndarray, log2_radii: np.ndarray, networks: int, steps: int) -> Any:
    """Return weights after SGD with SAM on a few noisy digits under muP, a run for every rate with its radius.

    Readouts start from zero; the rate falls linearly to zero; batches are the same for all.
    """
    import torch

    x, y, _, _ = noisy()
    copies = len(log2_rates) // networks
    start = drawn([x.shape[1], width, width, 10], networks, seed=width)
    weights = [w.detach().repeat(copies, 1, 1).requires_grad_() for w in start]
    with torch.no_grad():
        weights[-1].zero_()
    rates, radii = (torch.tensor(2.0**at, dtype=x.dtype) for at in (log2_rates, log2_radii))
    factors, scales = numbers(width)
    order = torch.Generator().manual_seed(3)
    for step in range(steps):
        rows = torch.randint(len(y), (ROWS,), generator=order)
        moves = perturbed(weights, radii, scales if scaled else [1.0] * 3, x[rows], y[rows])
        there = [(w.detach() + e).requires_grad_() for w, e in zip(weights, moves, strict=True)]
        found = torch.autograd.grad(cross_entropy(layers(there, x[rows])[-1], y[rows]).sum(), there)
        with torch.no_grad():
            for weight, gradient, factor in zip(weights, found, factors, strict=True):
                weight.addcmul_(gradient, rates[:, None, None], value=-factor * (1 - step / steps))
    return weights


def losses(weights: Sequence[Any], x: Any, y: Any) -> np.ndarray:
    """Return the cross-entropy of every network, infinite where it is not finite."""
    import torch

    with torch.no_grad():
        parts = [
            cross_entropy(layers(weights, rows)[-1], labels) * len(labels)
            for rows, labels in zip(x.split(256), y.split(256), strict=True)
        ]
    found = (torch.stack(parts).sum(0) / len(y)).double().numpy()
    return np.where(np.isfinite(found), found, np.inf)


def radii(sizes: Sizes) -> Measured:
    """Find the largest radius at which training fits the labels a little, width by width."""
    widths, networks, steps = sizes.edges
    x, y, _, _ = noisy()
    parts, curves = [], []
    for kind, predicted in ((PLAIN, -0.5), (SCALED, 0.0)):
        found = []
        for width in widths:

            def learns(at: np.ndarray, width: int = width, kind: str = kind) -> np.ndarray:
                weights = trained(width, kind == SCALED, np.full(networks, RATE), at, networks, steps)
                return losses(weights, x, y) < FALLS * np.log(10)

            found.append(agreement.average(edge(learns, 0.0, networks)))
        values = [2**m.value for m in found]
        bars = [max(m.error, 2.0**-5) * np.log(2) * v for m, v in zip(found, values, strict=True)]
        fitted = slope(widths, values, bars, CONFIDENCE)
        name = f"exponent in the width of the largest radius that lets training fit, {kind}"
        parts.append(agreement.inside(name, predicted, fitted, predicted - 0.25, predicted + 0.25, paper=False))
        line = [values[-1] * (width / widths[-1]) ** predicted for width in widths]
        curves.append(Curve(f"{kind}; line: n^{predicted:g}", [float(w) for w in widths], values, bars, line))
    return Measured(parts, [Panel("Largest radius that lets training fit", "width n", "ρ", curves, y_scale="log")])


def sweep(sizes: Sizes) -> Measured:
    """Find the best learning rate and radius on a grid of octaves, on held-out digits."""
    _, _, x, y = noisy()
    shape = len(sizes.rates), len(sizes.radii)
    places = np.log2([(rate, radius) for rate in sizes.rates for radius in sizes.radii])
    best: dict[str, list[np.ndarray]] = {PLAIN: [], SCALED: []}
    tables: dict[str, list[np.ndarray]] = {PLAIN: [], SCALED: []}
    for kind, (width, networks) in ((kind, at) for kind in best for at in sizes.sweep):
        rates, rho = places.repeat(networks, 0).T
        weights = trained(width, kind == SCALED, rates, rho, networks, sizes.steps)
        table = losses(weights, x, y).reshape(-1, networks).mean(1)
        tables[kind].append(table.reshape(shape))
        best[kind].append(places[int(table.argmin())])
    (small, _), (large, _) = sizes.sweep[0], sizes.sweep[-1]
    parts = [
        agreement.equal(
            f"octaves between the best {name} at width {small} and {large}, {kind}", 0.0,
            float(best[kind][-1][n] - best[kind][0][n]), 0.5, "half a step of the grid, one octave",
            paper=False, counts=kind == SCALED, note=_note(best[kind], tables[kind], sizes),
        )
        for kind in (SCALED, PLAIN) for n, name in enumerate(("learning rate", "radius"))
    ]  # fmt: skip
    panels = []
    for kind, short in ((SCALED, "scales by layer"), (PLAIN, "one radius")):
        curves = [
            Curve(f"width {width}", list(sizes.radii), [float(v) for v in table.min(0)])
            for (width, _), table in zip(sizes.sweep, tables[kind], strict=True)
        ]
        title = f"Loss at the best learning rate, {short}"
        panels.append(Panel(title, "radius ρ", "held-out cross-entropy", curves, y_scale="log"))
    return Measured(parts, panels)


def _note(best: list[np.ndarray], tables: list[np.ndarray], sizes: Sizes) -> str:
    return "; ".join(
        f"width {width}: rate {2 ** at[0]:g}, radius {2 ** at[1]:g}, loss {table.min():.3f}"
        for (width, _), at, table in zip(sizes.sweep, best, tables, strict=True)
    )


CLAIM = Claim(
    key="haas-2024-mup2-sam",
    statement=(
        "Under one radius for all layers SAM perturbs only the readout of a wide network; with scales by layer every "
        "layer is perturbed at any width, and the best learning rate and radius stay."
    ),
    source="haas-2024-mup2-sam",
    headline=HEADLINE,
    steps=(Step("perturbations", perturbations, 6.0), Step("radii", radii, 20.0), Step("sweep", sweep, 60.0)),
    full=Sizes(
        (64, 128, 256, 512, 1024),
        48,
        ((64, 128, 256, 512), 6, 40),
        ((64, 16), (128, 8), (256, 4), (512, 2)),
        100,
        (0.25, 0.5, 1.0),
        (0.1, 0.2, 0.4, 0.8),
    ),
    reduced=Sizes((64, 128, 256), 8, ((64, 128), 2, 10), ((64, 2), (128, 2)), 10, (0.25, 1.0), (0.1, 0.4)),
)
