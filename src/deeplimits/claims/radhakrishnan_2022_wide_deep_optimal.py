"""Infinitely wide and deep classifiers: a singular kernel, the nearest neighbour, or the majority, by activation."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

NOISE, LEAST = 0.2, 0.99
TINY = 1e-15  # kernels are good to 1e-22 absolutely: squaring c layer by layer loses what is below
HEADLINE = "NTK regression decides as its kernel sum, d = 2, depth 20"


@dataclass(frozen=True)
class Sizes:
    """Numbers of training and test points, the depths of each case, and the growing numbers of training points.

    `few`: training points of the nearest neighbour, far enough apart for 2^depth to tell them from each other.
    """

    training: int
    few: int
    test: int
    singular: tuple[int, ...]
    nearest: tuple[int, ...]
    majority: tuple[int, ...]
    growing: tuple[int, ...]
    dimensions: tuple[int, ...]


def points(count: int, name: str) -> np.ndarray:
    """Return random points of the sphere S^2 with nonnegative coordinates, (count, 3)."""
    x = np.abs(generator(12, "claims", "octant", name, count).standard_normal((count, 3)))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def rule(x: np.ndarray) -> np.ndarray:
    """Return the Bayes rule of the problem, -1 or 1, (N,)."""
    return np.where(np.sin(6 * x[:, 0]) + np.cos(7 * x[:, 1]) > 0.3, 1, -1)


def noisy(x: np.ndarray) -> np.ndarray:
    """Return labels that differ from the Bayes rule with chance NOISE, (N,)."""
    return rule(x) * np.where(generator(13, "claims", "noise", len(x)).random(len(x)) < NOISE, -1, 1)


def regression(activation: Any, depth: int, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Return sign NTK(T, X) NTK(X, X)^-1 y at infinite width and that depth; 0 where all of NTK(t, X) is below TINY.

    Rows of NTK(T, X) are divided by their largest entry, rows and columns of NTK(X, X) by its diagonal's root.
    """
    from deeplimits.architecture.zoo import Mlp
    from deeplimits.limits.kernel.ask import kernel

    net, root = Mlp(activation, weight_std=1.0), sqrt(X.shape[1])
    inner = np.asarray(kernel(net, root * X, depth=depth, get="ntk"))
    outer = np.asarray(kernel(net, root * T, root * X, depth=depth, get="ntk"))
    scale = np.sqrt(np.diag(inner))
    largest = outer.max(axis=1, keepdims=True)
    held = largest > TINY
    weights = np.linalg.solve(inner / np.outer(scale, scale), y / scale)
    return np.sign(outer / np.where(held, largest, 1.0) / scale @ weights) * held[:, 0]


def limit(activation: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray, **options: Any) -> np.ndarray:
    """Return the labels that the infinitely deep classifier predicts for T."""
    from deeplimits.inference.infinite_depth import InfiniteDepthClassifier

    return InfiniteDepthClassifier(activation, **options).fit(X, y).predict(T)


def singular(sizes: Sizes) -> Measured:
    """Compare regression with the NTK of the optimal activation for d = 2 with the sum of its kernel."""
    from deeplimits.inference.infinite_depth import InfiniteDepthClassifier
    from deeplimits.limits.depth.optimal import optimal_activation

    X, T = points(sizes.training, "training"), points(sizes.test, "test")
    y, activation = noisy(X), optimal_activation(2)
    same = [
        int(np.sum(regression(activation, depth, X, y, T) == limit(activation, X, y, T, depth=depth)))
        for depth in sizes.singular
    ]
    parts = [agreement.proportion(HEADLINE, same[-1], len(T), LEAST)]
    for d in sizes.dimensions:
        found = InfiniteDepthClassifier(optimal_activation(d)).fit(np.eye(d + 1), np.arange(d + 1) % 2)
        parts.append(
            agreement.equal(
                f"exponent alpha of the singular kernel, optimal activation, d = {d}", float(d), found.alpha_, 1e-9,
                "rounding",
            )
        )  # fmt: skip
    parts.append(_settled(activation, sizes.singular[-1]))
    return Measured(parts, [_panel("Singular kernel, d = 2", sizes.singular, same, [len(T)] * len(same))])


def _settled(activation: Any, depth: int) -> Part:
    """Extrapolate NTK_L / ((L + 1) A'^(2L)) at cosine 0.3 from two depths, its error a/(L + 1) + b/(L + 1)^2."""
    from deeplimits.architecture.zoo import Mlp
    from deeplimits.limits.depth.dual_map import Cosines, dual_map
    from deeplimits.limits.depth.singular import singular_kernel
    from deeplimits.limits.kernel.ask import kernel

    c, dual = 0.3, dual_map(activation)
    at = Cosines(np.array([c]), np.array([1 - c]), np.array([1 + c]))
    X = sqrt(2) * np.array([[1.0, 0.0], [c, sqrt(1 - c**2)]])
    depths = (depth // 2, depth)
    ntk = [float(kernel(Mlp(activation, weight_std=1.0), X, depth=L, get="ntk")[0, 1]) for L in depths]
    few, many = (value / ((L + 1) * dual.slope ** (2 * L)) for value, L in zip(ntk, depths, strict=True))
    ratio = (depths[1] + 1) / (depths[0] + 1)
    found, predicted = (ratio * many - few) / (ratio - 1), float(np.exp(singular_kernel(dual)(at)[1][0]))
    return agreement.equal(
        "NTK over (L + 1) A'^2L at cosine 0.3, extrapolated: the singular kernel", predicted, found,
        predicted / depth**2, "the next order, 1/L^2 of itself allowed", paper=False,
    )  # fmt: skip


def nearest(sizes: Sizes) -> Measured:
    """Compare the kernel sum of the activation h_2, and regression, with the nearest neighbour."""
    from sklearn.neighbors import KNeighborsClassifier

    from deeplimits.architecture.activation import Hermite

    X, T = points(sizes.few, "training"), points(sizes.test, "test")
    y, activation = noisy(X), Hermite(2)
    neighbour = KNeighborsClassifier(1).fit(X, y).predict(T)
    found = [regression(activation, depth, X, y, T) for depth in sizes.nearest]
    same, held = [int(np.sum(one == neighbour)) for one in found], [int(np.sum(one != 0)) for one in found]
    last = sizes.nearest[-1]
    alike = int(np.sum(found[-1] == limit(activation, X, y, T, depth=last)))
    sums = int(np.sum(limit(activation, X, y, T, depth=20) == neighbour))
    deep = int(np.sum(limit(activation, X, y, T) == neighbour))
    parts = [
        agreement.proportion("kernel sum is the nearest neighbour, h_2, depth 20", sums, len(T), LEAST),
        agreement.proportion("the infinitely deep classifier is the nearest neighbour, h_2", deep, len(T), LEAST),
        agreement.proportion(
            f"NTK regression decides as its kernel sum, h_2, depth {last}", alike, held[-1], LEAST, paper=False,
            note=f"{len(T) - held[-1]} of {len(T)} points left out: their kernel is below 1e-15",
        ),
    ]  # fmt: skip
    return Measured(parts, [_panel("Nearest neighbour, h₂", sizes.nearest, same, held)])


def majority(sizes: Sizes) -> Measured:
    """Compare regression with the NTK of an activation of nonzero mean, B' = 1.7, with the majority of the labels."""
    from deeplimits.architecture.activation import Polynomial

    series = np.polynomial.hermite_e.herme2poly([sqrt(0.15), 0.0, sqrt(0.85 / 2)])
    activation = Polynomial(tuple(float(c) for c in series))
    X, T = points(sizes.training, "training"), points(sizes.test, "test")
    y = np.where(np.arange(len(X)) < 0.55 * len(X), 1, -1)
    same = [int(np.sum(regression(activation, depth, X, y, T) == 1)) for depth in sizes.majority]
    deep = int(np.sum(limit(activation, X, y, T) == 1))
    parts = [
        agreement.proportion(f"NTK regression is the majority vote, E phi'^2 = 1.7, depth {sizes.majority[-1]}",
                             same[-1], len(T), LEAST),
        agreement.proportion("the infinitely deep classifier is the majority vote", deep, len(T), LEAST),
    ]  # fmt: skip
    return Measured(parts, [_panel("Majority, mean not zero", sizes.majority, same, [len(T)] * len(same))])


def optimality(sizes: Sizes) -> Measured:
    """Measure how often each infinitely deep classifier decides as the Bayes rule, as noisy labels grow in number."""
    from sklearn.neighbors import NearestNeighbors

    from deeplimits.architecture.activation import Hermite
    from deeplimits.limits.depth.optimal import optimal_activation

    T = points(sizes.test, "test")
    bayes = rule(T)
    right: dict[str, list[np.ndarray]] = {"optimal activation": [], "h₂: nearest neighbour": []}
    for count in sizes.growing:
        X = points(count, "growing")
        for name, activation in zip(right, (optimal_activation(2), Hermite(2)), strict=True):
            right[name].append(limit(activation, X, noisy(X), T) == bayes)
    best, neighbour = right.values()
    X = points(sizes.growing[-1], "growing")
    close = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(T, return_distance=False)[:, 0]
    expected = float(np.mean(np.where(rule(X)[close] == bayes, 1 - NOISE, NOISE)))
    few, many = sizes.growing[0], sizes.growing[-1]
    parts = [
        agreement.proportion(f"optimal activation decides as the Bayes rule, {many} labels", int(best[-1].sum()),
                             len(T), 0.9),
        agreement.near(
            f"nearest neighbour decides as the Bayes rule, {many} labels", expected,
            agreement.average(neighbour[-1].astype(float)), 0.1,
        ),
        agreement.above(
            f"optimal activation above nearest neighbour, {many} labels", 0.0, _difference(best[-1], neighbour[-1]),
            predicted=1 - expected,
        ),
        agreement.above(
            f"optimal activation, {many} labels above {few}", 0.0, _difference(best[-1], best[0]),
            predicted=1 - float(best[0].mean()), note="consistent: the rest falls slowly",
        ),
    ]  # fmt: skip
    x = [float(count) for count in sizes.growing]
    curves = [_shares(name, x, values) for name, values in right.items()]
    panel = Panel("Decides as the Bayes rule", "noisy labels", "share of test points", curves, x_scale="log")
    return Measured(parts, [panel])


def _difference(better: np.ndarray, worse: np.ndarray) -> Estimate:
    return agreement.average(better.astype(float) - worse.astype(float))


def _shares(name: str, x: list[float], right: list[np.ndarray]) -> Curve:
    means = [agreement.average(values.astype(float)) for values in right]
    return Curve(name, x, [m.value for m in means], [m.error for m in means])


def _panel(title: str, depths: tuple[int, ...], same: list[int], of: list[int]) -> Panel:
    x, shares = [float(depth) for depth in depths], [hits / count for hits, count in zip(same, of, strict=True)]
    bars = [sqrt(share * (1 - share) / count) for share, count in zip(shares, of, strict=True)]
    curve = Curve("NTK regression agrees; line: 1", x, shares, bars, [1.0] * len(x))
    return Panel(title, "depth L", "share of test points", [curve], x_scale="linear")


CLAIM = Claim(
    key="radhakrishnan-2022-wide-deep-optimal",
    statement=(
        "Infinitely wide and deep networks classify by a singular kernel, the nearest neighbour or the majority, "
        "depending on the activation, and the singular kernel of the right exponent reaches the Bayes rule."
    ),
    source="radhakrishnan-2022-wide-deep-optimal",
    headline=HEADLINE,
    steps=(
        Step("singular", singular, 12.0),
        Step("nearest", nearest, 5.0),
        Step("majority", majority, 5.0),
        Step("optimality", optimality, 15.0),
    ),
    full=Sizes(
        training=400,
        few=100,
        test=4000,
        singular=(5, 10, 15, 20),
        nearest=(4, 6, 8, 10, 12, 14),
        majority=(5, 10, 20, 30, 40),
        growing=(200, 2000, 8000),
        dimensions=(1, 2, 3, 5, 10),
    ),
    reduced=Sizes(
        training=60,
        few=30,
        test=300,
        singular=(10, 20),
        nearest=(8, 14),
        majority=(20, 40),
        growing=(100, 1000),
        dimensions=(1, 2),
    ),
)
