"""What single layers do to a sampled state: Gaussian rows given the state, or a function of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deeplimits.architecture import activation as act
from deeplimits.architecture.dense import Dense
from deeplimits.architecture.increment import Covariance, checked, increment, increment_of
from deeplimits.architecture.layer import Layer, as_float
from deeplimits.architecture.norm import LayerNorm, RMSNorm
from deeplimits.architecture.size import resolve
from deeplimits.errors import DescriptionError, InputError
from deeplimits.limits.diffusion.setting import Setting, diffusion
from deeplimits.limits.kernel.activation import family
from deeplimits.numerics.sde import INDEFINITE, factor

ENTRIES = 2**22


def covariance(layer: Layer, x: Tensor, function: Covariance | None = None) -> Tensor:
    """Return the increment's covariance of every two inputs given the state, (S, k, n) to (S, k, k).

    Args:
        layer: named in errors.
        x: the state.
        function: another function of the layer's increment, in place of its covariance.

    Raises:
        DescriptionError: the function returns no symmetric matrix of finite numbers.
    """
    samples, k, n = x.shape
    function = function or increment_of(layer).covariance
    size, parts = max(1, ENTRIES // (k * k * n)), []
    for start in range(0, samples, size):
        rows = x[start : start + size]
        value = checked(layer, function(rows[:, :, None], rows[:, None, :], _mean), (len(rows), k, k, 1))
        parts.append(torch.as_tensor(value, dtype=x.dtype).expand(len(rows), k, k, 1)[..., 0])
    found = torch.cat(parts)
    apart = float((found - found.mT).abs().max())
    if apart > 1e-10 * float(found.abs().max()):
        why = f"its covariance is not symmetric: two entries that should be equal differ by {apart:.3g}"
        fix = "write it so that exchanging u and v changes nothing, e.g. the cross terms both ways round"
        raise DescriptionError(f"increment of {type(layer).__name__}", why, fix)
    return found


def _mean(h: Any) -> Any:
    return h.mean(-1, keepdim=True) if isinstance(h, Tensor) and h.ndim else h


@diffusion.rule(Dense, source="hayou-2022-infinite-depth, eq. 1", valid="Gaussian weights")
def dense(layer: Dense, x: Tensor, at: Setting) -> Tensor:
    """Rows drawn from N(0, weight_std**2 x x^T / n + bias_std**2): exact, without forming the weights."""
    increment_of(layer)  # refuses weights that are not Gaussian
    found = as_float(layer.weight_std) ** 2 * (x @ x.mT) / x.shape[-1] + as_float(layer.bias_std) ** 2
    features = layer.features
    outputs = features if isinstance(features, int) else resolve("diffusion", "features", features, at.width)
    return _rows(layer, found, outputs, at)


@diffusion.through(increment, source="hayou-2022-infinite-depth; derived (rows given the state are Gaussian and alike)")
def block(layer: Layer, x: Tensor, at: Setting) -> Tensor:
    """Rows drawn from N(0, C(x)), independent and alike."""
    if not bool((x * x).sum().isfinite()):
        raise _overflow(at)
    return _rows(layer, covariance(layer, x), x.shape[-1], at)


def _rows(layer: Layer, found: Tensor, outputs: int, at: Setting) -> Tensor:
    if not bool(found.isfinite().all()):
        raise _overflow(at)
    root, worst = factor(found)
    if worst < -INDEFINITE:
        why = f"its covariance is not positive semi-definite: a pivot is {worst:.3g} of its diagonal entry"
        fix = "check the signs and the cross terms; averages of products f(u) f(v) are positive semi-definite"
        raise DescriptionError(f"increment of {type(layer).__name__}", why, fix)
    return root @ at.normals(found.shape[-1], outputs)


def _overflow(at: Setting) -> InputError:
    why = f"the state overflows at depth {at.depth:g}"
    return InputError("diffusion", why, "use smaller weight_std or branch scales, or smaller inputs")


@diffusion.rule(*dict.fromkeys(act.NAMES.values()), act.Custom, source="definition")
def activation(layer: act.Activation, x: Tensor, at: Setting) -> Tensor:
    """The function, entry by entry."""
    function: Callable[..., Any] = family(layer).function
    return torch.from_numpy(function(x.numpy()))


@diffusion.rule(act.ShapedRelu, source="definition")
def shaped_relu(layer: act.ShapedRelu, x: Tensor, at: Setting) -> Tensor:
    """The two-slope ReLU of that width, entry by entry."""
    return activation(layer.at(at.width), x, at)


@diffusion.rule(RMSNorm, source="definition")
def rms_norm(layer: RMSNorm, x: Tensor, at: Setting) -> Tensor:
    """Unit mean square over the features; zero stays zero."""
    square = (x * x).mean(-1, keepdim=True) + layer.epsilon
    return x / torch.where(square > 0, square, 1.0).sqrt()


@diffusion.rule(LayerNorm, source="definition")
def layer_norm(layer: LayerNorm, x: Tensor, at: Setting) -> Tensor:
    """Zero mean, then unit mean square over the features."""
    return rms_norm(RMSNorm(layer.epsilon), x - x.mean(-1, keepdim=True), at)
