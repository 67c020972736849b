"""A block's increment beside its module, given one state: the most direct of all comparisons."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deeplimits.architecture.increment import Covariance, increment_of
from deeplimits.architecture.layer import Layer
from deeplimits.errors import InputError
from deeplimits.finite.build import building
from deeplimits.finite.build.dense import make
from deeplimits.finite.build.place import place
from deeplimits.finite.empirical_ntk import empirical_ntk
from deeplimits.limits.diffusion.layers import covariance
from deeplimits.numerics.seeds import generator
from deeplimits.testing.agreement import Gap, agree
from deeplimits.testing.record import Log

STATES = 3
NUMBERS = STATES * (STATES + 1) + STATES + 1
"""How many numbers the statistical parts compare."""


def compare(block: Layer, width: int, networks: int, seed: int, limit: float, log: Log) -> None:
    """Check mean, covariance, Gaussianity and NTK of a block's own module, drawn `networks` times, at a fixed state.

    Exact at every width: no limit is involved. The states have different norms.
    """
    drawn = generator(seed, "check", "module state").standard_normal((STATES, width))
    x = torch.from_numpy(drawn * np.array([[1.0], [0.6], [1.5]]))
    given = increment_of(block)
    outputs, tangents = _measure(block, x, networks, seed)
    upper = np.triu_indices(STATES)
    spread = np.sqrt(np.diagonal(_exact(block, given.covariance, x)))
    products = outputs @ outputs.mT / width
    fix = "compare the increment with the module: factors, biases and cross terms"
    name = type(block).__name__
    gap = _gap(outputs.mean(2).numpy() / spread, 0.0)
    agree("module: zero mean", gap, f"mean output of {name}", "give each output fresh weights of zero mean", limit, log)
    gap = _gap(products.numpy()[:, *upper], _exact(block, given.covariance, x)[upper])
    agree("module: covariance", gap, f"outputs of {name} less the increment's covariance", fix, limit, log)
    if given.gaussian:
        fourth = ((outputs.numpy() / spread[:, None]) ** 4).mean((1, 2))[:, None]
        fix = "say Increment(..., gaussian=False)"
        agree(
            "module: Gaussian", _gap(fourth, 3.0), f"fourth moment of {name} less that of a Gaussian", fix, limit, log
        )
    gap = _gap(tangents[:, *upper], _exact(block, given.learned or given.covariance, x)[upper])
    fix = "check the covariance; where layers of weights multiply, each adds its own term: Increment(learned=...)"
    agree("module: tangent kernel", gap, f"NTK of {name} alone less what its increment learns", fix, limit, log)


def _measure(block: Layer, x: Tensor, networks: int, seed: int) -> tuple[Tensor, np.ndarray]:
    """Return outputs (S, k, n) and NTKs (S, k, k) of S modules."""
    width = x.shape[1]
    outputs, tangents = [], []
    for index in range(networks):
        own = int(generator(seed, "check", "module", index).integers(2**62))
        at = place(block, width, 1, own, "ntk", width, torch.float64, make, "check_limit")
        module, features = building(block, at)
        with torch.no_grad():
            outputs.append(module(x))
        tangents.append(empirical_ntk(module, x.numpy()))
        if tuple(outputs[-1].shape) != tuple(x.shape):
            why = f"its module maps {tuple(x.shape)} to {tuple(outputs[-1].shape)} and says {features} features"
            raise InputError(f"check_limit: {type(block).__name__}", why, "return as many features as enter it")
    return torch.stack(outputs), np.stack(tangents)


def _exact(block: Layer, function: Covariance, x: Tensor) -> np.ndarray:
    """Return a covariance function of the increment at the state, (k, k)."""
    return covariance(block, x[None], function)[0].numpy()


def _gap(samples: np.ndarray, expected: np.ndarray | float) -> Gap:
    return Gap(samples.mean(0) - expected, samples.std(0, ddof=1) / np.sqrt(len(samples)))
