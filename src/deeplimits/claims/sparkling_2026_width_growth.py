"""A perceptron widened in the midst of training keeps its loss and its activations, and its copied neurons part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

HEADLINE = "cosine of twin neurons after growth, averages of new channels reset"
BATCH, RATE, WARMUP = 64, 1.5e-3, 50
FIRST = 100  # seed
KINDS = ("reset", "copied", "random")


@dataclass(frozen=True)
class Sizes:
    """Width before growth, which doubles it; seeds; steps before growth and after it."""

    width: int
    seeds: int
    before: int
    after: int


@dataclass(frozen=True)
class Run:
    """Losses on all digits, cosines of twins, and the largest relative change of a root mean square at growth.

    Losses: after every step, and once more at growth; cosines after every step since.
    """

    losses: np.ndarray
    cosines: np.ndarray
    change: float


def build(width: int) -> Any:
    """Return a perceptron with two hidden layers."""
    from torch import nn

    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def _steps(model: Any, optimizer: Any, schedule: Any, seed: int, count: int, after: Callable[[float], None]) -> None:
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    stream = torch.Generator().manual_seed(seed)
    for _ in range(count):
        rows = torch.randint(len(y), (BATCH,), generator=stream)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(8 * x[rows]), y[rows]).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        after(_loss(model))


def _loss(model: Any) -> float:
    import torch

    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(8 * x), y))


def activations(model: Any) -> list[float]:
    """Return the root mean square of every layer's output on the digits."""
    import torch

    from deeplimits.transfer.examples.data import digits

    h, found = 8 * digits()[0], []
    with torch.no_grad():
        for layer in model:
            h = layer(h)
            found.append(float(h.square().mean().sqrt()))
    return found


@one_thread()
def grown(kind: str, sizes: Sizes, seed: int) -> Run:
    """Train, double the width, and train on, by Adam.

    Args:
        kind: "reset": averages of new channels from zero, and a warm-up; "copied": all averages copied; "random": new
            channels are fresh random weights beside the old ones, averages from zero.
        sizes: of the run.
        seed: of weights and batches.
    """
    import torch

    from deeplimits.transfer.anatomy.initial import materialised
    from deeplimits.transfer.growth.grow import grow

    small, large = (materialised(build, {"width": sizes.width * k}, 10 * seed + k) for k in (1, 2))
    old, losses, cosines = torch.optim.Adam(small.parameters(), lr=RATE), [], []
    _steps(small, old, None, seed, sizes.before, losses.append)
    fresh = {name: value.clone() for name, value in large.state_dict().items()}
    growth = grow(small, large)
    new = torch.optim.Adam(large.parameters(), lr=RATE)
    if kind == "random":
        _partly(small, large, fresh)
    else:
        _carried(growth, old, new, kind)
    losses.append(_loss(large))
    schedule = growth.warmup(new, WARMUP) if kind == "reset" else None
    pairs = zip(activations(small), activations(large), strict=True)
    change = max(abs(after / before - 1) for before, after in pairs)

    def keep(loss: float) -> None:
        losses.append(loss)
        cosines.append(growth.twins()["2.weight"])

    _steps(large, new, schedule, seed + 1000, sizes.after, keep)
    return Run(np.array(losses), np.array(cosines), change)


def _carried(growth: Any, old: Any, new: Any, kind: str) -> None:
    """Carry the averages; `carry` refuses copies that nothing would tell apart, so those are put in by hand."""
    if kind == "reset":
        growth.carry(old, new)
        return
    before, after = dict(growth.small.named_parameters()), dict(growth.model.named_parameters())
    for name, widening in growth.widenings.items():
        new.state[after[name]] = widening.state(old.state[before[name]], "none")


def _partly(small: Any, large: Any, fresh: dict[str, Any]) -> None:
    """Put fresh weights everywhere but where the small model's stand."""
    import torch

    with torch.no_grad():
        for name, parameter in large.named_parameters():
            own = small.get_parameter(name)
            parameter.copy_(fresh[name])
            parameter[tuple(slice(size) for size in own.shape)] = own


def growth(sizes: Sizes) -> Measured:
    """Measure the step of the loss and of activations at growth, and how twins part afterwards."""
    runs = {kind: [grown(kind, sizes, FIRST + seed) for seed in range(sizes.seeds)] for kind in KINDS}
    spikes = {kind: _average([_spike(run, sizes) for run in of]) for kind, of in runs.items()}
    cosines = {kind: np.array([run.cosines for run in of]) for kind, of in runs.items()}
    last = {kind: _average(values[:, -1]) for kind, values in cosines.items()}
    change = {kind: max(run.change for run in of) for kind, of in runs.items()}
    gain = [np.log(a.losses[-1] / b.losses[-1]) for a, b in zip(runs["copied"], runs["reset"], strict=True)]
    options: dict[str, Any] = {"networks": sizes.seeds}
    parts = [
        agreement.equal(
            "largest relative change of a layer's root mean square at growth", 0.0, change["reset"], 0.01, "1 %"
        ),
        agreement.between(
            f"largest rise of the loss in the {WARMUP} steps after growth, relative", 0.0, spikes["reset"], -0.05, 0.05,
            note="of the loss on all digits, over that just before growth", **options,
        ),
        agreement.between(HEADLINE, 0.0, last["reset"], -1.0, 0.99, **options),
        agreement.above(
            "cosine of twin neurons after growth, all averages copied", 0.99, last["copied"], predicted=1.0,
            note="but for rounding, copies stay copies", **options,
        ),
        agreement.above(
            f"log of the loss {sizes.after} steps after growth, averages copied over new ones reset: parting helps",
            0.0, _average(gain), paper=False, **options,
        ),
        agreement.between(
            f"largest rise of the loss in the {WARMUP} steps after growth, random new channels", 0.0,
            spikes["random"], -0.05, 0.05, paper=False, counts=False, note="beside: no copies", **options,
        ),
        agreement.equal(
            "largest relative change of a layer's root mean square, random new channels", 0.0, change["random"], 0.01,
            "1 %", paper=False, counts=False, note="beside: no copies",
        ),
    ]  # fmt: skip
    return Measured(parts, [_losses(runs, sizes), _cosines(cosines)])


def _spike(run: Run, sizes: Sizes) -> float:
    """Return the largest loss from growth to the end of the warm-up over the loss just before growth, less 1."""
    return float(run.losses[sizes.before : sizes.before + WARMUP + 1].max() / run.losses[sizes.before - 1] - 1)


def _average(values: Any) -> Estimate:
    return agreement.average(np.asarray(values, dtype=float))


def _losses(runs: dict[str, list[Run]], sizes: Sizes, every: int = 10) -> Panel:
    curves = []
    for kind, of in runs.items():
        means = np.array([run.losses for run in of]).mean(0)
        at = np.arange(sizes.before - WARMUP, len(means), every)
        curves.append(Curve(_words(kind), (at - sizes.before).astype(float).tolist(), means[at].tolist()))
    return Panel("The loss around growth", "steps since growth", "loss on all digits", curves, "linear", "log")


def _cosines(cosines: dict[str, np.ndarray], every: int = 10) -> Panel:
    curves = []
    for kind in ("reset", "copied"):
        means, at = cosines[kind].mean(0), np.arange(0, cosines[kind].shape[1], every)
        curves.append(Curve(_words(kind), (at + 1.0).tolist(), means[at].tolist()))
    return Panel("Copied neurons", "steps since growth", "cosine of twins' weights", curves, "linear")


def _words(kind: str) -> str:
    words = {"reset": "copies, averages of new ones reset", "copied": "copies, averages copied"}
    return words.get(kind, "random new channels")


CLAIM = Claim(
    key="sparkling-2026-width-growth",
    statement=(
        "A perceptron whose width is doubled in the midst of training keeps its loss and the sizes of its activations, "
        "and an asymmetric reset of the optimizer's averages tells copied neurons apart."
    ),
    source="sparkling-2026-width-growth",
    headline=HEADLINE,
    steps=(Step("growth", growth, 40.0),),
    full=Sizes(64, 16, 150, 200),
    reduced=Sizes(32, 2, 60, 60),
)
