"""Compositions of sampled states; a block repeated to infinite depth is a stochastic differential equation."""

from __future__ import annotations

from math import inf, sqrt

from torch import Tensor

from deeplimits.architecture.compose import Parallel, Repeat, Residual, Serial, written_out
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.layer import Layer, Power, as_float
from deeplimits.architecture.scale import alpha
from deeplimits.architecture.shaped import WeightedSkip
from deeplimits.errors import DescriptionError, NoLimit
from deeplimits.limits.diffusion.setting import Setting, diffusion
from deeplimits.limits.flow.profile import Profile, profile
from deeplimits.numerics import sde

Part = tuple[Layer, Profile]


@diffusion.rule(Serial, source="definition")
def serial(layer: Serial, x: Tensor, at: Setting) -> Tensor:
    """One after the other."""
    for part in layer.layers:
        x = diffusion(part, x, at)
    return x


@diffusion.rule(Parallel, source="definition")
def parallel(layer: Parallel, x: Tensor, at: Setting) -> Tensor:
    """The sum of branches of one input."""
    total = diffusion(layer.branches[0], x, at)
    for part in layer.branches[1:]:
        total = total + diffusion(part, x, at)
    return total


@diffusion.rule(Residual, source="hayou-2022-infinite-depth, eq. 1")
def residual(layer: Residual, x: Tensor, at: Setting) -> Tensor:
    """x + scale * branch(x), the branch's weights drawn afresh."""
    if at.depth == inf and isinstance(layer.scale, Power):
        why = "a branch scale that depends on DEPTH stands outside Repeat(..., DEPTH)"
        raise DescriptionError("Residual", why, "put the Residual inside Repeat, or give its scale as a number")
    scale = alpha(layer.scale, at.index, at.repeats, 1 if at.depth == inf else int(at.depth))
    return x + as_float(scale) * diffusion(layer.branch, x, at)


@diffusion.rule(WeightedSkip, source="definition")
def weighted_skip(layer: WeightedSkip, x: Tensor, at: Setting) -> Tensor:
    """skip * x + scale * branch(x), the branch's weights drawn afresh."""
    skip, scale = (as_float(weight) for weight in layer.mixing)
    return skip * x + scale * diffusion(layer.branch, x, at)


@diffusion.rule(Repeat, source="hayou-2022-infinite-depth; hayou-2023-commute-ii (sequences of scales)")
def repeat(layer: Repeat, x: Tensor, at: Setting) -> Tensor:
    """The blocks one after the other: a scheme of Euler and Maruyama, whose limit is taken at infinite depth."""
    open_depth = isinstance(layer.times, Power)
    watch = at.watch if open_depth else None
    if open_depth and at.depth == inf:
        return _infinite(layer.block, x, at)
    times = int(at.depth) if isinstance(layer.times, Power) else layer.times
    if watch is not None:
        watch(0.0, x)
    for place in range(1, times + 1):
        x = diffusion(layer.block, x, at.at(index=place, repeats=times, watch=None))
        if watch is not None:
            watch(place / times, x)
    return x


def _infinite(block: Layer, x: Tensor, at: Setting) -> Tensor:
    parts = active(block)
    watch = at.watch
    if watch is not None:
        watch(0.0, x)
    if not parts:
        if watch is not None:
            watch(1.0, x)
        return x
    lasting = parts[0][1]
    for place in range(len(lasting.first)):
        for branch, p in parts:
            x = x + sqrt(as_float(p.first[place])) * diffusion(branch, x, at.at(watch=None))
    times = [as_float(p.tail if p.kind == "discrete" else p.time) for _, p in parts]

    def move(state: Tensor, length: float, normals: sde.Normals) -> Tensor:
        inside = at.at(normals=normals, watch=None)
        for (branch, _), time in zip(parts, times, strict=True):
            step = sde.euler_maruyama(None, lambda y, _, branch=branch: diffusion(branch, y, inside))
            state = step(state, time * length, normals)
        return state

    sources = lambda index: at.noise.normals("step", at.steps, index)
    steps, sources = (at.steps // 2, sde.halved(sources)) if at.coarse else (at.steps, sources)
    seen = None if watch is None else lambda done, state: watch(done / steps, state) if done else None
    return sde.run(move, x, 1.0, steps, sources, seen)


def active(block: Layer) -> list[Part]:
    """Return (branch, what its scales do) of the residual layers of a block that matter at infinite depth.

    Raises:
        NoLimit: the scales are too large, or the block has no skips.
        DescriptionError: a branch whose output has a mean, or scales of different kinds.
    """
    layers = written_out(block).layers  # type: ignore[attr-defined]
    if not layers or not all(isinstance(layer, Residual) for layer in layers):
        why = (
            "a block without skips has no diffusion limit at fixed width: its norm drifts without bound as depth grows"
        )
        raise NoLimit("diffusion(depth=inf)", why, "ask at a finite depth, or write the block with Residual(...)")
    parts = [(layer.branch, profile(layer.scale)) for layer in layers]
    for branch, p in parts:
        if p.kind == "explodes":
            raise NoLimit("diffusion(depth=inf)", f"no limit: {p.why}", "scale the branches by DEPTH**-0.5")
        _check_ending(branch)
    parts = [(branch, p) for branch, p in parts if p.kind != "trivial"]
    if len({p.kind for _, p in parts}) > 1:
        why = "the block mixes branches with a flow limit and branches with a discrete one"
        raise DescriptionError("diffusion(depth=inf)", why, "give all branches of a block the same kind of scale")
    return parts


def _check_ending(branch: Layer) -> None:
    layers = written_out(branch).layers  # type: ignore[attr-defined]
    last = layers[-1] if layers else None
    if last is None or (type(last) in diffusion.rules and not isinstance(last, Dense)):
        why = f"a branch ends in {type(last).__name__}, so that its output has a mean given its input"
        raise DescriptionError(
            "diffusion(depth=inf)", why, "end the branch in a Dense layer, or in a block of your own"
        )
