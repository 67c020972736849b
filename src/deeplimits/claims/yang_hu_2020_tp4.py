"""abc-parametrizations: exponents say whether wide networks learn features, stay in a kernel regime, or fall apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import torch
from torch import nn

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_hidden_layer import limits
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.fit import slope
from deeplimits.plane.record import Estimate
from deeplimits.transfer.exponents.abc_parametrization import FEATURES, KERNEL, TRIVIAL, UNSTABLE, Abc, abc
from deeplimits.transfer.make import transfer

HEADLINE = "exponent in the width of the features' relative change in a step, muP"
SAMPLES, FEATURES_IN, OUTPUTS, RATE = 32, 10, 8, 0.1
MARGIN = 0.12
TABLE = {
    "muP": abc("mup"),
    "muP without the input's factor": abc([0, 0, 0.5], [0, 0.5, 0.5], 0.0),
    "mean field": abc("mean_field", hidden=1),
    "NTK": abc("ntp"),
    "standard, rate 1/n": abc("sp"),
    "NTK, rate n^-1/2": abc([0, 0.5, 0.5], [0, 0, 0], 0.5),
    "standard, rate n^-1/2": abc([0, 0, 0], [0, 0.5, 0.5], 0.5),
}
SHOWN = {"muP": "μP", "NTK": "NTK", "standard, rate 1/n": "standard, 1/n", "NTK, rate n^-1/2": "NTK, 1/√n"}
POWERS = {0.0: "1", 0.5: "1/√n", 1.0: "1/n"}


@dataclass(frozen=True)
class Sizes:
    """Widths, networks of each, and the widths of the plans that are compared with exponents.

    `limit` is (widths, networks of each) beside the limit of one hidden layer, `plain` (width, networks) of those that
    are trained neuron by neuron.
    """

    widths: tuple[int, ...]
    networks: int
    plan: tuple[int, int]
    limit: tuple[tuple[int, ...], int]
    plain: tuple[int, int]


def output_exponent(found: Abc) -> float:
    """Return the exponent of the function's change in a step: 0 where it is stable and not trivial.

    Example:
        >>> output_exponent(TABLE["muP"]), output_exponent(TABLE["NTK, rate n^-1/2"])
        (0.0, -0.5)
    """
    return 1 - min(2 * found.a[-1] + found.c[-1], found.a[-1] + found.b[-1] + found.r)


@one_thread()
def one_step(width: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return {parametrization: (relative change of the last hidden layer, change of the output)} in a step of SGD.

    Tanh perceptrons of one or two hidden layers on random data; all share their standard normal weights.
    """
    rng = torch.Generator().manual_seed(seed)
    x, y = torch.randn(SAMPLES, FEATURES_IN, generator=rng), torch.randn(SAMPLES, OUTPUTS, generator=rng)
    drawn = [torch.randn(width, FEATURES_IN, generator=rng) / FEATURES_IN**0.5]
    drawn += [torch.randn(width, width, generator=rng), torch.randn(OUTPUTS, width, generator=rng)]
    found = {}
    for name, kind in TABLE.items():
        normal = drawn if len(kind.a) == 3 else [drawn[0], drawn[-1]]
        weights = [(w * width**-b).requires_grad_() for w, b in zip(normal, kind.b, strict=True)]
        before, first = _forward(weights, kind, x)
        gradients = torch.autograd.grad((first - y).square().sum(1).mean(), weights)
        with torch.no_grad():
            moved = [w - RATE * width**-c * g for w, g, c in zip(weights, gradients, kind.c, strict=True)]
            after, second = _forward(moved, kind, x)
            change = (after - before).norm() / before.norm()
        found[name] = change.item(), (second - first).detach().square().mean().sqrt().item()
    return found


def _forward(weights: list[torch.Tensor], kind: Abc, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    width, h = weights[0].shape[0], x
    for w, a in zip(weights[:-1], kind.a, strict=False):
        h = torch.tanh(h @ w.T * width**-a)
    return h, h @ weights[-1].T * width ** -kind.a[-1]


def table(sizes: Sizes) -> Measured:
    """Measure how the change of features and of outputs in one step scales with the width, beside r and its class."""
    runs = [[one_step(width, 100 + seed) for width in sizes.widths] for seed in range(sizes.networks)]
    parts, curves, right = [], [], 0
    for name, kind in TABLE.items():
        values = np.array([[at[name] for at in one] for one in runs])
        feature, output = (_exponent(sizes.widths, values[:, :, n]) for n in range(2))
        margin = 0.1 if name == "muP" else MARGIN
        parts.append(
            agreement.between(
                HEADLINE if name == "muP" else f"exponent of the features' change, {name}", 0 - kind.r, feature,
                -kind.r - margin, -kind.r + margin, networks=sizes.networks,
            )
        )  # fmt: skip
        expected = output_exponent(kind)
        parts.append(
            agreement.between(
                f"exponent of the output's change, {name}", expected, output, expected - MARGIN, expected + MARGIN,
                networks=sizes.networks,
            )
        )  # fmt: skip
        right += regime(feature.value, output.value) == kind.regime
        if name in SHOWN:
            curves.append(_curve(f"{SHOWN[name]}; line: {POWERS[kind.r]}", sizes.widths, values[:, :, 0], -kind.r))
    parts.append(
        agreement.equal(
            "parametrizations whose measured exponents give the class of the table", len(TABLE), right, 0.0,
            "halfway between the exponents of the classes", note="of 7: features, kernel, trivial, unstable",
        )
    )  # fmt: skip
    title = "What one step changes in the features"
    return Measured(parts, [Panel(title, "width n", "|x after − x before| / |x before|", curves, y_scale="log")])


def regime(feature: float, output: float) -> str:
    """Return the class that measured exponents give, each rounded to the nearest half.

    Example:
        >>> regime(-0.53, 0.02)
        'kernel'
    """
    half = round(2 * feature) / 2, round(2 * output) / 2
    if half[1] > 0 or half[0] > 0:
        return UNSTABLE
    if half[1] < 0:
        return TRIVIAL
    return FEATURES if half[0] == 0 else KERNEL


def _exponent(widths: tuple[int, ...], values: np.ndarray) -> Estimate:
    return agreement.average([slope(widths, one).value for one in values])


def _curve(name: str, widths: tuple[int, ...], values: np.ndarray, exponent: float) -> Curve:
    means = [agreement.average(at) for at in values.T]
    line = [means[-1].value * (width / widths[-1]) ** exponent for width in widths]
    return Curve(name, [float(w) for w in widths], [m.value for m in means], [m.error for m in means], line)


def plans(sizes: Sizes) -> Measured:
    """Compare the factors of plans with the exponents: initial sizes n^-(a+b), learning rates of SGD n^-(2a+c)."""
    base, width = sizes.plan
    gaps = []
    for rule, hidden in (("mup", 2), ("ntp", 2), ("mean_field", 1)):
        kind = abc(rule, hidden=hidden)
        plan = transfer(_builder(hidden), dict(width=base), dict(width=width), rule, "sgd")
        for row, a, b, c in zip(plan.rows, kind.a, kind.b, kind.c, strict=True):
            grows = log(width / base)
            gaps += [abs(log(row.init_ratio) / grows + a + b), abs(log(row.lr_mult) / grows + 2 * a + c)]
    part = agreement.equal(
        "largest difference between exponents of plans and of the table: mup, ntp, mean_field", 0.0, max(gaps), 1e-12,
        "rounding", paper=False, note="the program's rules are the paper's parametrizations",
    )  # fmt: skip
    return Measured([part], [])


def limit(sizes: Sizes) -> Measured:
    """Measure how networks of one hidden layer come to their limit, which is solved exactly."""
    return limits(*sizes.limit, sizes.plain)


def _builder(hidden: int):
    def build(width: int) -> nn.Module:
        inner = [layer for _ in range(hidden - 1) for layer in (nn.Linear(width, width, bias=False), nn.Tanh())]
        return nn.Sequential(
            nn.Linear(FEATURES_IN, width, bias=False), nn.Tanh(), *inner, nn.Linear(width, OUTPUTS, bias=False)
        )

    return build


CLAIM = Claim(
    key="yang-hu-2020-tp4",
    statement=(
        "The exponents of an abc-parametrization decide whether an infinitely wide network learns features or stays in "
        "a kernel regime; muP learns them in every layer, and has a limit that can be computed."
    ),
    source="yang-hu-2020-tp4, Definition 3.2 and Theorems 3.3 to 3.6",
    headline=HEADLINE,
    steps=(Step("table", table, 20.0), Step("plans", plans, 1.0), Step("limit of one hidden layer", limit, 20.0)),
    full=Sizes(
        widths=(64, 128, 256, 512, 1024, 2048, 4096),
        networks=24,
        plan=(64, 1024),
        limit=((64, 256, 1024, 4096, 16384), 400),
        plain=(1024, 32),
    ),
    reduced=Sizes(widths=(64, 128, 256), networks=8, plan=(32, 128), limit=((64, 16384), 50), plain=(64, 4)),
)
