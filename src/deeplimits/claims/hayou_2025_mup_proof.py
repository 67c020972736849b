"""Learning rates of linear perceptrons: under muP the best one tends to a constant above zero, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np
import torch

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.fit import slope
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "best learning rate after one step, muP, widest networks"
FEATURES, ROWS, HIDDEN = 8, 12, 3


@dataclass(frozen=True)
class Sizes:
    """(width, networks) after one step and after several, and the several steps."""

    one: tuple[tuple[int, int], ...]
    several: tuple[tuple[int, int], ...]
    steps: int


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (rows, features) and targets (rows,), standard normal."""
    rng = generator(0, "claims", "linear")
    return rng.standard_normal((ROWS, FEATURES)), rng.standard_normal(ROWS)


def limit(residual: np.ndarray) -> np.ndarray:
    """Return the best rate of one step at infinite width, (m / L) y'Ky / y'K^2y with K = X X' / d, for (..., m) y.

    Source: derived; hayou-2025-mup-proof for the limit's existence.
    """
    X, _ = problem()
    K = X @ X.T / FEATURES
    return ROWS / HIDDEN * np.sum(residual @ K * residual, -1) / np.sum((residual @ K) ** 2, -1)


def spread_of_ntk(draws: int = 100_000) -> float:
    """Return the median distance from the median of NTK's best rate at infinite width, where f ~ N(0, K) at the start.

    Example:
        >>> 0.1 < spread_of_ntk(1000) < 0.3
        True
    """
    X, y = problem()
    initial = generator(1, "claims", "linear").standard_normal((draws, FEATURES)) @ X.T / sqrt(FEATURES)
    law = limit(y - initial)
    return float(np.median(abs(law - np.median(law))))


@dataclass(frozen=True)
class Net:
    """f(x) = v . W_L ... W_1 W_0 x; only W_1, ..., W_L are trained."""

    first: torch.Tensor
    hidden: list[torch.Tensor]
    readout: torch.Tensor


def drawn(width: int, seed: int) -> Net:
    """Return a network of muP: W_0 ~ N(0, 1/d), W_l ~ N(0, 1/n), v ~ N(0, 1/n^2)."""
    rng = torch.Generator().manual_seed(seed)
    X = torch.from_numpy(problem()[0]).float()
    hidden = [torch.randn(width, width, generator=rng) / sqrt(width) for _ in range(HIDDEN)]
    first = torch.randn(width, FEATURES, generator=rng) @ X.T / sqrt(FEATURES)
    return Net(first, hidden, torch.randn(width, generator=rng) / width)


def best_of_one_step(net: Net, gain: float) -> float:
    """Return the rate that minimises the loss sum (f - y)^2 / 2m after a step, exactly: it is a polynomial in the rate.

    Args:
        net: at its start.
        gain: of the readout, 1 in muP and sqrt(n) in the standard parametrization.
    """
    y = torch.from_numpy(problem()[1]).float()
    states = [net.first]
    for matrix in net.hidden:
        states.append(matrix @ states[-1])
    back = [gain * net.readout]
    for matrix in reversed(net.hidden):
        back.append(matrix.T @ back[-1])
    wrong = (states[-1].T @ back[0] - y) / ROWS
    # W_l - rate a_l b_l': powers of the rate, lowest first
    powers = [net.first]
    for place, matrix in enumerate(net.hidden):
        a, b = back[HIDDEN - 1 - place], states[place] @ wrong
        new = [matrix @ h for h in powers] + [torch.zeros_like(net.first)]
        for power, h in enumerate(powers):
            new[power + 1] = new[power + 1] - torch.outer(a, b @ h)
        powers = new
    outputs = np.array([(h.T @ back[0]).double().numpy() for h in powers])
    return _lowest(outputs, problem()[1])


def _lowest(outputs: np.ndarray, target: np.ndarray) -> float:
    """Return the positive minimum of sum (sum_k outputs_k rate^k - target)^2."""
    shifted = outputs.copy()
    shifted[0] -= target
    total = np.polynomial.Polynomial([0.0])
    for column in shifted.T:
        total = total + np.polynomial.Polynomial(column) ** 2
    roots = np.asarray(total.deriv().roots(), dtype=complex)
    real = np.real(roots)[(abs(np.imag(roots)) < 1e-9 * abs(roots)) & (np.real(roots) > 0)]
    return float(real[np.argmin(total(real))])


@one_thread()
def one_step(sizes: Sizes) -> Measured:
    """Measure the best rate of one step: its limit and approach under muP, its fall or spread otherwise."""
    predicted = float(limit(problem()[1]))
    maximal, tangent = [], []
    for width, count in sizes.one:
        nets = (drawn(width, 10_000 + seed) for seed in range(count))
        both = np.array([[best_of_one_step(net, 1.0), width * best_of_one_step(net, sqrt(width))] for net in nets])
        maximal.append(both[:, 0])
        tangent.append(both[:, 1])
    widths, (_, count) = [width for width, _ in sizes.one], sizes.one[-1]
    means = [median(rates) for rates in maximal]
    gaps = [median(abs(rates - predicted)) for rates in maximal]
    standard = [median(rates / width) for rates, width in zip(tangent, widths, strict=True)]
    spreads = [median(abs(rates - np.median(rates))) for rates in tangent]
    fits = [
        slope(widths, [f.value for f in found], [f.error for f in found], CONFIDENCE)
        for found in (gaps, standard, spreads)
    ]
    ratio = Estimate(means[-1].value / means[-2].value, hypot(*(m.error / m.value for m in means[-2:])))
    parts = [
        agreement.near(
            HEADLINE, predicted, means[-1], 0.1 * predicted, bias=gaps[-1].value**2 / predicted,
            because="of the order of the relative variance, 1/n", networks=count, paper=False,
            note="the paper proves a limit above zero; its value is (m/L) y'Ky / y'K^2y",
        ),
        agreement.between(
            f"the same, width {widths[-1]} over {widths[-2]}", 1.0, ratio, 0.9, 1.1, networks=count,
        ),
        agreement.inside(
            "exponent in the width of one network's distance to the limit, muP", -0.5, fits[0], -0.7, -0.3,
        ),
        agreement.inside(
            "exponent in the width of the best learning rate, standard parametrization", -1.0, fits[1], -1.2, -0.8,
        ),
        agreement.inside(
            "exponent in the width of one network's distance from the others' median, NTK", 0.0, fits[2], -0.2, 0.2,
            paper=False, counts=False,
            note="its limit depends on the initial function and is no constant: derived, not the paper's statement",
        ),
    ]  # fmt: skip
    return Measured(parts, _panels(widths, predicted, means, standard, gaps, spreads))


def _panels(
    widths: list[int], predicted: float, means: list[Estimate], standard: list[Estimate], gaps: list[Estimate],
    spreads: list[Estimate],
) -> list[Panel]:  # fmt: skip
    last = widths[-1]
    best = [
        _curve("μP; line: the limit", widths, means, [predicted] * len(widths)),
        _curve("standard; line: 1/width", widths, standard, [standard[-1].value * last / width for width in widths]),
    ]
    line = [gaps[0].value * (width / widths[0]) ** -0.5 for width in widths]
    apart = [
        _curve("μP, from the limit; line: 1/√width", widths, gaps, line),
        _curve("NTK, from each other; line: its limit", widths, spreads, [spread_of_ntk()] * len(widths)),
    ]
    return [
        Panel("The best learning rate of one step", "width n", "learning rate", best, y_scale="log"),
        Panel("How far one network is", "width n", "median distance", apart, y_scale="log"),
    ]


def _curve(name: str, widths: list[int], found: list[Estimate], line: list[float]) -> Curve:
    return Curve(name, [float(width) for width in widths], [f.value for f in found], [f.error for f in found], line)


def median(values: np.ndarray) -> Estimate:
    """Return the median and its standard error, from the values ranked sqrt(S)/2 either side.

    Rarely a second minimum, at a rate several times larger, is the lowest: means would follow such networks.

    Example:
        >>> median(np.arange(101.0))
        Estimate(value=50.0, error=5.0)
    """
    ranked, half = np.sort(values), sqrt(len(values)) / 2
    middle = (len(values) - 1) / 2
    low, high = ranked[max(0, round(middle - half))], ranked[min(len(values) - 1, round(middle + half))]
    return Estimate(float(np.median(values)), float(high - low) / 2)


@one_thread()
def trained_losses(net: Net, gain: float, rates: torch.Tensor, steps: int) -> torch.Tensor:
    """Return the loss after some steps of gradient descent at every rate, (rates,).

    The change of W_l stays a sum of outer products, one a step and rate: A_l B_l', both (rates, n, steps).
    """
    y, many = torch.from_numpy(problem()[1]).float(), len(rates)
    changes = [(torch.zeros(many, len(net.first), 0), torch.zeros(many, len(net.first), 0)) for _ in net.hidden]
    wrong = torch.zeros(many, ROWS)
    for step in range(steps + 1):
        states, back = [net.first.expand(many, -1, -1)], [(gain * net.readout).expand(many, -1)[..., None]]
        for matrix, (a, b) in zip(net.hidden, changes, strict=True):
            states.append(_times(matrix, states[-1]) + a @ (b.mT @ states[-1]))
        wrong = (states[-1].mT @ back[0])[..., 0] - y
        if step == steps:
            break
        for matrix, (a, b) in zip(reversed(net.hidden), reversed(changes), strict=True):
            back.append(_times(matrix.T, back[-1]) + b @ (a.mT @ back[-1]))
        changes = [
            (torch.cat([a, -rates[:, None, None] * back[HIDDEN - 1 - l]], -1),
             torch.cat([b, states[l] @ wrong[..., None] / ROWS], -1))
            for l, (a, b) in enumerate(changes)
        ]  # fmt: skip
    return wrong.square().mean(-1) / 2


def _times(matrix: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return matrix @ columns for (rates, n, k) columns, as one product."""
    rates, n, k = columns.shape
    return (matrix @ columns.transpose(0, 1).reshape(n, rates * k)).reshape(n, rates, k).transpose(0, 1)


def several_steps(sizes: Sizes) -> Measured:
    """Measure the best rate after several steps: its exponent in the width."""
    from deeplimits.transfer.evidence.optimum import minimum

    start = float(limit(problem()[1]))
    grid = np.arange(-2.5, 0.76, 0.25)
    found: dict[str, list[Estimate]] = {"muP": [], "standard parametrization": []}
    for width, count in sizes.several:
        for name, gain, unit in (("muP", 1.0, 1.0), ("standard parametrization", sqrt(width), 1 / width)):
            rates = torch.from_numpy(start * unit * 2**grid).float()
            losses = [trained_losses(drawn(width, 20_000 + seed), gain, rates, sizes.steps) for seed in range(count)]
            best = [minimum(grid, one.nan_to_num(nan=1e30, posinf=1e30).double().numpy()[:, None])[0] for one in losses]
            found[name].append(median(start * unit * 2 ** np.array(best)))
    widths, parts, curves = [width for width, _ in sizes.several], [], []
    for (name, best), exponent, half in zip(found.items(), (0.0, -1.0), (0.15, 0.3), strict=True):
        fitted = slope(widths, [b.value for b in best], [b.error for b in best], CONFIDENCE)
        title = f"exponent in the width of the best learning rate after {sizes.steps} steps, {name}"
        parts.append(agreement.inside(title, exponent, fitted, exponent - half, exponent + half))
        line = [best[-1].value * (width / widths[-1]) ** exponent for width in widths]
        shown = {"muP": "μP; line: constant"}.get(name, "standard; line: 1/width")
        curves.append(_curve(shown, widths, best, line))
    title = f"The best learning rate of {sizes.steps} steps"
    return Measured(parts, [Panel(title, "width n", "learning rate", curves, y_scale="log")])


CLAIM = Claim(
    key="hayou-2025-mup-proof",
    statement=(
        "In linear perceptrons under muP the best learning rate after any number of steps tends to a constant above "
        "zero as the width grows, and under the standard parametrization to zero."
    ),
    source="hayou-2025-mup-proof",
    headline=HEADLINE,
    steps=(Step("one step", one_step, 30.0), Step("several steps", several_steps, 20.0)),
    full=Sizes(
        one=((128, 2000), (256, 1000), (512, 600), (1024, 300), (2048, 120)),
        several=((128, 60), (512, 40), (2048, 12)),
        steps=5,
    ),
    reduced=Sizes(one=((32, 100), (64, 100)), several=((32, 20), (64, 20)), steps=3),
)
