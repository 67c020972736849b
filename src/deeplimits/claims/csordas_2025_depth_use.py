"""How networks use their depth: untrained curves, and two small language models mapped to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

HEADLINE = "rank correlation of a deep layer with the shallow one that gives it best"
SET_UP = "characters of Python's help topics, blocks of width 64; the source's are large language models"
RATE, HELD_OUT = 3e-3, -1


@dataclass(frozen=True)
class Sizes:
    """Untrained: width, depth, inputs, networks. Trained: width, depths of the pair, steps, pieces of text."""

    width: int
    depth: int
    inputs: int
    networks: int
    small: int
    pair: tuple[int, int]
    steps: int
    pieces: int


def _untrained(width: int, depth: int, seed: int) -> Any:
    """Return blocks h + F(LN(h)) with F a ReLU perceptron that keeps the variance."""
    import torch
    from torch import nn

    from deeplimits.numerics.seeds import torch_generator

    stream = torch_generator(seed, "depth use", "weights")

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            scales = width**-0.5, (2 / width) ** 0.5
            self.up, self.down = (nn.Parameter(scale * torch.randn(width, width, generator=stream)) for scale in scales)

        def forward(self, h: Any) -> Any:
            return h + torch.relu(self.norm(h) @ self.up) @ self.down

    return nn.Sequential(*(Block() for _ in range(depth)))


@one_thread()
def null(sizes: Sizes) -> Measured:
    """Measure untrained networks beside 1/sqrt(l+1) and 1/sqrt(s+2)."""
    import torch

    from deeplimits.diagnostics import depth_use
    from deeplimits.numerics.seeds import torch_generator

    found = []
    for seed in range(sizes.networks):
        x = torch.randn(sizes.inputs, sizes.width, generator=torch_generator(seed, "depth use", "inputs"))
        model = _untrained(sizes.width, sizes.depth, seed)
        found.append(depth_use(model, x, skips="mean", lens=False, logits=False))
    laws = {"contribution": found[0].null, "change of the next block by a skip": found[0].skips.null}  # type: ignore[union-attr]
    measured = {
        "contribution": np.array([use.contribution for use in found]),
        "change of the next block by a skip": np.array([use.skips.next_block for use in found]),  # type: ignore[union-attr]
    }
    parts, curves = [], []
    for (name, law), words in zip(laws.items(), ("1/√(l + 1)", "1/√(s + 2)"), strict=True):
        ratios = measured[name] / np.array(law)
        options: dict[str, Any] = {"paper": False, "note": f"width {sizes.width}, {sizes.depth} blocks"}
        parts += [
            agreement.between(
                f"{name} over {words}, untrained, mean over blocks", 1.0, agreement.average(ratios.mean(1)), 0.85, 1.15,
                networks=sizes.networks, **options,
            ),
            agreement.equal(
                f"{name} over {words}, untrained, the block that is farthest off", 1.0, _farthest(ratios.mean(0)),
                0.15, "15 %", **options,
            ),
        ]  # fmt: skip
        places = [float(place) for place in range(len(law))]
        errors = (measured[name].std(0, ddof=1) / sizes.networks**0.5).tolist()
        curves.append(Curve(f"{name}; line {words}", places, measured[name].mean(0).tolist(), errors, list(law)))
    panel = Panel("Networks that have learnt nothing", "block", "relative size", curves, "linear", "log")
    return Measured(parts, [panel])


def _farthest(ratios: np.ndarray) -> float:
    return float(ratios[np.argmax(np.abs(ratios - 1))])


@one_thread()
def trained(sizes: Sizes) -> Measured:
    """Train a pair, map every layer of the shallow one to every layer of the deep one, and look at contributions."""
    from deeplimits.diagnostics import depth_use, linear_maps
    from deeplimits.transfer.examples import data, gpt

    (shallow, first), (deep, second) = (_model(depth, sizes, train=True) for depth in sizes.pair)
    blank = [_model(depth, sizes, train=False)[0] for depth in sizes.pair]
    text, _ = data.windows(sizes.pieces, gpt.LENGTH, HELD_OUT)
    maps, untrained = linear_maps(shallow, deep, text), linear_maps(*blank, text)
    use = depth_use(deep, text[:8])
    share = (np.arange(1, len(maps.best) + 1) / len(maps.best)).tolist()
    matched = ((np.array(maps.best) + 1) / sizes.pair[0]).tolist()
    blind = ((np.array(untrained.best) + 1) / sizes.pair[0]).tolist()
    words = f"{sizes.pair[0]} and {sizes.pair[1]} blocks, {sizes.steps} steps, losses {first:.3g} and {second:.3g}"
    parts = [
        agreement.above(
            HEADLINE, 0.8, Estimate(maps.spearman, 0.0), predicted=1.0, paper=False, note=f"{words}; {SET_UP}",
        ),
        agreement.above(
            "control: 0.8 less the same rank correlation of the untrained pair", 0.0,
            Estimate(0.8 - untrained.spearman, 0.0), paper=False,
            note="maps between networks that have learnt nothing should not pass the same test; at 120 steps of "
            "training the first shallow layer gave all deep ones best, rank correlation 0",
        ),
        agreement.above(
            "contribution of the first half over that of the second, less the untrained curve's ratio", 0.0,
            Estimate(1 / use.half() - 1 / use.null_half(), 0.0), paper=False,
            note=f"{1 / use.half():.3g} measured, {1 / use.null_half():.3g} untrained; deep model",
        ),
        agreement.above(
            "middle of the blocks less the mean block, weighted by what skipping it does to the output", 0.0,
            Estimate((len(use.names) - 1) / 2 - use.score, 0.0), paper=False, note="deep model",
        ),
    ]  # fmt: skip
    curves = [Curve("trained", share, matched), Curve("untrained", share, blind)]
    curves.append(Curve("equal depth", share, predicted=share))
    title = "Which shallow layer gives a deep one best"
    matches = Panel(title, "relative depth, deep", "relative depth, shallow", curves, "linear")
    return Measured(parts, [matches, _contributions(use)])


def _model(depth: int, sizes: Sizes, train: bool) -> tuple[Any, float]:
    """Return a small transformer and its loss on pieces of text that are always the same."""
    import torch

    from deeplimits.transfer.examples import data, gpt, training

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(depth)
        model = gpt.build(sizes.small, depth)
    whole = data.windows(4 * gpt.SEQUENCES, gpt.LENGTH, HELD_OUT)
    if not train:
        return model, float("nan")
    groups = [{"params": list(model.parameters()), "lr": RATE}]
    batches = lambda step: data.windows(gpt.SEQUENCES, gpt.LENGTH, step)
    return model, training.train(model, groups, batches, whole, sizes.steps)


def _contributions(use: Any) -> Panel:
    places = [float(place) for place in range(len(use.names))]
    curves = [
        Curve(f"trained, {len(places)} blocks", places, list(use.contribution)),
        Curve("untrained: 1/√(l + 1)", places, predicted=use.null),
        Curve("untrained, from the first block's", places, predicted=use.matched_null),
    ]
    return Panel("Contribution of blocks", "block l", "|update| / |stream|", curves, "linear", "log")


CLAIM = Claim(
    key="csordas-2025-depth-use",
    statement=(
        "Late blocks of trained transformers add less, and a deeper one spreads the computation of a shallower one "
        "over more layers; untrained networks set the curves to compare with."
    ),
    source="csordas-2025-depth-use; untrained curves: derived",
    headline=HEADLINE,
    steps=(Step("null", null, 10.0), Step("trained", trained, 45.0)),
    full=Sizes(256, 64, 32, 8, 64, (8, 16), 400, 96),
    reduced=Sizes(64, 8, 16, 3, 16, (2, 4), 8, 12),
)
