"""The NTK at finite width: no correction to ReLU's mean on the diagonal, and first orders in 1/width for others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_input import Law, controlled, controls, forward, mean_tangent, relu, sech2, step
from deeplimits.claims.one_thread import one_thread
from deeplimits.limits.corrections.pair import pair
from deeplimits.limits.corrections.single import DenseLayer, SingleState, single
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.series import Series
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

HEADLINE = "mean NTK of ReLU networks of width 20 on the diagonal"
HIDDEN = 7
LAWS = {"tanh": Law(np.tanh, sech2), "ReLU": Law(relu, step, 2.0)}
FAMILIES = {"tanh": Series(np.tanh, sech2, "tanh"), "ReLU": RectifiedPower(1, 1.0, 0.0)}
CHUNK = 20_000
ANGLE = 1.2


@dataclass(frozen=True)
class Sizes:
    """(width, networks) of ReLU's and of tanh's mean, and of two inputs, in batches."""

    relu: tuple[tuple[int, int], ...]
    tanh: tuple[tuple[int, int], ...]
    pairs: tuple[int, int]


def state(name: str) -> SingleState:
    """Return the corrections of the network with a readout, at |x|^2/d = 1."""
    dense = [DenseLayer(LAWS[name].weight)] * HIDDEN + [DenseLayer(1.0)]
    return single(FAMILIES[name], dense, np.ones(1))[-1]


def means(name: str, width: int, networks: int) -> tuple[Estimate, Estimate]:
    """Return the mean of the features' kernel and of the NTK over networks."""
    law, parts = LAWS[name], []
    for chunk in range(-(-networks // CHUNK)):
        count = min(CHUNK, networks - chunk * CHUNK)
        z = forward(law, width, HIDDEN, count, generator(0, "claims", "guillen", name, width, chunk))
        parts.append(np.column_stack([(law.phi(z[-1]) ** 2).mean(1), mean_tangent(law, z), controls(law, z)]))
    every = np.concatenate(parts)
    return controlled(every[:, 0], every[:, 2:]), controlled(every[:, 1], every[:, 2:])


def scaled(found: Estimate, limit: float, width: int) -> Estimate:
    """Return n (found / limit - 1)."""
    return Estimate(width * (found.value / limit - 1), width * found.error / limit)


def diagonal(sizes: Sizes) -> Measured:
    """Measure means over networks of one input."""
    parts, panels = [], []
    limits = {name: state(name) for name in LAWS}
    h = float(limits["ReLU"].h[0])
    found = [(width, means("ReLU", width, networks)[1]) for width, networks in sizes.relu]
    width, networks = sizes.relu[0]
    parts.append(agreement.near(HEADLINE, h, found[0][1], 0.05 * h, networks=networks))
    curves = [_curve("ReLU", [(n, scaled(one, h, n)) for n, one in found], 0.0)]
    tanh = limits["tanh"]
    k, h, shifts = float(tanh.k[0]), float(tanh.h[0]), (float(tanh.k_shift[0]), float(tanh.h_shift[0]))
    both = [(width, *means("tanh", width, networks)) for width, networks in sizes.tanh]
    nngp = [(width, scaled(one, k, width)) for width, one, _ in both]
    ntk = [(width, scaled(one, h, width)) for width, _, one in both]
    for title, points, predicted in (("kernel", nngp, shifts[0] / k), ("NTK", ntk, shifts[1] / h)):
        width, one = points[0]
        ends = sorted((0.9 * predicted, 1.1 * predicted))
        parts.append(agreement.between(f"n (mean {title} of tanh / limit - 1), n = {width}", predicted, one, *ends))
        curves.append(_curve(f"tanh, {title}", points, predicted))
    title = f"{HIDDEN} hidden layers, one input; lines: theory"
    panels.append(Panel(title, "width n", "n (mean over networks / limit - 1)", curves))
    return Measured(parts, panels)


def _curve(name: str, points: list[tuple[int, Estimate]], line: float) -> Curve:
    return Curve(
        name, [float(width) for width, _ in points], [one.value for _, one in points],
        [one.error for _, one in points], [line] * len(points),
    )  # fmt: skip


@one_thread()
def pairs(sizes: Sizes) -> Measured:
    """Measure the mean NTK of ReLU networks between two inputs, three hidden layers."""
    from deeplimits import Mlp, sample

    width, networks = sizes.pairs
    X = np.array([[1.0, 0.0], [np.cos(ANGLE), np.sin(ANGLE)]]) * 2**0.5
    drawn = sample(Mlp("relu"), X, width=width, depth=3, networks=networks, seed=0, get="ntk").ntk
    assert drawn is not None
    dense = [DenseLayer(2.0)] * 3 + [DenseLayer(1.0)]
    angles = np.linspace(0.05, np.pi - 0.05, 60)
    one = np.ones_like(angles)
    curve = pair(FAMILIES["ReLU"], dense, np.stack([one, one, np.cos(angles)], axis=1))
    at = pair(FAMILIES["ReLU"], dense, np.array([[1.0, 1.0, np.cos(ANGLE)]]))
    predicted, limit = float(at.h_shift[0, 2]), float(at.h[0, 2])
    values = width * (drawn[:, 0, 1] - limit)
    error = float(values.std(ddof=1) / networks**0.5)
    part = agreement.near(
        f"n (mean NTK of ReLU networks - limit) between two inputs, angle {ANGLE}, width {width}", predicted,
        Estimate(float(values.mean()), error), 1.5 * predicted, networks=networks, paper=False, counts=False,
        note="not zero: that ReLU's mean has no correction holds on the diagonal only, as the paper says",
    )  # fmt: skip
    curves = [
        Curve("predicted", angles.tolist(), predicted=curve.h_shift[:, 2].tolist()),
        Curve(f"networks of width {width}", [ANGLE], [float(values.mean())], [error]),
    ]
    panel = Panel(
        "ReLU, two inputs, 3 hidden layers", "angle between the inputs", "n (mean NTK - limit)", curves, "linear"
    )
    return Measured([part], [panel])


CLAIM = Claim(
    key="guillen-2025-feynman-ntk",
    statement=(
        "Recursions over layers give the statistics of the NTK to first order in 1/width; the mean NTK of ReLU "
        "networks has no correction on the diagonal."
    ),
    source="guillen-2025-feynman-ntk; the recursions are derived here",
    headline=HEADLINE,
    steps=(Step("diagonal", diagonal, 40.0), Step("pairs", pairs, 4.0)),
    full=Sizes(
        relu=((20, 60_000), (40, 30_000), (80, 20_000)),
        tanh=((32, 200_000), (64, 100_000), (128, 60_000)),
        pairs=(32, 20_000),
    ),
    reduced=Sizes(relu=((20, 4000),), tanh=((32, 8000),), pairs=(32, 400)),
)
