"""Information bounds of generalisation, layer by layer: linear networks on two Gaussians, and layers with noise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import log
from typing import Any

import numpy as np
from scipy import stats

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.numerics.contraction import drop_connect, dropout, gaussian_noise
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "largest rise of the KL bound from a layer to the next"
WIDTHS, MEAN, RATE = (16, 12, 8, 3, 12, 16, 1), 0.25, 0.003
SET_UP = "two Gaussians, product of linear layers fitted to the mean of y x; laws given weights and that mean, exactly"


@dataclass(frozen=True)
class Sizes:
    """Networks, rows of each data set, steps of training; pairs of laws for every noisy layer."""

    networks: int
    rows: int
    steps: int
    pairs: int


def trained(sizes: Sizes) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the mean of y x of every data set (S, d) and the layers (S, out, in) whose product gradient descent fits.

    The layers know the rows through that mean alone: given it, y_i x_i is N(mean, (1 - 1/n) I), exactly.
    """
    stream, d = generator(41, "claims", "binary Gaussian"), WIDTHS[0]
    means = MEAN + stream.standard_normal((sizes.networks, d)) / sizes.rows**0.5
    layers = [stream.standard_normal((sizes.networks, b, a)) / a**0.5 for a, b in pairwise(WIDTHS)]
    for _ in range(sizes.steps):
        below = [np.broadcast_to(np.eye(d), (sizes.networks, d, d))]
        for layer in layers:
            below.append(layer @ below[-1])
        above = below[-1] - means[:, None, :]
        for place in reversed(range(len(layers))):
            if place == len(layers) - 1:
                behind = np.ones((sizes.networks, 1, 1))
            gradient = np.swapaxes(behind, 1, 2) @ above @ np.swapaxes(below[place], 1, 2)
            behind = behind @ layers[place]
            layers[place] = layers[place] - RATE * gradient
    return means, layers


def divergences(sizes: Sizes) -> dict[str, np.ndarray]:
    """Return for every network and layer, (S, L + 1) from the inputs on: KL, W2, and W2 times the norms behind it."""
    means, layers = trained(sizes)
    shift, shrink = means - MEAN, 1 - 1 / sizes.rows
    maps = [np.broadcast_to(np.eye(WIDTHS[0]), (sizes.networks, WIDTHS[0], WIDTHS[0]))]
    for layer in layers:
        maps.append(layer @ maps[-1])
    behind = [np.broadcast_to(np.eye(1), (sizes.networks, 1, 1))]
    for layer in reversed(layers):
        behind.append(behind[-1] @ layer)
    behind.reverse()
    kl, distance, rank = [], [], WIDTHS[0]
    for map_, width in zip(maps, WIDTHS, strict=True):
        rank = min(rank, width)
        rows = np.linalg.svd(map_, full_matrices=False)[2][:, :rank]
        along = np.einsum("sri,si->sr", rows, shift)
        kl.append(rank / 2 * (-1 / sizes.rows - log(shrink)) + 0.5 * np.sum(along**2, 1))
        moved = np.einsum("soi,si->so", map_, shift)
        distance.append(np.sqrt(np.sum(moved**2, 1) + (1 - shrink**0.5) ** 2 * np.sum(map_**2, (1, 2))))
    norms = np.stack([np.linalg.norm(one, 2, axis=(1, 2)) for one in behind], 1)
    w2 = np.stack(distance, 1)
    gaps = _gap(maps[-1][:, 0], means, shrink)
    return {"kl": np.stack(kl, 1), "w2": w2, "bound": w2 * norms, "gap": gaps}


def _gap(w: np.ndarray, means: np.ndarray, shrink: float) -> np.ndarray:
    """Return test error less training error of sign(w x) under the same laws, (S,)."""
    size = np.linalg.norm(w, axis=1)
    return stats.norm.sf(w.sum(1) * MEAN / size) - stats.norm.sf(np.sum(w * means, 1) / size / shrink**0.5)


def layers_of(sizes: Sizes) -> Measured:
    """Measure the bounds through the layers of linear networks."""
    found = divergences(sizes)
    bounds = np.sqrt(found["kl"] / 2)
    gap = agreement.average(found["gap"])
    w2 = [agreement.average(column) for column in found["w2"].T]
    waist = WIDTHS.index(min(WIDTHS[1:-1]))
    inner = np.argmin(found["w2"][:, 1:-1], axis=1) + 1
    options: dict[str, Any] = {"paper": False, "note": SET_UP}
    parts = [
        agreement.equal(HEADLINE, 0.0, max(float(np.diff(bounds, axis=1).max()), 0.0), 1e-9, "rounding", **options),
        agreement.above(
            "KL bound of the last layer less the gap, sign(w x)", 0.0, agreement.average(bounds[:, -1] - found["gap"]),
            networks=sizes.networks, **options,
        ),
        agreement.between(
            "KL bound of the last layer over that of the inputs", 0.4, agreement.average(bounds[:, -1] / bounds[:, 0]),
            0.0, 0.9, networks=sizes.networks, **options,
        ),
        agreement.proportion(
            "hidden layer of least W2 is the narrowest (the scalar output apart)",
            int(np.sum(inner == waist)), sizes.networks, 0.5, **options,
        ),
        agreement.above(
            "W2 behind the narrowest layer over that in it, least", 1.0,
            agreement.average(found["w2"][:, waist + 2] / found["w2"][:, waist]), networks=sizes.networks, **options,
        ),
        agreement.equal(
            "largest rise of W2 times the norm of the layers behind", 0.0,
            max(float(np.diff(found["bound"], axis=1).max()), 0.0), 1e-9, "rounding", paper=False, counts=False,
            note="a linear network's bound need not fall: |B A| W(x) against |B| W(A x), no order is known",
        ),
    ]  # fmt: skip
    x = [float(layer) for layer in range(len(WIDTHS))]
    means = [agreement.average(column) for column in bounds.T]
    tail = [agreement.average(column) for column in found["bound"].T]
    curves = [
        Curve("KL bound of the 0-1 gap", x, [m.value for m in means], [m.error for m in means]),
        Curve("W2", x, [m.value for m in w2], [m.error for m in w2]),
        Curve("the same times the norm behind", x, [m.value for m in tail], [m.error for m in tail]),
        Curve("measured gap", x, predicted=[gap.value] * len(x)),
    ]
    title = "Linear network, widths " + ", ".join(map(str, WIDTHS))
    return Measured(parts, [Panel(title, "layer", "bound", curves, "linear", "log")])


def _kl(p: np.ndarray, q: np.ndarray) -> float:
    kept = p > 0
    return float(np.sum(p[kept] * np.log(p[kept] / q[kept])))


def _channel(outputs: Any, letters: int) -> np.ndarray:
    """Return the law of the outputs (letters, outputs) of a layer whose masks are listed as (chance, rows)."""
    law: dict[bytes, np.ndarray] = {}
    for chance, rows in outputs:
        for letter, row in enumerate(rows):
            law.setdefault((np.round(row, 9) + 0.0).tobytes(), np.zeros(letters))[letter] += chance
    return np.stack(list(law.values()), 1)


def _masked(rate: float, weights: np.ndarray | None, X: np.ndarray) -> Any:
    """Yield the chance and the outputs of every mask: of units, or of the weights where given."""
    shape = X.shape[1:] if weights is None else weights.shape
    for flat in product((0, 1), repeat=int(np.prod(shape))):
        mask = np.reshape(flat, shape)
        chance = rate ** (mask.size - mask.sum()) * (1 - rate) ** mask.sum()
        yield chance, X * mask if weights is None else X @ (weights * mask).T


def noisy(sizes: Sizes) -> Measured:
    """Measure KL behind a noisy layer over KL before it, pairs of laws at random, exactly."""
    stream = generator(42, "claims", "contraction")
    parts, curves = [], []
    for name, rates in (("dropout", (0.2, 0.5, 0.8)), ("DropConnect", (0.2, 0.5, 0.8))):
        largest, equal_inputs, bounds = [], [], []
        for rate in rates:
            weights = None if name == "dropout" else stream.standard_normal((2, 3))
            bounds.append(dropout(rate, 3) if weights is None else drop_connect(rate, 3, 2))
            general = stream.integers(-2, 3, (4, 3)).astype(float)
            largest.append(_largest(_channel(_masked(rate, weights, general), 4), sizes.pairs, stream))
            repeated = np.repeat([[1.0], [3.0**0.5]], 3, axis=1)
            equal_inputs.append(_largest(_channel(_masked(rate, weights, repeated), 2), 5, stream))
            words = f"{name}, rate {rate}"
            parts += [
                agreement.above(
                    f"coefficient less the largest KL ratio, {words}", -1e-12,
                    Estimate(bounds[-1] - largest[-1], 0.0), paper=False, note="exact, random laws",
                ),
                agreement.equal(
                    f"KL ratio of equal units, {words}", bounds[-1], equal_inputs[-1], 1e-9, "rounding", paper=False
                ),
                agreement.above(
                    f"one less the coefficient, {words}", 0.0, Estimate(1 - bounds[-1], 0.0), paper=False,
                    note="value of the formula; nothing is measured",
                ),
            ]  # fmt: skip
        curves.append(Curve(f"{name}, random laws; line: coefficient", list(rates), largest, None, bounds))
        curves.append(Curve(f"{name}, equal units", list(rates), equal_inputs))
    panels = [Panel("Layers that drop", "rate", "KL behind over KL before", curves, "linear")]
    part, panel = _gaussian(sizes, stream)
    return Measured([*parts, *part], [*panels, panel])


def _largest(channel: np.ndarray, pairs: int, stream: np.random.Generator) -> float:
    laws = stream.dirichlet(np.full(len(channel), 0.7), (pairs, 2)) + 1e-6
    laws /= laws.sum(-1, keepdims=True)
    return max(_kl(p @ channel, q @ channel) / _kl(p, q) for p, q in laws)


def _gaussian(sizes: Sizes, stream: np.random.Generator) -> tuple[list[Any], Panel]:
    """Measure two opposite corners of the cube behind Gaussian noise, on a grid along their difference."""
    units, stds, largest, bounds, parts = 4, (1.0, 2.0, 4.0, 8.0), [], [], []
    for std in stds:
        half = units**0.5 / std
        z = np.linspace(-half - 10, half + 10, 4001)
        channel = np.stack([stats.norm.pdf(z, centre) for centre in (-half, half)]) * (z[1] - z[0])
        bounds.append(gaussian_noise(1.0, units, std))
        largest.append(_largest(channel, sizes.pairs, stream))
        parts.append(
            agreement.above(
                f"coefficient less the largest KL ratio, Gaussian noise {std:g}, 4 units", 0.0,
                Estimate(bounds[-1] - largest[-1], 0.0), paper=False, note="laws on two opposite corners",
            )
        )  # fmt: skip
    curve = Curve("two corners; line: coefficient", list(stds), largest, None, bounds)
    return parts, Panel("Gaussian noise, |activation| <= 1", "std of the noise", "KL behind over KL before", [curve])


CLAIM = Claim(
    key="he-2024-it-generalization",
    statement=(
        "Through linear networks the KL bound of generalisation never rises from a layer to the next; W2 is least, "
        "among hidden layers, mostly at the narrowest; dropout, DropConnect and Gaussian noise contract KL by at "
        "most their coefficients."
    ),
    source="he-2024-it-generalization (abstract; set-up, Gaussian formulas and the bound of DropConnect are ours)",
    headline=HEADLINE,
    steps=(Step("linear networks", layers_of, 10.0), Step("noisy layers", noisy, 2.0)),
    full=Sizes(networks=300, rows=50, steps=300, pairs=2000),
    reduced=Sizes(networks=40, rows=50, steps=100, pairs=100),
)
