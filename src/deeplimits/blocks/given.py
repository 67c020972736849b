"""What is given to blocks: checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from deeplimits.errors import DeepLimitsError, InputError, NoRule


def tensor(where: str, name: str, value: Any, *, features: int | None = None, dimensions: int | None = None) -> Tensor:
    """Return `value` if it is a finite floating tensor of the size asked for.

    Args:
        where: who asks.
        name: of the argument.
        value: what was given.
        features: size of the last axis, if it is prescribed.
        dimensions: number of axes, if it is prescribed.

    Raises:
        InputError: otherwise, with the first offending value and its index.
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = f"{value.dtype} tensor" if isinstance(value, Tensor) else type(value).__name__
        raise InputError(where, f"{name} is a {kind}", "give a tensor of float32 or float64")
    shape = tuple(value.shape)
    if dimensions is not None and value.dim() != dimensions:
        raise InputError(where, f"{name} has shape {shape}", f"give {name} with {dimensions} axes")
    if features is not None and (not shape or shape[-1] != features):
        raise InputError(where, f"{name} has shape {shape}", f"its last axis must be {features}")
    if not bool(torch.isfinite(value.detach()).all()):
        index = tuple(int(i) for i in torch.nonzero(~torch.isfinite(value.detach()))[0])
        raise InputError(where, f"{name} has {float(value[index])} at {index}", "drop or impute that entry")
    return value


def batch(where: str, name: str, value: Any) -> Tensor:
    """Return `value` if it is a finite floating tensor whose first axis is a batch, (batch, features) or more axes.

    Raises:
        InputError: otherwise.
    """
    tensor(where, name, value)
    if value.dim() < 2:
        raise InputError(where, f"{name} has shape {tuple(value.shape)}", "give (batch, features)")
    return value


def positive(where: str, name: str, value: Any, below: float = float("inf")) -> float:
    """Return `value` if it is a number in (0, below).

    Raises:
        InputError: otherwise.
    """
    good = isinstance(value, Real) and not isinstance(value, bool) and isfinite(float(value))
    if not good or not 0 < float(value) < below:
        end = "" if below == float("inf") else f" below {below:g}"
        raise InputError(where, f"{name}={value!r} is not a positive number{end}", f"give one in (0, {below:g})")
    return float(value)


def module(where: str, name: str, value: Any) -> nn.Module:
    """Return `value` if it is a torch module.

    Raises:
        InputError: otherwise.
    """
    if not isinstance(value, nn.Module):
        raise InputError(where, f"{name} is a {type(value).__name__}", f"give {name} as a torch.nn.Module")
    return value


def applied(where: str, name: str, function: Callable[..., Any], *given: Any, **tensors: Tensor) -> Any:
    """Return `function` of what is given, and of tensors by place.

    Raises:
        InputError: it fails on them, for their shapes or dtypes; says both.
    """
    try:
        return function(*given, *tensors.values())
    except (DeepLimitsError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        kinds = [f"{key} of shape {tuple(one.shape)} and {one.dtype}" for key, one in tensors.items()]
        why = f"{name} fails on {' and '.join(kinds)}: {str(error).splitlines()[0]}"
        raise InputError(where, why, f"give the shapes and the dtype that {name} takes") from error


def once(where: str, fix: str) -> None:
    """Refuse, within a backward pass, that its gradients be differentiated: they would lack terms.

    Raises:
        NoRule: the pass was asked to build a graph.
    """
    if torch.is_grad_enabled():
        raise NoRule(where, "gradients of gradients (create_graph=True) are not offered", fix)
