"""Orthogonal, low-rank, sparse and block weights share the Gaussian limit of independent weights of equal variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.inputs import pair
from deeplimits.claims.one_thread import one_thread
from deeplimits.numerics.seeds import generator
from deeplimits.plane.record import Estimate

C0, DEPTH, WEIGHT_STD, BIAS_STD = 0.2, 4, 1.7**0.5, 0.1**0.5
NEURONS = 20
HEADLINE = "variance of a neuron, orthogonal weights"
NARROW = 0.02
SHARED = f"{NEURONS} neurons of each network, whose common variance is the number above"


@dataclass(frozen=True)
class Sizes:
    """Width, networks of each law in the order of `laws`, and the (width, networks) of the narrow low-rank law."""

    width: int
    networks: tuple[int, ...]
    narrow: tuple[tuple[int, int], ...]


def laws() -> dict[str, Any]:
    """Return the laws of weights by name, each of the same effective variance."""
    from deeplimits.architecture.dense import BlockDiagonal, LowRank, Orthogonal, Sparse
    from deeplimits.architecture.layer import WIDTH

    return {
        "orthogonal": Orthogonal(),
        "rank n/2": LowRank(0.5 * WIDTH),
        "rank n/10": LowRank(0.1 * WIDTH),
        "one in ten kept": Sparse(0.1),
        "eight blocks": BlockDiagonal(0.125 * WIDTH),
    }


def _net(law: Any) -> Any:
    """Return tanh layers that end in the neurons of the last hidden layer, before their activation."""
    from deeplimits.architecture.activation import Tanh
    from deeplimits.architecture.compose import Repeat
    from deeplimits.architecture.dense import Dense, Gaussian

    first = Dense(weight_std=WEIGHT_STD, bias_std=BIAS_STD)
    hidden = Dense(weight_std=WEIGHT_STD, bias_std=BIAS_STD, weights=Gaussian() if law is None else law)
    return first >> Repeat(Tanh() >> hidden)


def _edge() -> np.ndarray:
    from deeplimits.limits.kernel.ask import kernel

    return np.asarray(kernel(_net(None), pair(C0), depth=DEPTH, get="nngp"))


@one_thread()
def networks(name: str, law: Any, width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gram matrices <z, z>/n of the last hidden layer (S, 2, 2), and a few of its neurons (S, NEURONS)."""
    import torch

    from deeplimits.finite.build import build

    grams, neurons = np.empty((count, 2, 2)), np.empty((count, NEURONS))
    X = torch.from_numpy(pair(C0)).float()
    for index in range(count):
        seed = int(generator(9, "claims", "weights", name, width, index).integers(2**63))
        with torch.no_grad():
            z = build(_net(law), width, DEPTH, seed, features_in=2)(X).double().numpy()
        grams[index], neurons[index] = z @ z.T / width, z[0, :NEURONS]
    return grams, neurons


def law_step(name: str, sizes: Sizes) -> Measured:
    """Measure one law of weights: variance and covariance of neurons, and the marginal of a neuron."""
    edge = _edge()
    count = sizes.networks[list(laws()).index(name)]
    grams, neurons = networks(name, laws()[name], sizes.width, count)
    parts = []
    for words, entry in (("variance of a neuron", (0, 0)), ("covariance of two inputs", (0, 1))):
        predicted, values = float(edge[entry]), grams[:, *entry]
        bias = float(values.var(ddof=1)) / float(edge[0, 0])
        parts.append(
            agreement.near(
                f"{words}, {name} weights", predicted, agreement.average(values), 0.1 * float(edge[0, 0]), bias=bias,
                because="of the order of the relative variance, 1/n or 1/rank", networks=count,
            )
        )  # fmt: skip
    parts.append(agreement.gaussian(f"marginal of a neuron, {name} weights", neurons, float(edge[0, 0]), note=SHARED))
    return Measured(parts, [])


def gaussian(sizes: Sizes) -> Measured:
    """Measure the Gaussian law itself, sampled another way, and the fluctuations of low rank beside its own."""
    from deeplimits.architecture.dense import LowRank
    from deeplimits.architecture.layer import WIDTH
    from deeplimits.finite.sample import sample

    few = sizes.networks[-1]
    count, rank = 10 * few, sizes.width // 10
    predicted = float(_edge()[0, 0])
    q = sample(_net(None), pair(C0), sizes.width, DEPTH, count, seed=10).gram[:, 0, 0]
    low, _ = networks("fluctuation", LowRank(0.1 * WIDTH), sizes.width, few)
    ratio = float(q.var(ddof=1) / low[:, 0, 0].var(ddof=1))
    error = ratio * sqrt(2 / few + 2 / count)
    width = Estimate(sizes.width * ratio, sizes.width * error)
    parts = [
        agreement.near(
            "variance of a neuron, Gaussian weights", predicted, agreement.average(q), 0.05 * predicted,
            bias=float(q.var(ddof=1)) / predicted, because="of the order of the relative variance, 1/n",
            networks=count,
        ),
        agreement.near(
            f"width of Gaussian weights that fluctuate as rank {rank} does", float(rank), width, float(rank),
            bias=0.5 * rank, because="a rule of thumb", paper=False, counts=False,
            note="a rank fluctuates as a width of about its own size; not the paper's statement",
        ),
    ]  # fmt: skip
    return Measured(parts, [])


def _percent(values: np.ndarray) -> str:
    return f"{100 * float(values.std(ddof=1) / values.mean()):.0f} %"


def narrow(sizes: Sizes) -> Measured:
    """Measure rank n/50: far from the limit where that is 10, and how it gets there as the width grows."""
    from deeplimits.architecture.dense import LowRank
    from deeplimits.architecture.layer import WIDTH

    predicted = float(_edge()[0, 0])
    found = [networks("narrow", LowRank(NARROW * WIDTH), width, count)[0][:, 0, 0] for width, count in sizes.narrow]
    means = [agreement.average(values) for values in found]
    ranks = [round(NARROW * width) for width, _ in sizes.narrow]
    (first, count), (last, final) = sizes.narrow[0], sizes.narrow[-1]
    parts = [
        agreement.near(
            f"variance of a neuron, rank n/50, width {first}: rank {ranks[0]}", predicted, means[0], 0.1 * predicted,
            networks=count, paper=False, counts=False,
            note=f"rank {ranks[0]} is no limit yet: one network's variance is off by {_percent(found[0])} rms",
        ),
        agreement.near(
            f"variance of a neuron, rank n/50, width {last}: rank {ranks[-1]}", predicted, means[-1], 0.2 * predicted,
            bias=float(found[-1].var(ddof=1)) / predicted, because="of the order of the relative variance, 1/rank",
            networks=final,
        ),
    ]  # fmt: skip
    x = [float(rank) for rank in ranks]
    curve = Curve(
        "rank n/50; line: the limit", x, [m.value for m in means], [m.error for m in means], [predicted] * len(x)
    )
    title = "A low rank is a small width"
    return Measured(parts, [Panel(title, "rank = width/50", "variance of a neuron", [curve])])


CLAIM = Claim(
    key="naitsaada-2023-pseudo-iid",
    statement=(
        "Deep networks with orthogonal, low-rank, sparse or block weights of matched variance are Gaussian processes "
        "of the same kernel as those with independent weights."
    ),
    source="naitsaada-2023-pseudo-iid",
    headline=HEADLINE,
    steps=(
        *(Step(name, partial(law_step, name), 8.0) for name in laws()),
        Step("gaussian", gaussian, 8.0),
        Step("narrow", narrow, 15.0),
    ),
    full=Sizes(width=512, networks=(60, 120, 400, 120, 120), narrow=((512, 200), (1024, 100), (2048, 60), (4096, 40))),
    reduced=Sizes(width=64, networks=(10, 20, 40, 20, 20), narrow=((128, 20), (256, 10))),
)
