"""The kernel question for networks driven by paths."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from deeplimits.architecture.controlled import ControlledResNet
from deeplimits.architecture.layer import as_float
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError, NoRule, PrecisionError
from deeplimits.limits.controlled import solve
from deeplimits.limits.controlled.record import driven
from deeplimits.limits.kernel.activation import family
from deeplimits.limits.kernel.lowering import Lowering
from deeplimits.limits.kernel.lowering import kernel as question
from deeplimits.limits.kernel.record import Kernel
from deeplimits.numerics.arrays import check_memory, is_tensor
from deeplimits.numerics.path import check_paths, length, with_time


@question.rule(ControlledResNet, source="cirone-2023-neural-signature-kernels", valid="inputs are paths")
def inside(net: ControlledResNet, state: Lowering) -> None:
    """Refuse it as a part: its inputs are paths."""
    fix = "give it to dl.kernel alone, with paths in place of rows"
    raise DescriptionError("ControlledResNet", "a network driven by paths is no part of another network", fix)


def kernel(
    net: ControlledResNet,
    X1: Any,
    X2: Any = None,
    depth: float | None = None,
    get: str | tuple[str, ...] = "nngp",
    hyper: Mapping[str, Any] | None = None,
    dtype: Any = None,
    error: float = inf,
) -> Any:
    """Return the covariance of the outputs for all pairs of paths: at depth infinity the neural signature kernel.

    K(s, t) obeys d2K/dsdt = (weight_std^2 V(K) + bias_std^2) <x'_s, y'_t>, K = initial_std^2 where s or t is 0, with
    V(K) = E[phi(u) phi(v)]; for the identity this is the signature kernel, solved exactly, for others to 1e-3 of the
    diagonal or better, by a trial on a few pairs. At a finite depth it is Euler's scheme, exactly.
    Without homogeneity, dK/dt = (weight_std^2 V(K) + bias_std^2) <x'_t, y'_t>.

    Args:
        net: the description.
        X1: N paths: shape (N, points, d), or a list of arrays of shape (points, d); numpy or torch.
        X2: M further paths, or None for X1 against itself.
        depth: number of layers; infinity by default.
        get: "nngp", or the default of `dl.kernel`, which returns a Kernel.
        hyper: {path: value} of hyperparameters, numbers.
        dtype: of the result; by default that of the first path.
        error: largest of an entry, absolute, where it is to be less than 1e-3 of the diagonal.

    Returns:
        shape (N, M); a Kernel whose `ntk` is None where `get` is not a name.

    Valid when: width goes to infinity first.

    Raises:
        InputError: paths that cannot be used.
        NoRule: an NTK.
        PrecisionError: values leave the range of float64.

    Source: cirone-2023-neural-signature-kernels; salvi-2021-signature-kernel (identity).

    Example:
        >>> line = np.array([[[0.0], [1.0]]])
        >>> round(float(kernel(ControlledResNet("identity"), line)[0, 0]), 12)                        # I_0(2)
        2.279585302336
    """
    if get == "ntk" or get == ("ntk",):
        fix = "use get='nngp', or sample it"
        raise NoRule("kernel(get='ntk')", "networks driven by paths have no NTK here", fix)
    law, depth = _law(net, hyper), _depth(depth)
    x = _paths(net, "X1", X1)
    y = None if X2 is None else _paths(net, "X2", X2)
    if y is not None and y[0].shape[1] != x[0].shape[1]:
        why = f"X1 has {x[0].shape[1]} channels and X2 has {y[0].shape[1]}"
        raise InputError("kernel", why, "give both the same channels")
    columns = len(x if y is None else y)
    check_memory("kernel", 8 * len(x) * columns, f"a {len(x)} x {columns} result", "compute blocks of paths")
    with np.errstate(over="ignore", invalid="ignore"):
        found = solve.matrix(law, x, y, depth, error)
    _finite(found, law, (x, x if y is None else y))
    result = _as_given(found, X1, dtype)
    return result if isinstance(get, str) else Kernel(result, None, driven(net, depth))


def variances(net: ControlledResNet, X: Any, depth: float | None = None, error: float = inf) -> np.ndarray:
    """Return K(x, x) for every path, shape (N,); arguments as in `kernel`.

    Example:
        >>> variances(ControlledResNet("relu", weight_std=0.0, bias_std=1.0), np.array([[[0.0], [2.0]]])).round(12)
        array([5.])
    """
    law, x = _law(net, None), _paths(net, "X", X)
    with np.errstate(over="ignore", invalid="ignore"):
        found = solve.diagonal(law, x, _depth(depth), error)
    _finite(found, law, (x, x))
    return found


def _law(net: ControlledResNet, hyper: Mapping[str, Any] | None) -> solve.Law:
    if hyper:
        if any(is_tensor(value) for value in hyper.values()):
            fix = "give numbers, and take differences of two calls"
            raise DescriptionError("kernel", "kernels of paths have no gradients in hyperparameters", fix)
        net = net.replace(hyper)  # type: ignore[assignment]
    stds = [as_float(value) for value in (net.initial_std, net.weight_std, net.bias_std)]
    return solve.Law(family(net.activation), net.homogeneous, *(std**2 for std in stds), clock=net.clock)


def _depth(depth: float | None) -> float:
    return inf if depth is None else whole("kernel", "depth", depth, infinite=True)


def _paths(net: ControlledResNet, name: str, paths: Any) -> list[np.ndarray]:
    found = check_paths("kernel", name, paths, net.clock)
    return [with_time(path) for path in found] if net.time else found


def _finite(found: np.ndarray, law: solve.Law, paths: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    if np.isfinite(found).all():
        return
    at = tuple(int(n) for n in np.argwhere(~np.isfinite(found))[0])
    ends = zip(paths, (at[0], at[-1]), strict=True)
    lengths = [length(held[n]) for held, n in ends]
    why = f"entry {at} is larger than float64 holds: weight_std^2 = {law.weight:.3g}, lengths of the paths "
    why += f"{lengths[0]:.3g} and {lengths[1]:.3g}; the kernel grows like exp(2 weight_std sqrt(their product))"
    raise PrecisionError("kernel", why, "scale the paths or weight_std down")


def _as_given(found: np.ndarray, given: Any, dtype: Any) -> Any:
    first = given[0]
    if is_tensor(first):
        import torch

        result = torch.from_numpy(found)
        return result.to(dtype if dtype is not None else first.dtype if first.is_floating_point() else torch.float64)
    kind = getattr(np.asarray(first), "dtype", np.dtype(float))
    return found.astype(dtype if dtype is not None else kind if kind in (np.float32, np.float64) else np.float64)
