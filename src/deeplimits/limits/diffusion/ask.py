"""The front of the diffusion question: arrays in, a record out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimits.architecture.compose import Repeat, Serial, written_out
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.increment import given_by_increment, increment_of
from deeplimits.architecture.layer import Layer, Power
from deeplimits.architecture.size import whole
from deeplimits.errors import AccuracyWarning, DescriptionError, InputError
from deeplimits.limits.diffusion.compose import active
from deeplimits.limits.diffusion.record import Array, Diffusion
from deeplimits.limits.diffusion.setting import BLOCK, Noise, Setting
from deeplimits.limits.diffusion.setting import diffusion as question
from deeplimits.numerics.arrays import check, check_memory
from deeplimits.numerics.seeds import generator

WHERE = "diffusion"
FIRST_STEPS, MOST_STEPS = 32, 4096
SHARE = 0.5


def diffusion(
    net: Layer,
    X: Any,
    width: int,
    depth: float = inf,
    samples: int = 1000,
    seed: int = 0,
    times: Sequence[float] = (0.0, 1.0),
    accuracy: float | None = None,
) -> Diffusion:
    """Return samples of a network of fixed width at infinite depth: a stochastic differential equation of its state.

    For residual blocks x + DEPTH**-0.5 branch(x): the rows of the state X (n x k) move by dX = C(X)^(1/2) dB, without
    drift, C(X) (k x k) the covariance of the branch's output given the state, averages over neurons; a network of depth
    L is the scheme of Euler and Maruyama with L steps, and depth=L simulates that. The number of steps is doubled, on
    the same Brownian paths, until the mean Gram matrix stops moving.

    Args:
        net: the description; a trailing Dense is the readout, whose input is looked at.
        X: inputs, shape (k, d); numpy or torch.
        width: number n that WIDTH stands for.
        depth: infinity, or a whole number.
        samples: how many, at least 2; the first 100 of 200 are those of a run of 100 with the same steps.
        seed: of all of them.
        times: fractions of the layer time in [0, 1] at which the hidden state is looked at.
        accuracy: largest error by the steps, relative to the largest entry of the mean Gram matrix; by default half a
            standard error of the mean.

    Memory: (len(times) + 1) * samples * k^2 numbers, and 256 states of n * k.

    Valid when: Gaussian weights; branches that end in a Dense layer or in a block with an increment.

    Raises:
        InputError: data, sizes, times, accuracy or seed that cannot be used.
        NoLimit: there is none at infinite depth; says why.
        NoRule: a layer has neither a rule nor an increment.
        DescriptionError: an increment that is no covariance; weights that are not Gaussian.

    Source: hayou-2022-infinite-depth; hayou-2023-commute-ii (other sequences of scales).

    Example:
        >>> from deeplimits.architecture.zoo import ResNet
        >>> law = diffusion(ResNet("relu"), np.ones((1, 4)), width=16, samples=200, seed=0)
        >>> bool(abs(law.mean[0, 0] - np.exp(0.5)) < 4 * law.standard_error[0, 0])
        True
    """
    task = _prepare(net, X, width, depth, samples, seed, times)
    if accuracy is not None and not (isinstance(accuracy, float | int) and 0 < accuracy < inf):
        raise InputError(WHERE, f"accuracy={accuracy!r} is not a positive number", "give e.g. accuracy=0.01, or None")
    if depth != inf:
        gram, path = _run(task, int(depth), coarse=False)
        text = f"width {task.width}, depth {depth}: each block drawn given the state before it, exact in law"
        return _record(task, gram, path, int(depth), 0.0, text + _approximate(task))
    steps = FIRST_STEPS
    while True:
        gram, path = _run(task, 2 * steps, coarse=False)
        error, wanted = _moved(gram, _run(task, 2 * steps, coarse=True)[0], accuracy)
        if error <= wanted or 2 * steps >= MOST_STEPS:
            break
        steps *= 2
    text = (
        f"width {task.width}, infinite depth: the state's rows are a diffusion without drift, solved with {2 * steps} "
        f"Euler-Maruyama steps; the steps move the mean by at most {error:.1e} of its largest entry"
    )
    if error > wanted:
        warnings.warn(f"diffusion: {text}, more than the {wanted:.1e} asked for", AccuracyWarning, stacklevel=2)
    return _record(task, gram, path, 2 * steps, error, text)


@dataclass(frozen=True)
class _Task:
    body: Layer
    X: Tensor
    width: int
    depth: float
    samples: int
    seed: int
    times: Array


def _prepare(net: Any, X: Any, width: Any, depth: Any, samples: Any, seed: Any, times: Any) -> _Task:
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. dl.ResNet('relu') or layers joined by >>"
        raise DescriptionError(WHERE, f"{type(net).__name__} is not a network description", fix)
    inputs = np.asarray(check(WHERE, X).numpy()[0], dtype=np.float64)
    width, depth = whole(WHERE, "width", width), whole(WHERE, "depth", depth, infinite=True)
    samples = whole(WHERE, "samples", samples, minimum=2)
    generator(seed, "checked")
    layers = written_out(net).layers  # type: ignore[attr-defined]
    body = Serial(layers=layers[:-1] if layers and isinstance(layers[-1], Dense) else layers)
    seen = _times(body, depth, times)
    needed = 8 * (len(seen) + 1) * samples * len(inputs) ** 2
    fix = "use fewer inputs, samples or times"
    check_memory(WHERE, needed, "the Gram matrices of all samples", fix)
    return _Task(body, torch.from_numpy(inputs.copy()), width, depth, samples, seed, seen)


def _times(body: Layer, depth: float, given: Any) -> Array:
    try:
        times = np.asarray(given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        times = np.array([np.nan])
    if not len(times) or not bool(((times >= 0) & (times <= 1)).all()) or bool((np.diff(times) <= 0).any()):
        raise InputError(WHERE, f"times={given!r} do not rise from 0 to 1", "give e.g. times=(0, 0.5, 1)")
    open_blocks = [layer for layer in body.layers if isinstance(layer, Repeat) and isinstance(layer.times, Power)]  # type: ignore[attr-defined]
    inside = bool(((times > 0) & (times < 1)).any())
    discrete = depth == inf and any(p.kind == "discrete" for block in open_blocks for _, p in active(block.block))
    if inside and (len(open_blocks) != 1 or discrete):
        why = "times between 0 and 1 need one block repeated DEPTH times with scales that all vanish as depth grows"
        raise InputError(WHERE, why, "leave times out, or give times=(0, 1)")
    return times


def _run(task: _Task, steps: int, coarse: bool) -> tuple[Array, Array]:
    """Return the Gram matrices at the end and along the way, (samples, k, k) and (T, samples, k, k)."""
    k = len(task.X)
    gram = np.empty((task.samples, k, k))
    path = np.full((len(task.times), task.samples, k, k), np.nan)
    for block, start in enumerate(range(0, task.samples, BLOCK)):
        rows = slice(start, min(start + BLOCK, task.samples))
        noise = Noise(task.seed, block, rows.stop - rows.start)
        taken = steps // 2 if coarse else steps
        marks = np.round(task.times * taken)

        def watch(fraction: float, x: Tensor, rows=rows, marks=marks, taken=taken) -> None:
            now = marks == round(fraction * taken)
            if now.any():
                path[now, rows] = _gram(x)

        at = Setting(task.width, task.depth, noise, noise.normals("layer"), steps, coarse, watch)
        x = question(task.body, task.X.expand(rows.stop - rows.start, -1, -1), at)
        gram[rows] = _gram(x)
        if not np.isfinite(gram[rows]).all():
            why = f"the state overflows at depth {task.depth:g}"
            raise InputError(WHERE, why, "use smaller weight_std or branch scales, or smaller inputs")
    return gram, path


def _gram(x: Tensor) -> Array:
    return (x @ x.mT / x.shape[-1]).numpy()


def _moved(fine: Array, coarse: Array, accuracy: float | None) -> tuple[float, float]:
    """Return how far halving the steps moved the mean (weak order 1: the error left), and how far it may."""
    size = max(float(np.abs(fine.mean(0)).max()), 1e-300)
    apart = fine - coarse
    count = np.sqrt(len(fine))
    error = np.abs(apart.mean(0)) + 2 * apart.std(0, ddof=1) / count
    statistical = float((fine.std(0, ddof=1) / count).max())
    return float(error.max()) / size, SHARE * statistical / size if accuracy is None else accuracy


def _approximate(task: _Task) -> str:
    """Return, and warn of, what finite depth does to blocks whose outputs are not Gaussian."""
    names = sorted({type(b).__name__ for b in given_by_increment(task.body) if not increment_of(b).gaussian})
    if not names:
        return ""
    text = f"the outputs of {', '.join(names)} are not Gaussian given their input: the law is right up to order 1/depth"
    warnings.warn(f"diffusion: {text}, and in the limit", AccuracyWarning, stacklevel=3)
    return f"; {text}"


def _record(task: _Task, gram: Array, path: Array, steps: int, error: float, text: str) -> Diffusion:
    return Diffusion(task.width, task.depth, task.seed, gram, task.times, path, steps, error, text)
