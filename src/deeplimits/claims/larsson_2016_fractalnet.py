"""Fractal networks on digits: the deepest column alone beside the whole, and a plain network of equal depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Part, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

HEADLINE = "accuracy of the deepest column less that of the whole, 4 columns, worst seed"
RATE, BATCH, HELD_OUT = 0.03, 32, 500
SET_UP = (
    "dense units with LayerNorm on digits, not the source's convolutions with BatchNorm on CIFAR: statistics of "
    "batches would differ between a column alone and the joined network"
)


@dataclass(frozen=True)
class Sizes:
    """Width; steps and seeds with 4 columns, and with 5."""

    width: int
    four: tuple[int, int]
    five: tuple[int, int]


@dataclass(frozen=True)
class Run:
    """Held-out accuracies: of the whole, of each column alone, and of a plain network as deep as the last."""

    whole: float
    columns: tuple[float, ...]
    plain: float


def _unit(width: int) -> Any:
    from torch import nn

    dense = nn.Linear(width, width)
    nn.init.normal_(dense.weight, std=(2 / width) ** 0.5)
    nn.init.zeros_(dense.bias)
    return nn.Sequential(dense, nn.LayerNorm(width), nn.ReLU())


def networks(columns: int, width: int) -> tuple[Any, Any]:
    """Return a fractal network of one block, and a plain one as deep as its last column, on 64 pixels."""
    from torch import nn

    from deeplimits.blocks import Fractal, FractalNet

    inward = lambda: nn.Linear(64, width)
    block = Fractal(lambda first: _unit(width), columns)
    fractal = FractalNet([inward(), block, nn.Linear(width, 10)])
    plain = nn.Sequential(inward(), *(_unit(width) for _ in range(block.depth)), nn.Linear(width, 10))
    return fractal, plain


def trained(model: Any, steps: int, seed: int) -> Any:
    """Train on all digits but the held-out ones; the rate falls tenfold after a half and after three quarters."""
    import torch

    from deeplimits.numerics.seeds import torch_generator

    x, y, _, _ = _data()
    stream = torch_generator(seed, "fractalnet", "batches")
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps // 2, 3 * steps // 4])
    for _ in range(steps):
        rows = torch.randint(len(y), (BATCH,), generator=stream)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def _data() -> tuple[Any, Any, Any, Any]:
    import torch

    from deeplimits.numerics.seeds import torch_generator
    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    order = torch.randperm(len(y), generator=torch_generator(0, "fractalnet", "split"))
    train, held = order[HELD_OUT:], order[:HELD_OUT]
    return 8 * x[train], y[train], 8 * x[held], y[held]


def _accuracy(model: Any, **options: Any) -> float:
    import torch

    _, _, x, y = _data()
    with torch.no_grad():
        return float((model(x, **options).argmax(1) == y).double().mean())


@one_thread()
def runs(columns: int, sizes: Sizes, steps: int, seeds: int) -> list[Run]:
    """Train fractal and plain networks by the same recipe, and measure what is held out."""
    import torch

    found = []
    for seed in range(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fractal, plain = networks(columns, sizes.width)
            fractal, plain = trained(fractal, steps, seed), trained(plain, steps, seed)
        alone = tuple(_accuracy(fractal, column=column) for column in range(columns))
        found.append(Run(_accuracy(fractal), alone, _accuracy(plain)))
    return found


def four(sizes: Sizes) -> Measured:
    """Measure blocks of 4 columns, depth 8."""
    return _measured(4, HEADLINE, runs(4, sizes, *sizes.four), *sizes.four)


def five(sizes: Sizes) -> Measured:
    """Measure blocks of 5 columns, depth 16."""
    return _measured(5, HEADLINE.replace("4", "5"), runs(5, sizes, *sizes.five), *sizes.five)


def _measured(columns: int, name: str, found: list[Run], steps: int, seeds: int) -> Measured:
    depth = 2 ** (columns - 1)
    alone = min(run.columns[-1] - run.whole for run in found)
    beside = min(run.whole - run.plain for run in found)
    trained_alone = f"{steps} steps, one in {2 * columns} of them with the deepest column alone; {seeds} seeds"
    parts: list[Part] = [
        agreement.above(
            name, -0.02, Estimate(alone, 0.0), predicted=0.0, paper=False, note=f"{trained_alone}; {SET_UP}",
        ),
        agreement.above(
            f"accuracy of the whole less that of a plain network of depth {depth}, worst seed", 0.0,
            Estimate(beside, 0.0), paper=False, note="by the same recipe",
        ),
    ]  # fmt: skip
    depths = [float(2**column) for column in range(columns)]
    accuracies = np.array([run.columns for run in found]).mean(0)
    mean = lambda values: [float(np.mean(values))]
    curves = [
        Curve("columns alone", depths, accuracies.tolist()),
        Curve("the whole", [float(depth)], mean([run.whole for run in found])),
        Curve("plain network", [float(depth)], mean([run.plain for run in found])),
    ]
    title = f"{columns} columns, mean of {seeds} seeds"
    return Measured(parts, [Panel(title, "depth", "held-out accuracy", curves)])


CLAIM = Claim(
    key="larsson-2016-fractalnet",
    statement=(
        "Trained with drop-path, the deepest column of a fractal network answers alone as well as the whole, and "
        "better than a plain network of its depth."
    ),
    source="larsson-2016-fractalnet",
    headline=HEADLINE,
    steps=(Step("four", four, 32.0), Step("five", five, 18.0)),
    full=Sizes(64, (2000, 3), (1000, 2)),
    reduced=Sizes(32, (30, 1), (20, 1)),
)
