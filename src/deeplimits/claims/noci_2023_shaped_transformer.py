"""Transformers shaped by their width: a diffusion of the tokens' covariance, where plain attention loses its rank."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.agreement import same_law
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.numerics.quantiles import quantiles
from deeplimits.plane.record import Estimate

RHO0 = 0.2
HEADLINE = "median correlation of two tokens, attention alone"
LEVELS = (0.1, 0.5, 0.9)
SEEN = 5


@dataclass(frozen=True)
class Sizes:
    """Networks (width, depth, number) of the laws, paths of the limit, depths of collapse, pairs of one-step noises."""

    attention: tuple[int, int, int]
    block: tuple[int, int, int]
    paths: int
    collapse: tuple[int, tuple[int, ...], int]
    pairs: int


def tokens(count: int) -> np.ndarray:
    """Return tokens of mean square 1 with correlations 0.2, (count, count)."""
    covariance = RHO0 + (1 - RHO0) * np.eye(count)
    return np.linalg.cholesky(covariance) * sqrt(count)


def _sampled(net: Any, X: np.ndarray, place: tuple[int, int, int], seed: int) -> np.ndarray:
    from deeplimits.finite.sample import sample

    width, depth, networks = place
    return sample(net, X, width, depth, networks, seed=seed, get="nngp").gram


def _limit(net: Any, X: np.ndarray, ratio: float, paths: int) -> Any:
    from deeplimits.limits.proportional.ask import proportional

    return proportional(net, X, ratio=ratio, samples=paths, seed=1)


def correlation(gram: np.ndarray) -> np.ndarray:
    """Return the correlations of the first two tokens."""
    return gram[..., 0, 1] / np.sqrt(gram[..., 0, 0] * gram[..., 1, 1])


def _laws(words: str, net: Any, X: np.ndarray, place: tuple[int, int, int], paths: int, seed: int) -> tuple[Any, Any]:
    """Return parts about the laws of rho, V11 and V12, with the limit and the networks."""
    law, gram = _limit(net, X, place[1] / place[0], paths), _sampled(net, X, place, seed)
    pairs = {
        "correlation": (correlation(gram), correlation(law.covariance)),
        "V11": (gram[:, 0, 0], law.covariance[:, 0, 0]),
        "V12": (gram[:, 0, 1], law.covariance[:, 0, 1]),
    }
    parts = [same_law(f"law of {name}, {words}", here, there) for name, (here, there) in pairs.items()]
    return parts, (law, gram)


def _median(name: str, gram: np.ndarray, law: Any, **options: Any) -> Part:
    (here, error), (there, other) = (quantiles(correlation(one), (0.5,)) for one in (gram, law.covariance))
    estimate = Estimate(float(here[0]), float(np.hypot(error[0], other[0])))
    return agreement.near(name, float(there[0]), estimate, 0.2, **options)


def attention(sizes: Sizes) -> Measured:
    """Measure shaped attention alone: gamma^2 = 1/2, temperature 1, two tokens."""
    from deeplimits.architecture.shaped import ShapedTransformer

    width, depth, networks = sizes.attention
    net, X = ShapedTransformer(sqrt(0.5), mlp=False), tokens(2)
    parts, (law, gram) = _laws("attention alone", net, X, sizes.attention, sizes.paths, seed=2)
    lag = 2 / width
    parts.insert(0, _median(HEADLINE, gram, law, bias=lag, because="2/n, the next order"))
    depths = [depth * step // SEEN for step in range(1, SEEN)]
    seen = {at: _sampled(net, X, (width, at, networks // 2), seed=3) for at in depths} | {depth: gram}
    found = {at: quantiles(correlation(values), LEVELS) for at, values in seen.items()}
    steps = [int(np.argmin(np.abs(law.times * depth - at))) for at in found]
    paths = [quantiles(correlation(law.path[step]), LEVELS)[0] for step in steps]
    curves = [
        Curve(
            f"{level:.0%} of {'networks' if rank == 0 else 'them'} below; line: the diffusion",
            [float(at) for at in found],
            [float(value[rank]) for value, _ in found.values()],
            [float(error[rank]) for _, error in found.values()],
            [float(values[rank]) for values in paths],
        )
        for rank, level in enumerate(LEVELS)
    ]
    title = f"Correlation of two tokens, width {width}"
    return Measured(parts, [Panel(title, "depth L", "quantile of the correlation", curves, x_scale="linear")])


def block(sizes: Sizes) -> Measured:
    """Measure the full block, attention and perceptron: gamma = 1/2, slopes 1 +- 1/sqrt(n), three tokens."""
    from deeplimits.architecture.shaped import ShapedTransformer

    net = ShapedTransformer(0.5, c_plus=1.0, c_minus=-1.0)
    parts, _ = _laws("attention and perceptron", net, tokens(3), sizes.block, sizes.paths, seed=4)
    return Measured(parts, [])


def collapse(sizes: Sizes) -> Measured:
    """Measure how close to one another plain attention brings four tokens, and shaped attention."""
    from deeplimits.architecture.attention import Attention
    from deeplimits.architecture.compose import Repeat
    from deeplimits.architecture.dense import Dense
    from deeplimits.architecture.shaped import ShapedTransformer, WeightedSkip

    width, depths, networks = sizes.collapse
    shaped = ShapedTransformer(sqrt(1 / 8), mlp=False)
    families = {
        "softmax": Repeat(Attention("softmax")) >> Dense(1),
        "softmax, skip² = 1/2": Dense() >> Repeat(WeightedSkip(Attention("softmax"))) >> Dense(1),
        "shaped, branch² = 1/8": shaped,
    }
    apart = {
        name: [correlation(_sampled(net, tokens(4), (width, depth, networks), seed=5)) for depth in depths]
        for name, net in families.items()
    }
    last, law = depths[-1], _limit(shaped, tokens(4), depths[-1] / width, sizes.paths)
    parts = [
        agreement.above(
            f"mean correlation of two tokens, {name}, depth {last}", 0.999, agreement.average(apart[name][-1]),
            predicted=1.0, networks=networks,
        )
        for name in list(families)[:2]
    ]  # fmt: skip
    rho = correlation(law.covariance)
    mean = agreement.average(apart["shaped, branch² = 1/8"][-1])
    both = Estimate(mean.value, float(np.hypot(mean.error, rho.std(ddof=1) / sqrt(len(rho)))))
    parts.append(
        agreement.near(
            f"mean correlation of two tokens, shaped, depth {last}", float(rho.mean()), both, 0.15,
            bias=2 / width, because="2/n, the next order", networks=networks,
        )
    )  # fmt: skip
    floor = 1e-16
    curves = [
        Curve(name, [float(depth) for depth in depths], [max(float(np.mean(1 - one)), floor) for one in found])
        for name, found in apart.items()
    ]
    title = f"Plain attention loses its rank, width {width}"
    return Measured(parts, [Panel(title, "depth L", "mean of 1 − correlation", curves, y_scale="log")])


def one_step(sizes: Sizes) -> Measured:
    """Measure the mean move of a covariance in one layer of width 1600: exact over values, noises in pairs of signs."""
    import torch

    from deeplimits.limits.proportional.attention import attention_drift
    from deeplimits.numerics.seeds import torch_generator

    width, X = 1600, tokens(3) * np.array([[1.3], [0.8], [1.0]])
    V = torch.from_numpy(X @ X.T / 3)
    root = torch.linalg.cholesky(V)
    normals = torch.randn(sizes.pairs, 3, 3, generator=torch_generator(6, "one step"), dtype=torch.float64)
    z = root @ normals @ root.T / sqrt(width)
    moves = torch.zeros_like(z)
    for sign in (1, -1):
        A = torch.eye(3, dtype=torch.float64) + torch.softmax(sign * z, -1) - 1 / 3
        moves += 0.5 * width * (A @ V @ A.mT - V)
    drift = attention_drift(V)
    row, column = divmod(int(drift.abs().argmax()), 3)
    scale, largest = float(drift.abs().max()), float(drift[row, column])
    part = agreement.near(
        "n times the mean move of a covariance in one layer, n = 1600, over the drift", 1.0,
        agreement.average(moves[:, row, column].numpy(), 1 / largest), 0.02,
        bias=2 / width, because="2/n, three times the gap found at n = 400", paper=False,
    )  # fmt: skip
    gaps = (moves.mean(0) - drift) / scale
    error = float((moves.std(0) / sqrt(sizes.pairs)).max()) / scale
    worst = agreement.near(
        "the largest error of an entry of the drift, over its largest entry", 0.0,
        Estimate(float(gaps.abs().max()), error), 0.02, bias=2 / width,
        because="2/n, three times the gap found at n = 400", paper=False,
    )  # fmt: skip
    return Measured([part, worst], [])


CLAIM = Claim(
    key="noci-2023-shaped-transformer",
    statement=(
        "Attention centred at the identity, with a temperature that grows with the width, keeps the correlations of "
        "tokens apart at depth proportional to width: their covariance is a diffusion, whose law networks have."
    ),
    source="noci-2023-shaped-transformer (model as it is known; formulas derived and checked, the body was not read)",
    headline=HEADLINE,
    steps=(
        Step("attention", attention, 14.0),
        Step("block", block, 16.0),
        Step("collapse", collapse, 8.0),
        Step("one step", one_step, 3.0),
    ),
    full=Sizes((200, 100, 1000), (200, 100, 1000), 4000, (200, (1, 2, 4, 8, 16, 64), 150), 500_000),
    reduced=Sizes((32, 16, 200), (32, 16, 200), 400, (32, (1, 2, 4, 16), 40), 20_000),
)
