"""How a residual network uses its depth, from passes that watch, replace and skip its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from deeplimits.diagnostics.parts import Parts, parts_of
from deeplimits.diagnostics.record import DepthUse, Lens, Skips, Sublayer
from deeplimits.diagnostics.stack import Rule, Stack, found, skipped
from deeplimits.errors import InputError
from deeplimits.progress import Bar

Over = Literal["max", "mean"]


def depth_use(
    model: nn.Module,
    inputs: Any,
    blocks: str | Sequence[str | nn.Module] | None = None,
    *,
    sublayers: Sequence[str] | None = None,
    skips: Over | None = "max",
    future: int | None = None,
    lens: bool = True,
    logits: bool = True,
    top: int = 5,
    features: int = -1,
) -> DepthUse:
    """Measure how a network of residual blocks h_{l+1} = h_l + u_l uses them.

    Contributions |u_l| / |h_l| and cosines of u_l with h_l; what skipping each block changes in later updates and in
    the output; what each layer would answer by itself. `dl.plot(found)` draws them beside the null curves of an
    untrained network, without which a falling curve says nothing.

    Args:
        model: any module; it is run in evaluation mode, and left as it was.
        inputs: one tensor, a tuple for several, or a dict of keywords: prompts of one length.
        blocks: names or modules in order, the name of the list that holds them, or None to find them: the longest
            chain of modules of one class.
        sublayers: names inside a block of what is added to the stream, in order, as ("attn", "mlp"); None to find
            modules whose outputs sum to the block's update.
        skips: whether changes are the largest ("max", as in the source) or the mean over positions and prompts; None
            measures none.
        future: a place t: blocks are skipped up to t, and changes measured after it; the stream is then (prompts,
            places, features), and what crosses from one place to others is seen alone.
        lens: whether to ask each layer for its answer (final norm and readout on h_l).
        logits: whether the output is logits, over the last dimension.
        top: likeliest outputs that are compared.
        features: dimension of the stream that norms and cosines are over; 1 for images.

    Returns:
        a `DepthUse`.

    Valid when: blocks add to one stream; where they do not (post-norm), u_l is still what they change. What follows
    the blocks (norm, readout) depends on the stream alone.

    Raises:
        InputError: no blocks are found, blocks that are not one chain, sub-layers that do not sum to the update, values
            that are not finite, or a place that is not there.

    Source: csordas-2025-depth-use; null curves: derived.

    Example:
        >>> block = lambda: nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64))
        >>> class Residual(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.branch = block()
        ...     def forward(self, x):
        ...         return x + self.branch(x)
        >>> model = nn.Sequential(*(Residual() for _ in range(8)), nn.Linear(64, 10))
        >>> use = depth_use(model, torch.randn(32, 64))
        >>> use.names[:2], len(use.contribution), use.lens.overlap[-1]
        (('0', '1'), 8, 1.0)
    """
    stack = Stack(model, inputs, found(model, inputs, blocks), features)
    _checked(stack, skips, future, top)
    inner = parts_of(stack, sublayers)
    updates, streams = stack.updates(), stack.streams
    pairs = list(zip(updates, streams[:-1], strict=True))
    with torch.no_grad():
        return DepthUse(
            model=type(model).__name__,
            names=stack.names,
            places=streams[0][..., 0].numel(),
            contribution=tuple(_ratio(u, h) for u, h in pairs),
            cosine=tuple(_cosine(u, h) for u, h in pairs),
            sizes=tuple(float(h.double().square().mean().sqrt()) for h in streams),
            sublayers=_sublayers(stack, inner),
            skips=None if skips is None else _skips(stack, skips, future, logits),
            lens=_lens(stack, top) if lens and logits else None,
        )


def _checked(stack: Stack, skips: Over | None, future: int | None, top: int) -> None:
    if skips not in ("max", "mean", None):
        raise InputError("depth_use", f"skips={skips!r}", "use 'max', 'mean' or None")
    if not isinstance(top, int) or top < 1:
        raise InputError("depth_use", f"top={top!r}", "give 1 or more; 5 is usual")
    if future is None:
        return
    shape = tuple(stack.streams[0].shape)
    places = shape[-2] if len(shape) > 2 else 0
    if not isinstance(future, int) or not 0 <= future < places - 1:
        why = f"future={future!r}, and the stream {shape} has {places} places"
        raise InputError("depth_use", why, "give a place before the last of a stream (prompts, places, features)")


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x.double(), dim=-1)


def _share(change: Tensor, size: Tensor) -> Tensor:
    """Return change over size; NaN, which `_over` leaves out, where the size is 0: as embeddings of padding."""
    return torch.where(size > 0, change / size, torch.nan)


def _ratio(u: Tensor, h: Tensor) -> float:
    return _over(_share(_norm(u), _norm(h)), "mean")


def _cosine(u: Tensor, h: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(u.double(), h.double(), dim=-1).mean())


def _sublayers(stack: Stack, inner: Parts | None) -> tuple[Sublayer, ...]:
    if inner is None:
        return ()
    found = []
    for order, name in enumerate(inner.names):
        ratios, cosines = [], []
        for block, outputs in enumerate(inner.outputs):
            h = stack.streams[block] + sum(outputs[:order])
            ratios.append(_ratio(outputs[order], h))
            cosines.append(_cosine(outputs[order], h))
        found.append(Sublayer(name, tuple(ratios), tuple(cosines)))
    return tuple(found)


def _skips(stack: Stack, over: Over, future: int | None, logits: bool) -> Skips:
    depth, updates = len(stack), stack.updates()
    rows, outputs = [], []
    rule = skipped if future is None else _until(future, stack.features)
    with Bar(depth, description="skipping blocks") as bar:
        for skip in range(depth):
            streams, output = stack.run({**{i: stack.given(i) for i in range(skip)}, skip: rule})
            changed = [after - before for before, after in pairwise(streams)]
            row = [0.0] * (skip + 1)
            for l in range(skip + 1, depth):
                change = _share(_norm(updates[l] - changed[l]), _norm(updates[l]))
                row.append(_over(_later(change, future), over))
            rows.append(tuple(row))
            outputs.append(_over(_later(_effect(stack.output, output, logits), future), over))
            bar.advance(stack.names[skip], 1.0)
    return Skips(tuple(rows), tuple(outputs), over, future)


def _until(place: int, features: int) -> Rule:
    """Return the rule of a block that is left out up to a place."""

    def rule(h: Tensor, run: Any) -> Tensor:
        before = h.movedim(features, -1).clone()
        early = torch.arange(before.shape[-2], device=h.device)[:, None] <= place
        return torch.where(early, before, run().movedim(features, -1)).movedim(-1, features)

    return rule


def _later(values: Tensor, future: int | None) -> Tensor:
    return values if future is None else values[..., future + 1 :]


def _over(values: Tensor, over: Over) -> float:
    kept = values[~values.isnan()]
    if not len(kept):
        return 0.0
    return float(kept.max() if over == "max" else kept.mean())


def _effect(output: Tensor, other: Tensor, logits: bool) -> Tensor:
    if logits:
        return _norm(output.double().softmax(-1) - other.double().softmax(-1))
    return _share(_norm(output - other), _norm(output))


def _lens(stack: Stack, top: int) -> Lens:
    """Ask every layer: blocks up to it give what they gave, those after it are left out."""
    final = stack.output.double().log_softmax(-1)
    count = min(top, final.shape[-1])
    best = final.topk(count, dim=-1).indices
    divergences, overlaps = [], []
    for layer in range(len(stack) + 1):
        rules = {i: stack.given(i) if i < layer else skipped for i in range(len(stack))}
        found = stack.run(rules)[1].double().log_softmax(-1)
        divergences.append(float((final.exp() * (final - found)).sum(-1).mean()))
        own = found.topk(count, dim=-1).indices
        overlaps.append(float((best.unsqueeze(-1) == own.unsqueeze(-2)).any(-1).double().mean()))
    return Lens(tuple(divergences), tuple(overlaps), count)
