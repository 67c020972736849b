"""Networks sampled by conditioning, a chunk at a time, one chunk on each core."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import local

import torch
from torch import nn

from deeplimits.architecture.dense import Gaussian
from deeplimits.architecture.increment import increment_of
from deeplimits.architecture.layer import as_float
from deeplimits.errors import AccuracyWarning, DescriptionError
from deeplimits.finite.block import ConditionedBlock, conditioned_block
from deeplimits.finite.build.place import building
from deeplimits.finite.conditioning import BACKWARD, Draws, conditioned
from deeplimits.finite.task import Part, Task, most_heads, weight_laws

CHUNK_BYTES = 192 * 2**20
CHUNK_ENTRIES = 2**17


def conditioned_body(task: Task) -> tuple[nn.Module, Draws]:
    """Return the body with conditioned layers, and their draws; the readout's draws come after the body's."""
    draws = Draws(task.place.parametrization == "standard")
    module, _ = building(task.body, replace(task.place, dense=conditioned(draws), block=conditioned_block(draws)))
    draws.layers += 1
    return module, draws


def conditions(task: Task) -> bool:
    """Say whether all weights are Gaussian and belong to dense layers, so that conditioning draws them all.

    Not for the NTK of tokens: every output has gradients of its own at every token.
    """
    held = [*weight_laws(task.body), *([] if task.readout is None else [task.readout.weights])]
    if not all(isinstance(law, Gaussian) for law in held) or (task.ntk and task.tokens):
        return False
    module, _ = conditioned_body(task)
    given = [part.layer for part in module.modules() if isinstance(part, ConditionedBlock)]
    if task.ntk and given:
        name = type(given[0]).__name__
        why = f"the NTK needs the weights of {name}, which its increment does not tell"
        fix = f"add its module: @building.rule({name}, source=...) of deeplimits.finite.build, or ask for get='nngp'"
        raise DescriptionError("sample", why, fix)
    loose = sorted({type(layer).__name__ for layer in given if not increment_of(layer).gaussian})
    if loose:
        text = f"sample: the outputs of {', '.join(loose)}, not Gaussian given their input, are drawn as if they were"
        warnings.warn(f"{text}: right up to order 1/depth; add a module to be exact", AccuracyWarning, stacklevel=3)
    return not any(True for _ in module.parameters())


def conditioned_chunks(task: Task) -> Generator[Part]:
    """Yield (gram, ntk) of consecutive networks; one-threaded chunks on as many threads as torch uses."""
    threads, own = torch.get_num_threads(), local()
    size = chunk_size(task, conditioned_body(task)[1].layers, threads)
    ranges = [range(first, min(first + size, task.networks)) for first in range(0, task.networks, size)]

    def start() -> None:
        torch.set_num_threads(1)  # small matrices: chunks side by side waste less than threads inside each product
        own.body, own.draws = conditioned_body(task)

    pool = ThreadPoolExecutor(min(threads, len(ranges)), initializer=start)
    try:
        yield from pool.map(lambda networks: chunk(task, own.body, own.draws, networks), ranges)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def chunk_size(task: Task, layers: int, threads: int) -> int:
    """Return how many networks to hold at once: bounded in memory, and small enough for the caches."""
    layer_bytes = 8 * task.X.shape[0] * (max(task.place.width, task.X.shape[1]) + most_heads(task.body) * len(task.X))
    held = 4 * layers if task.ntk else 8
    return max(1, min(CHUNK_BYTES // threads // (layer_bytes * held), 8 * CHUNK_ENTRIES // layer_bytes))


def chunk(task: Task, body: nn.Module, draws: Draws, networks: range) -> Part:
    """Return (gram, ntk) of some networks, (S, k, k) each."""
    draws.start(task.seed, networks, task.X.shape[0] if task.ntk else None)
    X = task.X.expand(len(networks), -1, -1)
    with torch.set_grad_enabled(task.ntk):
        features = body(X)
    gram = (features @ features.mT).detach()
    n = features.shape[-1]
    if task.ntk:
        assert task.readout is not None
        draws.learn(task.readout, n, gram, torch.ones((), dtype=torch.float64))
        if features.requires_grad:
            scale = as_float(task.readout.weight_std) / n**0.5
            weight = scale * draws.normals(draws.layers - 1, BACKWARD, 1, n)
            torch.autograd.grad(features, draws.anchor, weight.expand_as(features))
    return gram / n, draws.ntk
