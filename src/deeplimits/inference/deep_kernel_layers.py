"""A network cut into layers, each a map from the Gram matrix of its inputs' features to a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import torch
from scipy.linalg import get_lapack_funcs
from torch import Tensor

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.dense import Dense, Gaussian
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.ask import kernel, tape_of
from deeplimits.limits.kernel.plain import follow
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Step, Tape
from deeplimits.numerics.arrays import check


@dataclass(frozen=True, eq=False)
class Blocks:
    """Covariances of features at B base rows and, where they are wanted, at M other rows.

    Attributes:
        base: shape (B, B).
        cross: between the other rows and the base, shape (M, B), or None.
        own: of the other rows: variances, shape (M,), or all of them, (M, M); or None.
    """

    base: Tensor
    cross: Tensor | None = None
    own: Tensor | None = None

    @property
    def variances(self) -> Tensor:
        """Variances of the other rows, shape (M,)."""
        assert self.own is not None
        return self.own if self.own.ndim == 1 else self.own.diagonal()


@dataclass(frozen=True)
class Layers:
    """The kernel maps K_1 .. K_L of the hidden layers and that of the readout, in order.

    Attributes:
        net: the description.
        depth: what DEPTH stands for.
        row: an input, at which the network's kernel is examined.
    """

    net: Layer
    depth: Any
    row: tuple[float, ...]

    @cached_property
    def tape(self) -> Tape:
        """The network as a list of steps."""
        return tape_of(self.net, check("DeepKernelMachine", np.array([self.row])), self.depth)[0]

    @cached_property
    def maps(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of each layer."""
        return _cut(self.tape)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("net", "depth", "row")}  # steps hold functions

    def kernel(self, layer: int, below: Blocks) -> Blocks:
        """Return the covariances that a layer gives to features whose inputs have the covariances `below`."""
        steps, q = self.maps[layer], below.base.diagonal()
        base = self._follow(steps, below.base, q[:, None], q[None, :])
        base = (base + base.T) / 2
        if below.cross is None or below.own is None:
            return Blocks(base)
        at = below.variances
        cross = self._follow(steps, below.cross, at[:, None], q[None, :])
        sides = (at, at) if below.own.ndim == 1 else (at[:, None], at[None, :])
        return Blocks(base, cross, self._follow(steps, below.own, *sides))

    def _follow(self, steps: Sequence[Step], k: Tensor, q1: Tensor, q2: Tensor) -> Tensor:
        return follow(steps, self.tape.registers, (k, k.new_zeros(()), q1, q2))[0]


def layers(where: str, net: Any, depth: Any, rows: np.ndarray) -> Layers:
    """Cut a network after every dense layer and every residual block.

    Args:
        where: named in errors.
        net: the description.
        depth: what DEPTH stands for, a whole number.
        rows: inputs, shape (N, d), at which the network's kernel is examined.

    Raises:
        DescriptionError: infinite depth, networks of paths, weights that are not Gaussian, no hidden layer.
        PrecisionError: kernels that leave the range of float64 at these rows.

    Source: yang-2021-deep-kernel-machine; derived (where a network is cut).

    Example:
        >>> from deeplimits.architecture.zoo import Mlp, ResNet
        >>> rows = np.ones((1, 2))
        >>> [len(layers("fit", net, 3, rows).maps) for net in (Mlp("erf"), ResNet("relu"))]
        [4, 5]
    """
    if isinstance(net, ControlledResNet):
        raise DescriptionError(where, "a network of paths", "use dl.learn.NeuralSignatureRegressor")
    if depth == inf:
        fix = "use a finite depth; dl.learn.NNGPRegressor takes depth=inf"
        raise DescriptionError(where, "depth=inf: there is a Gram matrix to learn for each layer", fix)
    for layer in _dense(net):
        if not isinstance(layer.weights, Gaussian):
            why = f"weights={layer.weights!r}: the law of Gram matrices is that of Gaussian features"
            raise DescriptionError(where, why, "leave weights out: Gaussian")
    order = np.argsort(np.abs(rows).max(axis=1), kind="stable")[[0, len(rows) // 2, -1]]
    kernel(net, rows[order], depth=depth, get="nngp")  # refuses, or warns of, what its kernel cannot be
    found = Layers(net, depth, tuple(rows[0].tolist()))
    if len(found.maps) < 2:
        fix = "give depth >= 1 or further dense layers, or use dl.learn.NNGPRegressor"
        raise DescriptionError(where, "the network has no hidden layer, so no Gram matrix to learn", fix)
    return found


def _dense(layer: Layer) -> Iterator[Dense]:
    if isinstance(layer, Dense):
        yield layer
        return
    parts = layer.parts()
    for child in (parts,) if parts is not None else (child for _, child in layer.children()):
        yield from _dense(child)


def _cut(tape: Tape) -> tuple[tuple[Step, ...], ...]:
    found, start = [], 0
    for place, step in enumerate(tape.steps, start=1):
        ends = (isinstance(step, Affine) and step.register == 0) or (isinstance(step, Add) and step.target == 0)
        if (ends and not _carried(tape.steps[place:])) or place == len(tape.steps):
            found.append(tape.steps[start:place])
            start = place
    return tuple(found)


def _carried(steps: Sequence[Step]) -> bool:
    """Say whether later steps read a register other than 0 before they write it."""
    written = {0}
    for step in steps:
        read, target = _registers(step)
        if not read <= written:
            return True
        written.add(target)
    return False


def _registers(step: Step) -> tuple[set[int], int]:
    if isinstance(step, Copy):
        return {step.source}, step.target
    if isinstance(step, Add):
        return {step.source, step.target}, step.target
    return {step.register}, step.register


@dataclass(frozen=True, eq=False)
class Pivots:
    """Rows that carry the rank of a layer's kernel at the base: the others' features are combinations of theirs."""

    rows: Tensor

    @property
    def rank(self) -> int:
        """Number of rows."""
        return len(self.rows)


(pstrf,) = get_lapack_funcs(("pstrf",), dtype=np.float64)
TOLERANCE = 1e-10  # of the largest diagonal entry: what a row must add to count


def pivots(kernel: Tensor) -> Pivots:
    """Choose rows by Cholesky's factorisation with pivots.

    Example:
        >>> pivots(torch.ones(2, 2, dtype=torch.float64)).rank
        1
    """
    matrix = kernel.detach().numpy()
    largest = float(matrix.diagonal().max(initial=0.0))
    _, order, rank, _ = pstrf(matrix, tol=TOLERANCE * largest, lower=1)
    return Pivots(torch.from_numpy(np.sort(order[: rank if largest > 0 else 0] - 1).astype(np.int64)))


def learned(kernel: Blocks, chosen: Pivots, root: Tensor) -> Blocks:
    """Return G = A M M^T A^T + (K - A A^T), with A A^T what the pivots carry of K: the Gram matrix that M stands for.

    Args:
        kernel: K, the layer's prior.
        chosen: pivots of K at the base.
        root: M, shape (rank, rank); the identity leaves K as it is.
    """
    full = chosen.rank == len(kernel.base)
    lower = torch.linalg.cholesky(kernel.base[chosen.rows][:, chosen.rows])
    inner = torch.linalg.solve_triangular(lower, kernel.base[chosen.rows], upper=False).T
    moved = inner @ root
    base = moved @ moved.T
    if not full:
        base = base + kernel.base - inner @ inner.T
    found = replace(kernel, base=base)
    if kernel.cross is None or kernel.own is None:
        return found
    outer = torch.linalg.solve_triangular(lower, kernel.cross[:, chosen.rows].T, upper=False).T
    across = outer @ root
    cross = across @ moved.T
    if not full:
        cross = cross + kernel.cross - outer @ inner.T
    if kernel.own.ndim == 1:
        own = kernel.own - (outer**2).sum(1) + (across**2).sum(1)
    else:
        own = kernel.own - outer @ outer.T + across @ across.T
    return replace(found, cross=cross, own=own)
