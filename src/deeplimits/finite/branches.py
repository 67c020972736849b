"""Residual networks that add a mean in every block, trained by gradient descent, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deeplimits.architecture.branches import MeanResNet
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, NoLimit
from deeplimits.finite.build.activation import Pointwise
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.embedded import Array, Embedded, embedded
from deeplimits.numerics.moments import standard_error
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

WHERE = "train_branches"
COPIES = 6
"""Parameters, gradients and what the backward pass keeps, in units of the parameters."""


@dataclass(frozen=True, eq=False)
class BranchNetworks:
    """Outputs of independent networks at every step of training.

    Attributes:
        depth: L.
        inner: units of a branch, M.
        outputs: (networks, T, P), or (networks, T, P, C) where y had an axis for outputs.
        test_outputs: (networks, T, M), or (networks, T, M, C).
    """

    depth: int
    inner: int
    outputs: Array
    test_outputs: Array

    @property
    def mean(self) -> Array:
        """Mean of `outputs` over networks."""
        return self.outputs.mean(0)

    @property
    def standard_error(self) -> Array:
        """Standard error of `mean`."""
        return standard_error(self.outputs)


def train_branches(
    net: MeanResNet,
    X: Any,
    y: Any,
    *,
    depth: int,
    inner: int,
    networks: int,
    steps: int,
    rate: float,
    X_test: Any = None,
    embedding: Any = None,
    unembedding: Any = None,
    readout_units: int | None = None,
    seed: int = 0,
) -> BranchNetworks:
    """Return networks of a depth and an inner width, each trained alone by gradient descent on all inputs.

    What `mean_ode` is the limit of: units of the branches move by rate depth inner / scale^2 times minus the gradient
    of sum (f - y)^2 / 2, units of a trained readout by rate readout_units / readout_scale^2 times it.

    Args:
        net: the description.
        X: training inputs, (P, d).
        y: targets, (P,) or (P, C).
        depth: L.
        inner: M, units of a branch.
        networks: how many, at least 2; the first 10 of 20 are those of a run of 10.
        steps: of gradient descent.
        rate: learning rate, that of `mean_ode`.
        X_test: inputs that are not trained on, (M, d).
        embedding: (d, D); None for states that start as the inputs.
        unembedding: (D, C), of a fixed readout; None draws entries N(0, 1/D), always the same ones.
        readout_units: M', of a trained readout.
        seed: of all networks.

    Raises:
        InputError: data or sizes that cannot be used.
        DescriptionError: an infinite scale.
        NoLimit: training diverges.
        MemoryNeeded: networks that do not fit.

    Source: definition (gradient descent through automatic differentiation).

    Example:
        >>> net = MeanResNet("tanh")
        >>> found = train_branches(net, np.eye(2), [1.0, -1.0], depth=8, inner=1, networks=3, steps=5, rate=0.2)
        >>> found.outputs.shape
        (3, 6, 2)
    """
    problem = _checked(net, X, y, X_test, embedding, unembedding, rate, readout_units)
    depth, inner = whole(WHERE, "depth", depth), whole(WHERE, "inner", inner)
    networks, steps = whole(WHERE, "networks", networks, minimum=2), whole(WHERE, "steps", steps)
    size = depth * inner * problem.states.shape[1] * 2
    points = len(problem.states) + len(problem.tests)
    needed = 8 * COPIES * networks * (size + depth * points * (inner + problem.states.shape[1]))
    check_memory(WHERE, needed, f"{networks} networks", "train fewer networks at a time, with other seeds")
    units = _drawn(net, problem, depth, inner, readout_units, networks, seed)
    sizes = {"u": depth * inner / net.scale**2, "v": depth * inner / net.scale**2}
    if readout_units is not None:
        sizes |= dict.fromkeys("ab", readout_units / net.readout_scale**2)
    start = torch.from_numpy(np.concatenate([problem.states, problem.tests]))
    y_, found = torch.from_numpy(problem.targets), []
    with Bar(steps + 1, description="networks") as bar:
        for step in range(steps + 1):
            f = _outputs(net, units, start, torch.from_numpy(problem.out))
            found.append(f.detach().numpy())
            if not np.isfinite(found[-1]).all():
                raise NoLimit(WHERE, f"training diverges at step {step}", f"use a rate below {rate:g}")
            if step < steps:
                loss = ((f[:, : len(y_)] - y_) ** 2).sum() / 2
                slopes = torch.autograd.grad(loss, list(units.values()))
                with torch.no_grad():
                    for (name, value), slope in zip(units.items(), slopes, strict=True):
                        value -= rate * sizes[name] * slope
            bar.reach(step + 1)
    outputs = np.stack(found, 1)
    outputs = outputs if problem.several else outputs[..., 0]
    return BranchNetworks(depth, inner, outputs[:, :, : len(y_)], outputs[:, :, len(y_) :])


def _checked(
    net: Any, X: Any, y: Any, X_test: Any, embedding: Any, unembedding: Any, rate: Any, readout_units: Any
) -> Embedded:
    if not isinstance(net, MeanResNet):
        why = f"{type(net).__name__} is not a MeanResNet"
        raise DescriptionError(WHERE, why, "give dl.training.MeanResNet('tanh')")
    if net.lazy:
        raise DescriptionError(WHERE, "scale=inf is a limit", "give a finite scale")
    if not isinstance(rate, Real) or isinstance(rate, bool) or not 0 < float(rate) < inf:
        raise InputError(WHERE, f"rate={rate!r} is not a positive number", "give e.g. rate=0.1")
    if net.readout == "trained":
        if unembedding is not None:
            raise InputError(WHERE, "unembedding has no effect: the readout is trained", "leave it out")
        if readout_units is None:
            raise InputError(WHERE, "the trained readout has no size", "give e.g. readout_units=1000")
        whole(WHERE, "readout_units", readout_units)
    elif readout_units is not None:
        raise InputError(WHERE, f"readout_units={readout_units!r} has no effect: the readout is fixed", "leave it out")
    return embedded(WHERE, X, y, X_test, embedding, unembedding)


def _drawn(
    net: MeanResNet, problem: Embedded, depth: int, inner: int, readout_units: int | None, networks: int, seed: int
) -> dict[str, Tensor]:
    """Return u and v, (networks, depth, inner, D); of a trained readout b (networks, M', D) and a (networks, M', C)."""
    D, C = problem.out.shape
    shapes = {"u": ((depth, inner, D), net.inner_std), "v": ((depth, inner, D), net.outer_std)}
    if readout_units is not None:
        shapes |= {"b": ((readout_units, D), net.inner_std), "a": ((readout_units, C), net.outer_std)}
    streams = [generator(seed, "branches", index) for index in range(networks)]
    return {
        name: torch.from_numpy(np.stack([std * stream.standard_normal(shape) for stream in streams])).requires_grad_()
        for name, (shape, std) in shapes.items()
    }


def _outputs(net: MeanResNet, units: dict[str, Tensor], h: Tensor, out: Tensor) -> Tensor:
    """Return f of all networks, (networks, P, C)."""
    u, v, phi = units["u"], units["v"], Pointwise(net.activation)
    networks, depth, inner, D = u.shape
    h = h.expand(networks, -1, -1)
    for block in range(depth):
        h = h + net.scale / (depth * inner) * phi(h @ u[:, block].mT / D**0.5) @ v[:, block]
    if "a" not in units:
        return h @ out
    return net.readout_scale / units["a"].shape[1] * phi(h @ units["b"].mT / D**0.5) @ units["a"]
