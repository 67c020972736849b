"""Post-LayerNorm with a skip of weight L: what skips carry, how far the signal moves, a thousand layers trained."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread
from deeplimits.plane.record import Estimate

HEADLINE = "gradient that the skips carry over its law, alpha = L, deepest"
WORDS = {"L": "alpha = L", "sqrtL": "alpha = sqrt L", 1.0: "Post-LN"}
CLASSES, BATCH, RATE = 10, 64, 3e-4


@dataclass(frozen=True)
class Sizes:
    """Width and inputs; places (depth, networks); depth and steps of the training, steps of Post-LN's."""

    width: int
    inputs: int
    places: tuple[tuple[int, int], ...]
    deep: int
    steps: int
    post_steps: int


def _drawn(width: int, stream: Any, trained: bool) -> Any:
    """Return a ReLU perceptron that keeps the variance; fresh weights at each call, and no gradient, if not trained."""
    import torch
    from torch import nn

    scales = width**-0.5, (2 / width) ** 0.5

    class Drawn(nn.Module):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                up, down = (scale * torch.randn(width, width, generator=stream) for scale in scales)
                return torch.relu(x @ up) @ down

    if not trained:
        return Drawn()
    layers = [nn.Linear(width, width, bias=False) for _ in scales]
    for layer, scale in zip(layers, scales, strict=True):
        nn.init.normal_(layer.weight, std=scale, generator=stream)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


def _network(depth: int, alpha: Any, width: int, stream: Any, trained: bool) -> Any:
    from deeplimits.blocks import Keel

    return Keel.stack([_drawn(width, stream, trained) for _ in range(depth)], width, alpha)


def passed(depth: int, alpha: Any, sizes: Sizes, seed: int, trained: bool = False) -> tuple[float, float]:
    """Return |gradient at the first layer| over that at the last, and the mean square that features have moved.

    Gradients are those of the skips alone, unless `trained`, where they pass through branches too.
    """
    import torch

    from deeplimits.numerics.seeds import torch_generator

    stream = torch_generator(seed, "keel", depth, WORDS[alpha])
    x = torch.randn(sizes.inputs, sizes.width, generator=stream)
    x = torch.nn.functional.layer_norm(x, (sizes.width,)).requires_grad_()
    network = _network(depth, alpha, sizes.width, stream, trained).requires_grad_(False)
    last = network(x)
    probe = torch.randn(x.shape, generator=stream)
    (gradient,) = torch.autograd.grad((last * probe).sum(), x)
    moved = (last - x).detach().double().square().mean()
    return float(gradient.double().norm() / probe.double().norm()), float(moved)


@one_thread()
def skips(sizes: Sizes) -> Measured:
    """Measure what skips carry, for three weights, and the movement of the signal, beside their laws."""
    from deeplimits.blocks import movement, skip_gradient

    parts, curves = [], []
    found: dict[Any, list[np.ndarray]] = {
        alpha: [
            np.array([passed(depth, alpha, sizes, seed) for seed in range(networks)])
            for depth, networks in sizes.places
        ]
        for alpha in WORDS
    }
    deepest = sizes.places[-1][0]
    for alpha, runs in found.items():
        laws = [skip_gradient(depth, alpha) for depth, _ in sizes.places]
        for (depth, _), law, values in zip(sizes.places, laws, runs, strict=True):
            options: dict[str, Any] = {"networks": len(values)}
            if alpha == 1.0:
                name, ratios = (
                    f"power of 2 that Post-LN's skips lose a layer, depth {depth}",
                    np.log2(values[:, 0]) / depth,
                )
                part = agreement.between(name, -0.5, agreement.average(ratios), -0.525, -0.475, paper=False, **options)
            else:
                last = alpha == "L" and depth == deepest
                name = (
                    HEADLINE if last else f"gradient that the skips carry over its law, {WORDS[alpha]}, depth {depth}"
                )
                ratios = values[:, 0] / law
                part = agreement.between(name, 1.0, agreement.average(ratios), 0.95, 1.05, paper=False, **options)
            parts.append(part)
        depths = [float(depth) for depth, _ in sizes.places]
        curves.append(Curve(WORDS[alpha], depths, [float(values[:, 0].mean()) for values in runs], None, laws))
    for (depth, _), values in zip(sizes.places, found["L"], strict=True):
        law = (1 - 2 / sizes.width) * movement(depth)
        parts.append(
            agreement.between(
                f"movement of the signal over its law, 1/L, alpha = L, depth {depth}", 1.0,
                agreement.average(values[:, 1] / law), 0.95, 1.05, networks=len(values), paper=False,
                note="with the share 2/width of a branch that norms take away",
            )
        )  # fmt: skip
    parts.append(_whole(sizes))
    panel = Panel("Gradients of the skips alone", "depth L", "|gradient, first| / |gradient, last|", curves)
    return Measured(parts, [Panel(panel.title, panel.x_label, panel.y_label, curves, "log2", "log")])


def _whole(sizes: Sizes) -> Any:
    """Measure Post-LN's gradient through branches too, which does not vanish."""
    depth, _ = sizes.places[min(1, len(sizes.places) - 1)]
    values = [passed(depth, 1.0, sizes, seed, trained=True)[0] for seed in range(16)]
    return agreement.between(
        f"whole gradient of Post-LN with ReLU perceptrons, first over last, depth {depth}", 1.0,
        agreement.average(values), 0.3, 3.0, networks=16, paper=False, counts=False,
        note="beside: gradients that pass through branches make up for the skips' at initialization",
    )  # fmt: skip


@one_thread()
def trained(depth: int, alpha: Any, steps: int, seed: int = 0) -> tuple[list[float], float]:
    """Train the blocks alone on digits, readout fixed at random.

    Returns:
        losses on all digits before training, and after; with the batches' between; and the norm of the gradient of
        the first block's weights over that of the last, at the start.
    """
    import torch
    from torch.nn.functional import cross_entropy, layer_norm

    from deeplimits.numerics.seeds import torch_generator
    from deeplimits.transfer.examples.data import digits

    x, y = digits()
    width, stream = x.shape[1], torch_generator(seed, "keel", "training")
    x = layer_norm(x, (width,))
    network = _network(depth, alpha, width, stream, trained=True)
    readout = torch.randn(width, CLASSES, generator=stream) / width**0.5
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, fused=True)
    losses, ratio = [_loss(network, readout, x, y)], 0.0
    for step in range(steps):
        rows = torch.randint(len(y), (BATCH,), generator=stream)
        optimizer.zero_grad()
        loss = cross_entropy(network(x[rows]) @ readout, y[rows])
        loss.backward()
        if step == 0:
            first, last = (_norm(network[place].branch) for place in (0, -1))
            ratio = first / last
        optimizer.step()
        losses.append(float(loss.detach()))
    return [*losses, _loss(network, readout, x, y)], ratio


def _loss(network: Any, readout: Any, x: Any, y: Any) -> float:
    import torch

    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(network(x) @ readout, y))


def _norm(module: Any) -> float:
    return float(sum(p.grad.double().square().sum() for p in module.parameters()) ** 0.5)


def training(sizes: Sizes) -> Measured:
    """Train a thousand layers of width 64, Keel and Post-LN, and look at gradients of their first and last blocks."""
    keel, ratio = trained(sizes.deep, "L", sizes.steps)
    post, post_ratio = trained(sizes.deep, 1.0, sizes.post_steps)
    parts = [
        agreement.above(
            f"gradient of the first block over that of the last, depth {sizes.deep}", 0.01, Estimate(ratio, 0.0),
            predicted=1.0, paper=False,
        ),
        agreement.above(
            f"fall of the loss on digits in {sizes.steps} steps, depth {sizes.deep}, blocks trained alone", log(2),
            Estimate(keel[0] - keel[-1], 0.0), paper=False, note="log 2: answers become twice as likely",
        ),
        agreement.above(
            f"the same of Post-LN in {sizes.post_steps} steps, depth {sizes.deep}", 0.0,
            Estimate(post[0] - post[-1], 0.0), paper=False, counts=False, note="beside: at the same learning rate",
        ),
        agreement.above(
            f"gradient of the first block over that of the last, Post-LN, depth {sizes.deep}", 0.0,
            Estimate(post_ratio, 0.0), paper=False, counts=False, note="beside",
        ),
    ]  # fmt: skip
    curves = [
        Curve(f"{name}, {sizes.deep} layers", [float(step) for step in range(len(losses) - 2)], losses[1:-1])
        for name, losses in (("Keel, alpha = L", keel), ("Post-LN", post))
    ]
    return Measured(parts, [Panel("Training the blocks alone", "step", "loss of the batch", curves, "linear")])


CLAIM = Claim(
    key="chen-wei-2026-keel",
    statement=(
        "Post-LayerNorm whose skip has the weight L passes gradients whatever the depth, where plain Post-LN's skips "
        "lose them exponentially, and trains at a thousand layers."
    ),
    source="chen-wei-2026-keel (the block's formula in public ports; the paper's language models are not reproduced)",
    headline=HEADLINE,
    steps=(Step("skips", skips, 20.0), Step("training", training, 28.0)),
    full=Sizes(256, 16, ((16, 48), (64, 32), (256, 26)), 1000, 20, 5),
    reduced=Sizes(64, 16, ((8, 6), (16, 6)), 30, 3, 2),
)
