"""Pairs of neurons that merge while their output weights run to plus and minus infinity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deeplimits.diagnostics.channel_record import Channel, Channels
from deeplimits.diagnostics.given import finite_matrix
from deeplimits.diagnostics.hidden_layer import hidden_layer, read_by
from deeplimits.errors import InputError

WHERE = "channels"
COSINE = 0.99
ROOM = 2**27
"""Most numbers in one array of all pairs."""


def channels(
    network: nn.Module | Sequence[Any],
    inputs: Any = None,
    *,
    activation: Callable[[Tensor], Tensor] | None = None,
    layers: tuple[str, str] | None = None,
    cosine: float = COSINE,
) -> Channels:
    """Find pairs of neurons that merge while their output weights grow with opposite signs.

    A pair (i, j) is a channel where cos(w_i, w_j) > `cosine`, |w_i - w_j| / |w| is no more than that angle's chord,
    and a_i . a_j < 0. Signs of neurons of an odd activation, (w, a) -> (-w, -a), or of an even one, (w, a) -> (-w, a),
    are made equal first, and lengths of homogeneous ones (ReLU), |w| = 1. One look finds candidates: along a channel
    `difference` grows from look to look in the course of training, while `scale` and `slope` settle.

    Args:
        network: a module with a linear layer, an activation and a linear layer that reads it; or weights
            (w, a) or (w, a, b) of a hidden layer: w (n, d), a (C, n) or (n,), b (n,) the hidden biases.
        inputs: of the module, as one tensor, a tuple or a dict; with weights, (N, d): the error of replacing each pair
            is measured on them.
        activation: of every neuron, as `torch.tanh`; needed with weights. For a module, None takes what stands
            between the two layers of an `nn.Sequential`.
        layers: names of the two linear layers; None for the last such pair of an `nn.Sequential`.
        cosine: the least cosine of a pair, below 1.

    Returns:
        `Channels`, nearest pair first.

    Valid when: the activation is differentiable near the neurons' preactivations; for the error of order |w_i - w_j|^2,
    three times so.

    Raises:
        InputError: layers that do not follow each other, no activation, or numbers that are not finite.

    Source: martinelli-2025-channels-to-infinity.

    Example:
        >>> w, a = torch.tensor([[1.0, 0.5], [-1.01, -0.5], [0.3, -2.0]]), torch.tensor([30.0, 29.0, 1.0])
        >>> found = channels((w, a), torch.randn(100, 2), activation=torch.tanh)
        >>> found.parity, found[0].units, round(found[0].difference, 3), found[0].error < 1e-2
        ('odd', (0, 1), 59.0, True)
    """
    if isinstance(cosine, bool) or not isinstance(cosine, int | float) or not 0 < cosine < 1:
        raise InputError(WHERE, f"cosine={cosine!r}", f"give a number between 0 and 1; {COSINE} is usual")
    w, a, phi, read = _given(network, inputs, activation, layers)
    parity, homogeneous = _parity(phi), _homogeneous(phi)
    if homogeneous:
        sizes = np.linalg.norm(w, axis=1)
        sizes[sizes == 0] = 1.0
        w, a = w / sizes[:, None], a * sizes
    if len(w) ** 2 > ROOM:
        raise InputError(WHERE, f"{len(w)} neurons make too many pairs", f"look at {int(ROOM**0.5)} or fewer at once")
    output = None if read is None else _values(phi, read @ w.T)[0] @ a.T
    found = [_channel(*pair, w, a, phi, read, output) for pair in _pairs(w, a, parity, cosine)]
    return Channels(tuple(found), len(w), float(cosine), {1: "even", -1: "odd", 0: "none"}[parity])


def _pairs(w: np.ndarray, a: np.ndarray, parity: int, least: float) -> list[tuple[int, int, int]]:
    """Return (i, j, sign of w_j) of the channels, nearest first."""
    sizes = np.linalg.norm(w, axis=1)
    unit = w / np.where(sizes > 0, sizes, 1.0)[:, None]
    cosines = unit @ unit.T
    signs = np.where((cosines < 0) & (parity != 0), -1.0, 1.0)
    towards = a / np.maximum(np.linalg.norm(a, axis=0), 1e-300)
    opposed = (towards.T @ towards) * np.where(signs < 0, parity, 1) < 0
    rows, columns = np.nonzero(np.triu((signs * cosines > least) & opposed, 1))
    pairs = [(int(i), int(j), int(signs[i, j])) for i, j in zip(rows, columns, strict=True)]
    pairs = [pair for pair in pairs if _gap(w, *pair) <= (2 - 2 * least) ** 0.5]
    return sorted(pairs, key=lambda pair: _gap(w, *pair))


def _gap(w: np.ndarray, i: int, j: int, sign: int) -> float:
    return float(np.linalg.norm(w[i] - sign * w[j]) / np.linalg.norm(w[i] + sign * w[j]) * 2)


def _channel(
    i: int, j: int, sign: int, w: np.ndarray, a: np.ndarray, phi: Callable[[Tensor], Tensor],
    read: np.ndarray | None, output: np.ndarray | None,
) -> Channel:  # fmt: skip
    first, second = w[i], sign * w[j]
    own, other = a[:, i], a[:, j] * (_parity(phi) if sign < 0 else 1)
    scale, direction = own + other, (first + second) / 2
    slope = np.outer(own - other, (first - second) / 2)
    gap = _gap(w, i, j, sign)
    error = relative = None
    if read is not None and output is not None:
        value, derivative = _values(phi, read @ direction)
        unit = np.outer(value, scale) + derivative[:, None] * (read @ slope.T)
        pair = np.outer(_values(phi, read @ first)[0], own) + np.outer(_values(phi, read @ second)[0], other)
        error, whole = float(np.sqrt(np.mean((pair - unit) ** 2))), float(np.sqrt(np.mean(output**2)))
        relative = error / whole if whole > 0 else None
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    sizes = float(np.linalg.norm(own - other)), float(np.linalg.norm(scale))
    return Channel((i, j), cosine, gap, *sizes, scale, direction, slope, error, relative)


def _values(phi: Callable[[Tensor], Tensor], u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return phi(u) and phi'(u)."""
    x = torch.tensor(u, dtype=torch.float64, requires_grad=True)
    try:
        with torch.enable_grad():
            y = phi(x)
    except (RuntimeError, TypeError, ValueError) as error:
        why = f"activation={phi!r} fails on float64 numbers ({error})"
        raise InputError(WHERE, why, "give an elementwise function of a tensor") from error
    if not isinstance(y, Tensor) or y.shape != x.shape:
        raise InputError(WHERE, f"activation={phi!r} does not keep shapes", "give an elementwise function of a tensor")
    derivative = torch.autograd.grad(y.sum(), x)[0] if y.requires_grad else torch.zeros_like(x)
    return y.detach().numpy(), derivative.numpy()


def _grid(phi: Callable[[Tensor], Tensor], factor: float) -> tuple[np.ndarray, np.ndarray, float]:
    z = np.linspace(0.05, 4.0, 80)
    one, other = _values(phi, z)[0], _values(phi, factor * z)[0]
    return one, other, 1e-12 * float(np.abs(one).max() + np.abs(other).max())


def _parity(phi: Callable[[Tensor], Tensor]) -> int:
    one, other, rounding = _grid(phi, -1.0)
    return next((sign for sign in (1, -1) if np.abs(other - sign * one).max() <= rounding), 0)


def _homogeneous(phi: Callable[[Tensor], Tensor]) -> bool:
    scaled = [_grid(phi, sign * 2.0) for sign in (1.0, -1.0)]
    plain = _grid(phi, -1.0)
    right = np.abs(scaled[0][1] - 2 * scaled[0][0]).max() <= scaled[0][2]
    return bool(right and np.abs(scaled[1][1] - 2 * plain[1]).max() <= scaled[1][2])


def _given(
    network: Any, inputs: Any, activation: Callable[[Tensor], Tensor] | None, layers: tuple[str, str] | None
) -> tuple[np.ndarray, np.ndarray, Callable[[Tensor], Tensor], np.ndarray | None]:
    """Return hidden weights with biases as a last column, output weights, activation, and what the layer reads."""
    if isinstance(network, nn.Module):
        first, second, phi = hidden_layer(network, activation, layers)
        parts: list[Any] = [first.weight, second.weight] + ([] if first.bias is None else [first.bias])
        read = None if inputs is None else read_by(network, first, inputs)
    else:
        if not isinstance(network, list | tuple) or len(network) not in (2, 3):
            raise InputError(WHERE, f"a {type(network).__name__}", "give a module, or weights (w, a) or (w, a, b)")
        if layers is not None:
            raise InputError(WHERE, f"layers={layers!r} beside weights", "leave layers out, or give the module")
        if activation is None:
            raise InputError(WHERE, "weights without an activation", "give activation=torch.tanh, or another")
        parts, phi, read = list(network), activation, inputs
    if not callable(phi):
        raise InputError(WHERE, f"activation={phi!r}", "give a function of a tensor, as torch.tanh, or a module")
    w, a = finite_matrix(parts[0], WHERE, "input weights"), _rows(parts[1], "output weights")
    read = None if read is None else finite_matrix(read, WHERE, "inputs")
    if a.shape[1] != len(w):
        raise InputError(WHERE, f"output weights {a.shape} for {len(w)} neurons", "give a (C, n) or (n,)")
    if read is not None and read.shape[1] != w.shape[1]:
        raise InputError(WHERE, f"inputs {read.shape} for weights {w.shape}", "give inputs (N, d)")
    if len(parts) == 3 and parts[2] is not None:
        b = _rows(parts[2], "biases")
        if b.shape != (1, len(w)):
            raise InputError(WHERE, f"biases {b.shape} for {len(w)} neurons", "give one number a neuron")
        w = np.hstack([w, b.T])
        read = None if read is None else np.hstack([read, np.ones((len(read), 1))])
    return w, a, phi, read


def _rows(given: Any, name: str) -> np.ndarray:
    """Return (C, n) of (C, n) or (n,)."""
    flat = given.dim() == 1 if isinstance(given, Tensor) else np.ndim(given) == 1
    return finite_matrix((given[None] if isinstance(given, Tensor) else [given]) if flat else given, WHERE, name)
