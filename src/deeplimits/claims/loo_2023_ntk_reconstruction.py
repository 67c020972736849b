"""Training data read off the displacement of a wide network's weights, and lost as the kernel moves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import CONFIDENCE
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.claims.reconstruction import Attack, distances, train
from deeplimits.numerics.fit import slope

HEADLINE = "median relative distance of 10 points from those found, widest network"
POINTS, DIMENSION, GUESSED = 10, 32, 16
NEAR = 0.1
PLACES = {"before training": 0.0, "after training": 1.0, "midway": 0.5}
SET_UP = "synthetic points and tanh; the source's are images and ReLU"


@dataclass(frozen=True)
class Sizes:
    """Widths, networks of each; starts of an attack, evaluations of each and of the best; width of the small task."""

    widths: tuple[int, ...]
    networks: int
    search: tuple[int, int, int]
    small: int


@one_thread()
def points(sizes: Sizes) -> Measured:
    """Attack networks of several widths trained on ten points."""
    medians, moved, all_gaps, weights = [], [], [], []
    for width in sizes.widths:
        nets = [train(width, POINTS, DIMENSION, seed) for seed in range(sizes.networks)]
        attacks = [Attack(net) for net in nets]
        gaps = [
            distances(net.x, attack.points(GUESSED, *sizes.search, seed)).numpy()
            for seed, (net, attack) in enumerate(zip(nets, attacks, strict=True))
        ]
        medians.append(np.median(gaps, axis=1))
        moved.append(np.array([net.moved for net in nets]))
        all_gaps.append(np.ravel(gaps))
        weights.append(np.ravel([attack.missed(net.x)[1].numpy() for net, attack in zip(nets, attacks, strict=True)]))
    width, networks = sizes.widths[-1], sizes.networks
    parts = [
        agreement.between(
            HEADLINE, 0.0, agreement.average(medians[-1]), -NEAR, NEAR, networks=networks, paper=False,
            note=f"width {width}; {SET_UP}",
        ),
        agreement.proportion(
            f"points found to within {NEAR:g}, width {width}", int((all_gaps[-1] < NEAR).sum()), len(all_gaps[-1]),
            0.75, paper=False, note="those with a small coefficient leave hardly a trace in the weights",
        ),
        *(
            agreement.above(
                f"log of the median distance at width {small} over that at {large}", 0.0,
                agreement.average(np.log(medians[k] / medians[k + 1])), networks=networks, paper=False,
            )
            for k, (small, large) in enumerate(pairwise(sizes.widths))
        ),
        *(
            agreement.above(
                f"log of the kernel's movement at width {small} over that at {large}", 0.0,
                agreement.average(np.log(moved[k] / moved[k + 1])), networks=networks, paper=False,
            )
            for k, (small, large) in enumerate(pairwise(sizes.widths))
        ),
    ]  # fmt: skip
    return Measured(parts, _panels(sizes, medians, moved, all_gaps[-1], weights[-1]))


def _panels(sizes: Sizes, medians: list, moved: list, gaps: np.ndarray, weights: np.ndarray) -> list[Panel]:
    """Draw medians and the kernel's movement by width, and every point of the widest networks."""
    means = [agreement.average(values) for values in medians]
    moves = [agreement.average(values) for values in moved]
    x = [float(one) for one in sizes.widths]
    curves = [
        Curve("median distance of the points found", x, [m.value for m in means], [m.error for m in means]),
        Curve("movement of the kernel", x, [m.value for m in moves], [m.error for m in moves]),
    ]
    order = np.argsort(np.abs(weights))
    spread = Curve("one point", np.abs(weights)[order].tolist(), gaps[order].tolist())
    return [
        Panel("Points are lost as the kernel moves", "width n", "relative, mean of nets", curves, "log2", "log"),
        Panel(f"Points at width {sizes.widths[-1]}", "its coefficient", "relative distance", [spread], "log", "log"),
    ]  # fmt: skip


@one_thread()
def gradients(sizes: Sizes) -> Measured:
    """Compute how much of the displacement the true points miss, with gradients at three places."""
    missed = {name: [] for name in PLACES}
    for width in sizes.widths:
        nets = [train(width, POINTS, DIMENSION, seed) for seed in range(sizes.networks)]
        for name, place in PLACES.items():
            missed[name].append(np.array([float(Attack(net, place).missed(net.x)[0]) for net in nets]))
    x, parts, curves = [float(width) for width in sizes.widths], [], []
    for name, values in missed.items():
        logs = [agreement.average(np.log(one)) for one in values]
        fitted = slope(x, np.exp([m.value for m in logs]), [np.exp(m.value) * m.error for m in logs], CONFIDENCE)
        parts.append(
            agreement.inside(f"exponent in the width, gradients {name}", -1.0, fitted, -1.3, -0.7, paper=False)
        )
        means = [agreement.average(one) for one in values]
        curves.append(Curve(f"gradients {name}", x, [m.value for m in means], [m.error for m in means]))
    for name in list(PLACES)[:2]:
        gain = agreement.average(np.log(missed[name][-1] / missed["midway"][-1]))
        parts.append(
            agreement.above(
                f"log of what is missed by gradients {name} over those midway", 0.0, gain, networks=sizes.networks,
                paper=False, note=f"width {sizes.widths[-1]}; midway, its movement cancels to first order in one mode",
            )
        )  # fmt: skip
    title = "What the true points miss of the displacement"
    return Measured(parts, [Panel(title, "width n", "share of its square", curves, "log2", "log")])


@one_thread()
def four(sizes: Sizes) -> Measured:
    """Attack networks trained on four points in eight dimensions."""
    gaps = []
    for seed in range(sizes.networks):
        net = train(sizes.small, 4, 8, 100 + seed)
        gaps.append(distances(net.x, Attack(net).points(6, *sizes.search, seed)).numpy())
    part = agreement.between(
        f"largest relative distance of 4 points, width {sizes.small}", 0.0, agreement.average(np.max(gaps, axis=1)),
        -NEAR, NEAR, networks=sizes.networks, paper=False, note=SET_UP,
    )  # fmt: skip
    return Measured([part], [])


CLAIM = Claim(
    key="loo-2023-ntk-reconstruction",
    statement=(
        "The weights of a wide trained network give away its training points: they are found again from the "
        "displacement of the weights, the worse the more the tangent kernel moves."
    ),
    source="loo-2023-ntk-reconstruction",
    headline=HEADLINE,
    steps=(Step("points", points, 40.0), Step("gradients", gradients, 3.0), Step("four points", four, 8.0)),
    full=Sizes((64, 256, 1024, 4096), 16, (3, 50, 200), 3000),
    reduced=Sizes((32, 64, 128), 2, (2, 10, 40), 128),
)
