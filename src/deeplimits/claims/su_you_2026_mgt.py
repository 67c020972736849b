"""Gates and erasing against the collapse of rank in deep random transformers, and the facts that both rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deeplimits.claims import agreement
from deeplimits.claims.claim import Claim, Curve, Measured, Panel, Step
from deeplimits.claims.one_thread import one_thread

HEADLINE = "effective rank over that of the plain residual, gate and erasing"
NO_EXPERIMENTS = "the source reports no experiments and no figure; the factor 3 is ours, and so is the set-up"
KINDS = {
    "plain residual": (False, False, "direction"),
    "gate": (True, False, "direction"),
    "erasing": (False, True, "direction"),
    "gate and erasing": (True, True, "direction"),
    "erasing read literally": (False, True, "state"),
}
"""{name: gate, erasing, what is erased}: the fourth is the source's block with the delta rule."""


@dataclass(frozen=True)
class Sizes:
    """Width, tokens, depths at which ranks are read, networks; maps in the product of stream mixings."""

    width: int
    tokens: int
    depths: tuple[int, ...]
    networks: int
    maps: int


def _branch(width: int, stream: Any) -> Any:
    """Return attention and a ReLU perceptron side by side after a norm, with weights that keep the variance."""
    import torch
    from torch import nn

    query, key, value, up = (torch.randn(width, width, generator=stream) / width**0.5 for _ in range(4))
    down = (2 / width) ** 0.5 * torch.randn(width, width, generator=stream)

    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            z = nn.functional.layer_norm(x, (width,))
            weights = ((z @ query) @ (z @ key).mT / width**0.5).softmax(-1)
            return weights @ (z @ value) + torch.relu(z @ up) @ down

    return Branch()


@one_thread()
def ranks(kind: str, sizes: Sizes, seed: int) -> np.ndarray:
    """Return effective and stable ranks of the tokens, (depths, 2), in one random network of a kind."""
    import torch

    from deeplimits.blocks import ManifoldGeometric
    from deeplimits.diagnostics import effective_rank, stable_rank
    from deeplimits.numerics.seeds import torch_generator

    gated, erasing, projection = KINDS[kind]
    stream = torch_generator(seed, "mgt", "weights")
    x = torch.randn(sizes.tokens, sizes.width, generator=stream)
    found = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for depth in range(1, sizes.depths[-1] + 1):
            branch = _branch(sizes.width, stream)
            block = ManifoldGeometric(branch, sizes.width, gated, projection=projection)  # type: ignore[arg-type]
            x = block(x) if erasing else x + block.parts(x)[0]
            if depth in sizes.depths:
                found.append((float(effective_rank(x)), float(stable_rank(x))))
    return np.array(found)


def ablation(sizes: Sizes) -> Measured:
    """Measure ranks of tokens in random networks, with the gate, with erasing, with both and with neither."""
    runs = {kind: np.array([ranks(kind, sizes, seed) for seed in range(sizes.networks)]) for kind in KINDS}
    last = {kind: values[:, -1, 0] for kind, values in runs.items()}
    plain, deepest = last["plain residual"], sizes.depths[-1]
    options: dict[str, Any] = {"networks": sizes.networks, "paper": False}
    parts = [
        agreement.above(
            HEADLINE, 3.0, agreement.average(last["gate and erasing"] / plain), note=NO_EXPERIMENTS, **options,
        ),
        agreement.above(
            "effective rank of both over the better of the two alone", 1.0,
            agreement.average(last["gate and erasing"] / np.maximum(last["gate"], last["erasing"])), **options,
            note="the source says that both are needed",
        ),
        *(
            agreement.above(
                f"effective rank over that of the plain residual, {kind}", 1.0, agreement.average(last[kind] / plain),
                counts=False, note=note, **options,
            )
            for kind, note in (
                ("gate", "beside"), ("erasing", "beside"),
                ("erasing read literally", "beside: Proj_x(x) = x, a moving average of updates"),
            )
        ),
        agreement.above(
            "stable rank over that of the plain residual, gate and erasing", 3.0,
            agreement.average(runs["gate and erasing"][:, -1, 1] / runs["plain residual"][:, -1, 1]), counts=False,
            note="beside: another measure of rank", **options,
        ),
    ]  # fmt: skip
    depths = [float(depth) for depth in sizes.depths]
    error = lambda values: (values.std(0, ddof=1) / len(values) ** 0.5).tolist()
    curves = [
        Curve(kind, depths, values[:, :, 0].mean(0).tolist(), error(values[:, :, 0]))
        for kind, values in runs.items()
        if kind != "erasing"
    ]
    alone = runs["erasing"][:, :, 0]
    curves.append(Curve("erasing (line)", depths, predicted=alone.mean(0).tolist()))
    panel = Panel(f"{sizes.tokens} tokens, random layers to {deepest}", "layers", "effective rank of tokens", curves)
    return Measured(parts, [panel])


def facts(sizes: Sizes) -> Measured:
    """Compute what doubly stochastic mixings and the delta rule keep."""
    import torch

    from deeplimits.blocks import delta, doubly_stochastic
    from deeplimits.numerics.seeds import torch_generator

    stream, streams = torch_generator(0, "mgt", "facts"), 4
    product = free = torch.eye(streams, dtype=torch.float64)
    residual, apart = 0.0, []
    for _ in range(sizes.maps):
        logits = torch.randn(streams, streams, generator=stream, dtype=torch.float64)
        mixing = doubly_stochastic(logits, tolerance=0.1)
        residual += float((mixing.sum(-2) - 1).abs().max())
        product, free = mixing @ product, (torch.eye(streams) + logits / streams**0.5) @ free
        apart.append(float((product - 1 / streams).abs().max()))
    sums = torch.cat([product.sum(-1), product.sum(-2)])
    k = torch.nn.functional.normalize(torch.randn(8, generator=stream, dtype=torch.float64), dim=0)
    X, v = (torch.randn(size, generator=stream, dtype=torch.float64) for size in ((8, 3), (3,)))
    betas = (0.0, 0.5, 1.0, 2.0)
    miss = max(float((k @ delta(X, k, v, b) - (1 - b) * k @ X - b * v).abs().max()) for b in betas)
    zero, eye = torch.zeros(8, dtype=torch.float64), torch.eye(8, dtype=torch.float64)
    dets = max(abs(float(torch.linalg.det(delta(eye, k, zero, b))) - (1 - b)) for b in betas)
    because = f"the residuals of {sizes.maps} times 20 iterations of Sinkhorn-Knopp, added"
    parts = [
        agreement.equal(
            f"spectral norm of the product of {sizes.maps} doubly stochastic maps", 1.0,
            float(torch.linalg.matrix_norm(product, 2)), 1.1 * residual, because,
        ),
        agreement.equal(
            "its row or column sum that is farthest from 1", 1.0, float(sums[(sums - 1).abs().argmax()]),
            1.1 * residual, because,
        ),
        agreement.equal(
            "its largest distance from the uniform map: streams have become equal", 0.0, apart[-1],
            0.01 + 1.1 * residual, f"1 % and {because}", paper=False,
        ),
        agreement.above(
            "largest sum of a row's sizes in the product of maps left free", 100.0,
            agreement.average([float(free.abs().sum(-1).max())] * 2), paper=False, counts=False,
            note="beside: 1 + N(0, 1/4)",
        ),
        agreement.equal("k^T X' less (1 - beta) k^T X + beta v^T", 0.0, miss, 1e-13, "rounding"),
        agreement.equal("determinant of 1 - beta k k^T less 1 - beta", 0.0, dets, 1e-13, "rounding"),
    ]  # fmt: skip
    places = [float(place) for place in range(1, sizes.maps + 1)]
    curves = [Curve("doubly stochastic", places, apart)]
    words = "Streams become equal", "maps in the product", "largest distance from 1/n"
    return Measured(parts, [Panel(*words, curves, "linear", "log")])


CLAIM = Claim(
    key="su-you-2026-mgt",
    statement=(
        "In very deep transformers a geometric gate and erasing together keep the rank of the tokens that plain "
        "residual connections lose."
    ),
    source="su-you-2026-mgt, which reports no experiments; facts: xie-2025-mhc, zhang-2026-deep-delta",
    headline=HEADLINE,
    steps=(Step("ablation", ablation, 12.0), Step("facts", facts, 0.5)),
    full=Sizes(64, 32, (1, 2, 4, 8, 16, 32, 64, 128), 16, 64),
    reduced=Sizes(32, 16, (1, 4, 16), 4, 16),
)
