"""A network of infinite width as a prior over functions: its kernels on training rows, on new rows, on the diagonal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.zoo import ResNet
from deeplimits.errors import DescriptionError
from deeplimits.limits.controlled import ask as on_paths
from deeplimits.limits.kernel.ask import kernel, variances

Rows = np.ndarray | list[np.ndarray]  # rows (N, d), or N paths
BLOCK_BYTES = 200_000_000  # of one block of rows of a kernel between new and training rows
SHARE = 0.01  # of the noise, that solvers of equations may add to entries of a kernel


@dataclass(frozen=True)
class Prior:
    """Kernels of one network at one depth, in float64.

    Attributes:
        net: the description.
        depth: a whole number, infinity, or None for a network that does not depend on it.
        noise: variance beside which errors of kernels of paths are to be small.
    """

    net: Layer
    depth: float | None
    noise: float = inf

    def matrix(self, X: Rows, kind: str) -> np.ndarray:
        """Return a kernel of rows against themselves, shape (N, N)."""
        return self._kernel(X, None, kind)

    def both(self, X1: Rows, X2: Rows | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the NNGP kernel and the NTK, each of shape (N, M)."""
        found = kernel(self.net, X1, X2, depth=self.depth, dtype="float64")
        return found.nngp, found.ntk

    def cross(self, X1: Rows, X2: Rows, kind: str) -> np.ndarray:
        """Return a kernel between two sets of rows, shape (N, M)."""
        return self._kernel(X1, X2, kind)

    def variances(self, X: Rows, kind: str) -> np.ndarray:
        """Return the diagonal of a kernel, shape (N,)."""
        if isinstance(self.net, ControlledResNet):
            return on_paths.variances(self.net, X, self.depth, SHARE * self.noise)
        return variances(self.net, X, self.depth, kind)

    def _kernel(self, X1: Rows, X2: Rows | None, kind: str) -> np.ndarray:
        if isinstance(self.net, ControlledResNet):
            return on_paths.kernel(self.net, X1, X2, self.depth, kind, error=SHARE * self.noise)
        return kernel(self.net, X1, X2, depth=self.depth, get=kind, dtype="float64")


def network(net: Any, default: Layer | None = None) -> Layer:
    """Return the description given, or the one that estimators take by default, a ReLU ResNet where `default` is None.

    Raises:
        DescriptionError: not a description.

    Example:
        >>> network(None).scale
        Power(exponent=-0.5, factor=1.0)
    """
    if net is None:
        return ResNet("relu") if default is None else default
    if not isinstance(net, Layer):
        fix = "describe it first, e.g. net=dl.ResNet('relu'), or leave it out"
        raise DescriptionError("net", f"{net!r} is not a network description", fix)
    return net


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices of rows such that a block of `columns` float64 numbers a row stays below BLOCK_BYTES.

    Example:
        >>> [(part.start, part.stop) for part in row_blocks(50_000, 10_000)][:2]
        [(0, 2500), (2500, 5000)]
    """
    size = max(1, BLOCK_BYTES // (8 * max(columns, 1)))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))
