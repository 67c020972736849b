"""Sampling networks driven by paths: whole ones, or, with fresh weights in every layer, only what paths see of them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import as_float
from deeplimits.finite.build.controlled import grid, refuse_overflow
from deeplimits.finite.build.dense import make
from deeplimits.finite.build.place import building, place
from deeplimits.finite.conditioning import triangle
from deeplimits.finite.empirical_ntk import empirical_ntk
from deeplimits.finite.inputs import check_matrices, check_request, distinct_rows
from deeplimits.finite.task import Part, Task
from deeplimits.numerics.path import check_paths
from deeplimits.numerics.seeds import generator, torch_generator

CHUNK_BYTES = 64 * 2**20


def prepare(
    net: ControlledResNet, X: Any, width: Any, depth: Any, networks: Any, seed: Any, get: Any, parametrization: str
) -> Task:
    """Check the arguments of `sample` and put them together; the task holds the paths where layers look at them."""
    where = "sample"
    paths = check_paths(where, "X", X, net.clock)
    networks, asked = check_request(networks, seed, get)
    at = place(net, width, depth, seed, parametrization, paths[0].shape[1] + net.time, torch.float64, make, where)
    check_matrices(networks, len(paths), asked)
    places = grid(net, paths, at.depth, torch.empty(0, dtype=torch.float64))
    distinct, rows = distinct_rows(places.flatten(1).numpy())
    held = torch.from_numpy(distinct).unflatten(1, places.shape[1:])
    return Task(replace(net, time=False), None, at, held, rows, networks, seed, "ntk" in asked)


def chunks(task: Task) -> Generator[Part]:
    """Yield (gram, ntk) of consecutive networks."""
    net: Any = task.body
    if net.homogeneous or task.ntk:
        yield from _whole(task)
        return
    held = 8 * task.place.width * len(task.X) * (task.X.shape[-1] + 4)
    size = max(1, CHUNK_BYTES // held)
    for first in range(0, task.networks, size):
        yield _conditioned(task, net, range(first, min(first + size, task.networks))), None


def _whole(task: Task) -> Generator[Part]:
    """Yield (gram, ntk) network by network, each one built whole."""
    for index in range(task.networks):
        seed = int(generator(task.seed, "network", index).integers(2**63))
        module: Any = building(task.body, replace(task.place, seed=seed))[0]
        with torch.no_grad():
            states = module[:-1](task.X)
        ntk = torch.as_tensor(empirical_ntk(module, task.X))[None] if task.ntk else None
        yield (states @ states.mT / states.shape[-1])[None], ntk


def _conditioned(task: Task, net: ControlledResNet, networks: range) -> Tensor:
    """Return Gram matrices (S, k, k) of networks whose layers have fresh weights, which are never formed.

    phi(S) = L Q with Q orthonormal rows (r, n); A_j Q^T has independent entries N(0, weight_std^2 / n), so that the
    layer adds sum_j step_j (L G_j + b_j) with G_j (r, n): exact in law, since each weight matrix is used once.
    """
    steps, n = task.X.diff(dim=1) * sqrt(task.place.depth), task.place.width
    streams = [torch_generator(task.seed, "network", index) for index in networks]
    scale, bias_std = as_float(net.weight_std) / sqrt(n), as_float(net.bias_std)
    function, _ = building(net.activation, task.place)
    drawn = _normals(streams, 1, n)
    state = (as_float(net.initial_std) * drawn).repeat(1, len(steps), 1)
    for index in range(task.place.depth):
        lower = triangle(function(state))
        seen = _normals(streams, steps.shape[-1] * (lower.shape[-1] + 1), n)
        seen = seen.unflatten(1, (steps.shape[-1], lower.shape[-1] + 1))
        each = scale * (lower[:, None] @ seen[:, :, 1:]) + bias_std * seen[:, :, :1]
        state = state + torch.einsum("kd,sdkn->skn", steps[:, index], each)
    finite = state.isfinite().all(-1)
    if not bool(finite.all()):
        refuse_overflow(net, steps, int(torch.nonzero(~finite)[0, 1]), "torch.float64", "sample")
    return state @ state.mT / n


def _normals(streams: list[torch.Generator], rows: int, columns: int) -> Tensor:
    """Return standard normals (S, rows, columns), those of each network from its own stream."""
    drawn = torch.empty(len(streams), rows, columns)
    for stream, matrix in zip(streams, drawn, strict=True):
        matrix.normal_(generator=stream)
    return drawn.double()
