"""Sampling: many networks of a family at one width and depth, and what they do to given inputs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimits.architecture.attention import mixes_tokens
from deeplimits.architecture.compose import Serial, written_out
from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.dense import Dense
from deeplimits.errors import DescriptionError, InputError
from deeplimits.finite import driven
from deeplimits.finite.build.dense import make
from deeplimits.finite.build.place import building, place
from deeplimits.finite.chunks import conditioned_chunks, conditions
from deeplimits.finite.empirical_ntk import empirical_ntk
from deeplimits.finite.inputs import check_matrices, check_request, distinct_rows
from deeplimits.finite.record import Sample
from deeplimits.finite.task import Part, Task
from deeplimits.numerics.arrays import check
from deeplimits.numerics.seeds import generator

Progress = Callable[[int, int], None]


def sample(
    net: Any,
    X: Any,
    width: int,
    depth: int,
    networks: int,
    seed: int,
    get: str | tuple[str, ...] = ("nngp",),
    parametrization: str = "ntk",
    progress: Progress | None = None,
) -> Sample:
    """Return the Gram matrices <Y, Y>/n of the features entering the readout, and NTKs, network by network.

    Gaussian weights: only what the k inputs see of each weight matrix is drawn, O(n k^2) a layer instead of O(n^2 k),
    exact in law for the features and for the NTK. Other weights: whole networks from `build`.

    Args:
        net: description of the family; a trailing Dense is the readout (`net.body` and others without one: nngp only).
        X: (k, d) inputs; k paths, as for `kernel`, of a ControlledResNet; the k tokens of one sequence of a network
            with attention, whose NTK is taken from whole networks.
        width: number that WIDTH stands for.
        depth: number that DEPTH stands for.
        networks: how many, at least 2; the first 100 of 200 are those of a run of 100.
        seed: of all of them.
        get: "nngp", "ntk" or both; the NTK is that of the network with one output, every layer trained.
        parametrization: "ntk" or "standard", of the NTK.
        progress: called with (networks done, networks) after each chunk.

    Raises:
        InputError: bad X, sizes, seed, or names in `get`; features that overflow.
        DescriptionError: the NTK asked of a network without a readout.

    Source: hayou-yang-2023-commute (the sampled family); yang-2020-tensor-programs-ii, section 4 (the conditioning).

    Example:
        >>> import deeplimits as dl, numpy as np
        >>> dl.sample(dl.ResNet("relu"), np.eye(2), width=16, depth=4, networks=10, seed=0).gram.shape
        (10, 2, 2)
    """
    if isinstance(net, ControlledResNet):
        task = driven.prepare(net, X, width, depth, networks, seed, get, parametrization)
        return collect(task, driven.chunks(task), progress)
    task = prepare(net, X, width, depth, networks, seed, get, parametrization)
    parts = conditioned_chunks(task) if conditions(task) else whole_networks(task)
    return collect(task, parts, progress)


def prepare(net: Any, X: Any, width: Any, depth: Any, networks: Any, seed: Any, get: Any, parametrization: str) -> Task:
    """Check the arguments of `sample` and put them together."""
    where = "sample"
    inputs = np.asarray(check(where, X).numpy()[0], dtype=np.float64)
    networks, asked = check_request(networks, seed, get)
    at = place(net, width, depth, seed, parametrization, inputs.shape[1], torch.float64, make, where)
    tokens = mixes_tokens(net)
    inputs, rows = (inputs, np.arange(len(inputs))) if tokens else distinct_rows(inputs)
    layers = written_out(net).layers  # type: ignore[attr-defined]
    readout = replace(layers[-1], features=1) if layers and isinstance(layers[-1], Dense) else None
    if readout is None and "ntk" in asked:
        why = "the NTK is that of a scalar output and the network has no Dense readout"
        raise DescriptionError(where, why, "add >> Dense(features=1), or ask for get='nngp'")
    check_matrices(networks, len(rows), asked)
    body = Serial(layers=layers if readout is None else layers[:-1])
    return Task(body, readout, at, torch.from_numpy(inputs), rows, networks, seed, "ntk" in asked, tokens)


def collect(task: Task, parts: Generator[Part], progress: Progress | None) -> Sample:
    """Put chunks of (gram, ntk) together and give each input its row back."""
    grams, ntks, done = [], [], 0
    with closing(parts):
        for gram, ntk in parts:
            grams.append(gram)
            ntks.append(ntk)
            done += len(gram)
            if not torch.isfinite(gram).all() or not (ntk is None or torch.isfinite(ntk).all()):
                why = f"the features of network {done - len(gram)} or a later one overflow at depth {task.place.depth}"
                raise InputError("sample", why, "use a smaller depth, weight_std or branch scale, or smaller inputs")
            if progress is not None:
                progress(done, task.networks)
    pick = (slice(None), *np.ix_(task.rows, task.rows))
    gram = torch.cat(grams).numpy()[pick]
    ntk = torch.cat(ntks).numpy()[pick] if task.ntk else None
    at = task.place
    return Sample(at.width, at.depth, task.seed, at.parametrization, gram, ntk)


def whole_networks(task: Task) -> Generator[Part]:
    """Yield (gram, ntk) network by network, each one built whole."""
    net = task.body if task.readout is None else task.body >> task.readout
    for index in range(task.networks):
        seed = int(generator(task.seed, "network", index).integers(2**63))
        module, _ = building(net, replace(task.place, seed=seed))
        with torch.no_grad():
            features = (module if task.readout is None else module[:-1])(task.X)  # type: ignore[index]
        ntk = ntk_of(module, task)[None] if task.ntk else None
        yield (features @ features.mT / features.shape[-1])[None], ntk


def ntk_of(module: torch.nn.Module, task: Task) -> Tensor:
    """Return the NTK (k, k) of a module with one output for each input; tokens are the outputs of one sequence."""
    if task.tokens:
        return empirical_ntk(module, task.X[None], outputs="full")[0, 0]
    return empirical_ntk(module, task.X)
