"""Last layers on frozen features: the gap between the errors on new and on old rows, below 2 N/P of the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

FEATURES = 10
HEADLINE = "gap over var(y), MLP relu, P/N = 10"
SET_UP = "random features of bundled digits, 10 units, label: odd or even; gap over Var(y); the source trains deep nets"


@dataclass(frozen=True)
class Sizes:
    """Ratios P/N, feature maps of each architecture, splits of the rows for each map."""

    ratios: tuple[int, ...]
    maps: int
    splits: int


def architectures() -> dict[str, tuple[Any, int]]:
    """Return the families by name, with their depths."""
    from deeplimits.architecture.zoo import Mlp, ResNet

    return {"MLP relu": (Mlp("relu"), 2), "MLP tanh": (Mlp("tanh"), 2), "ResNet relu": (ResNet("relu"), 4)}


def features(net: Any, depth: int, X: Any, seed: int) -> np.ndarray:
    """Return what the readout of a random network of the family sees, (rows, FEATURES)."""
    import torch

    from deeplimits.finite.build import build

    module, seen = build(net, FEATURES, depth, seed, features_in=X.shape[1], dtype=torch.float64), []
    handle = module.get_submodule("readout").register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        module(X)
    handle.remove()
    return seen[0].numpy()


def errors(H: np.ndarray, y: np.ndarray, count: int, stream: np.random.Generator) -> tuple[float, float]:
    """Return the mean squared errors of least squares on `count` random rows: on these, and on all others."""
    rows = stream.permutation(len(y))
    old, new = rows[:count], rows[count:]
    weights = np.linalg.lstsq(H[old], y[old], rcond=None)[0]
    return float(np.mean((H[old] @ weights - y[old]) ** 2)), float(np.mean((H[new] @ weights - y[new]) ** 2))


@one_thread()
def digits_gap(sizes: Sizes) -> Measured:
    """Measure the gap of three architectures at every ratio."""
    from deeplimits.transfer.examples.data import digits

    X, labels = digits()
    y = np.where(labels.numpy() % 2 == 0, 1.0, -1.0)
    y = (y - y.mean()) / y.std()
    parts, curves = [], []
    for name, (net, depth) in architectures().items():
        found = np.empty((len(sizes.ratios), sizes.maps))
        left = np.empty(sizes.maps)
        for index in range(sizes.maps):
            H = features(net, depth, X.double(), index)
            stream = generator(31, "claims", "gap", name, index)
            left[index] = _residual(H, y)
            for place, ratio in enumerate(sizes.ratios):
                pairs = np.array([errors(H, y, ratio * FEATURES, stream) for _ in range(sizes.splits)])
                found[place, index] = np.mean(pairs[:, 1] - pairs[:, 0])
        means = [agreement.average(row) for row in found]
        expected = [float(left.mean() * ordinary(1 / ratio)) for ratio in sizes.ratios]
        parts += [
            agreement.between(
                f"gap over var(y), {name}, P/N = {ratio}", ols, mean, -1.0, 2 / ratio, networks=sizes.maps,
                paper=False, note=f"{SET_UP}; predicted: residual variance times 1/(1 - r) - (1 - r)",
            )
            for ratio, mean, ols in zip(sizes.ratios, means, expected, strict=True)
        ]  # fmt: skip
        x, values = [float(ratio) for ratio in sizes.ratios], [mean.value for mean in means]
        curves.append(Curve(f"{name}; line: least squares", x, values, [mean.error for mean in means], expected))
    curves.append(Curve("bound 2 N/P", x, predicted=[2 / ratio for ratio in sizes.ratios]))
    return Measured(parts, [Panel("Digits", "P/N", "gap over Var(y)", curves, x_scale="log", y_scale="log")])


def ordinary(r: float) -> float:
    """Return 1/(1 - r) - (1 - r): the gap of least squares on Gaussian features over the residual variance."""
    return 1 / (1 - r) - (1 - r)


def _residual(H: np.ndarray, y: np.ndarray) -> float:
    weights = np.linalg.lstsq(H, y, rcond=None)[0]
    return float(np.mean((H @ weights - y) ** 2) / (1 - FEATURES / len(y)))


def gaussian_gap(sizes: Sizes) -> Measured:
    """Measure Gaussian features whose labels are half, or all, noise: the formula, and where the bound ends."""
    parts, curves, features_, fresh = [], [], 40, 2000
    for share in (0.5, 1.0):
        means = []
        for ratio in sizes.ratios:
            gaps = np.empty(sizes.maps)
            for index in range(sizes.maps):
                stream = generator(32, "claims", "gaussian gap", ratio, index)
                H = stream.standard_normal((ratio * features_ + fresh, features_))
                signal = H @ stream.standard_normal(features_) * ((1 - share) / features_) ** 0.5
                y = signal + share**0.5 * stream.standard_normal(len(H))
                old, new = errors(H, y, ratio * features_, stream)
                gaps[index] = new - old
            means.append(agreement.average(gaps))
        expected = [share * exact(features_, ratio * features_) for ratio in sizes.ratios]
        parts += _of_share(share, sizes, means, expected)
        x = [float(ratio) for ratio in sizes.ratios]
        label = f"labels with {share:.0%} noise; line: exact"
        curves.append(Curve(label, x, [m.value for m in means], [m.error for m in means], expected))
    curves.append(Curve("bound 2 N/P", x, predicted=[2 / ratio for ratio in sizes.ratios]))
    return Measured(parts, [Panel("Gaussian features", "P/N", "gap over Var(y)", curves, x_scale="log", y_scale="log")])


def exact(features_: int, rows: int) -> float:
    """Return the mean gap over the residual variance: N/(P - N - 1) + N/P, which is 1/(1 - r) - (1 - r) when large."""
    return features_ / (rows - features_ - 1) + features_ / rows


def _of_share(share: float, sizes: Sizes, means: list[Estimate], expected: list[float]) -> list[Any]:
    parts = [
        agreement.near(
            f"gap over var(y), Gaussian features, {share:.0%} noise, P/N = {ratio}", ols, mean, 0.15,
            networks=sizes.maps, paper=False, note="exact: s (N/(P - N - 1) + N/P), s the share of noise in Var(y)",
        )
        for ratio, mean, ols in zip(sizes.ratios, means, expected, strict=True)
    ]  # fmt: skip
    if share == 1.0:
        ratio = sizes.ratios[0]
        parts.append(
            agreement.between(
                f"gap over var(y), labels of noise alone, P/N = {ratio}: below 2 N/P", expected[0], means[0], -1.0,
                2 / ratio, networks=sizes.maps, paper=False, counts=False,
                note="the bound is for large P: noise alone has r^2 + ... above 2r, and passes it",
            )
        )  # fmt: skip
    return parts


CLAIM = Claim(
    key="ariosto-2022-gap-bound",
    statement="Where only a last layer of N units is fitted to P >> N rows, the gap of the errors is below 2 N/P.",
    source="ariosto-2022-gap-bound (abstract; the normalisation by Var(y) is ours)",
    headline=HEADLINE,
    steps=(Step("digits", digits_gap, 12.0), Step("Gaussian features", gaussian_gap, 10.0)),
    full=Sizes(ratios=(5, 10, 20, 50), maps=60, splits=15),
    reduced=Sizes(ratios=(5, 10, 50), maps=10, splits=5),
)
