"""ReLU perceptrons without biases trained side by side, each with a learning rate of its own, and the edge of training.

Where all runs share a grid of learning rates, `transfer.side_by_side` trains any model; a bisection does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from deeplimits.errors import InputError

Trains = Callable[[np.ndarray], np.ndarray]
MOST = 30  # octaves


def cross_entropy(outputs: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of every network, (networks,), from its outputs (networks, rows, classes).

    Labels are the same for all, (rows,), or of every network, (networks, rows).
    """
    from torch.nn.functional import cross_entropy as of

    wanted = labels.expand(len(outputs), -1)
    return of(outputs.transpose(1, 2), wanted, reduction="none").mean(1)


def square(outputs: Any, labels: Any) -> Any:
    """Return half the mean squared distance of every network's outputs to the labels' unit vectors, (networks,)."""
    from torch.nn.functional import one_hot

    return 0.5 * (outputs - one_hot(labels, outputs.shape[-1])).square().sum(2).mean(1)


def drawn(widths: Sequence[int], networks: int, seed: int) -> list[Any]:
    """Return the weights of networks, (networks, out, in) a layer: N(0, 2/fan-in), the last layer N(0, 1/fan-in).

    Args:
        widths: of the input, the hidden layers and the output.
        networks: how many.
        seed: of all of them.

    Example:
        >>> [tuple(weight.shape) for weight in drawn([64, 32, 10], 3, seed=0)]
        [(3, 32, 64), (3, 10, 32)]
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    found = []
    for place, (fan_in, fan_out) in enumerate(pairwise(widths)):
        std = ((1 if place == len(widths) - 2 else 2) / fan_in) ** 0.5
        found.append((std * torch.randn(networks, fan_out, fan_in, generator=generator)).requires_grad_())
    return found


def layers(weights: Sequence[Any], inputs: Any) -> list[Any]:
    """Return what every layer gives, (networks, rows, out) each: pre-activations, and the outputs last."""
    import torch

    found = [torch.matmul(inputs, weights[0].mT)]
    for weight in weights[1:]:
        found.append(torch.matmul(torch.relu(found[-1]), weight.mT))
    return found


def descend(
    weights: Sequence[Any], rates: Any, loss: Callable[[Any, Any], Any], inputs: Any, labels: Any,
    factors: Sequence[float] | None = None,
) -> None:  # fmt: skip
    """Take a step of SGD in place.

    Args:
        weights: of `drawn`.
        rates: learning rate of every network, (networks,).
        loss: of outputs and labels, one number a network.
        inputs: the same for all, (rows, in), or of every network, (networks, rows, in).
        labels: likewise.
        factors: of the learning rate, layer by layer.
    """
    import torch

    found = torch.autograd.grad(loss(layers(weights, inputs)[-1], labels).sum(), list(weights))
    with torch.no_grad():
        for weight, gradient, factor in zip(weights, found, factors or [1.0] * len(weights), strict=True):
            weight.addcmul_(gradient, rates[:, None, None], value=-factor)


def rms(values: Any) -> Any:
    """Return the root mean square of every network's values, (networks,)."""
    return values.square().mean((1, 2)).sqrt()


def bisected(trains: Trains, low: Any, high: Any, networks: int, rounds: int) -> np.ndarray:
    """Return, for each network, log2 of the learning rate at which training starts to fail, between two others.

    Args:
        trains: of log2 learning rates (networks,), says which networks train.
        low: log2 of a rate at which all train, or one of each.
        high: log2 of a rate at which none does, or one of each.
        networks: how many.
        rounds: halvings; the answer is within (high - low) / 2^(rounds + 1).

    Example:
        >>> float(bisected(lambda x: x < 0.3, -4.0, 4.0, 1, 12).round(2)[0])
        0.3
    """
    below, above = np.broadcast_to(low, networks), np.broadcast_to(high, networks)
    for _ in range(rounds):
        middle = (below + above) / 2
        good = trains(middle)
        below, above = np.where(good, middle, below), np.where(good, above, middle)
    return (below + above) / 2


def edge(trains: Trains, near: float, networks: int, rounds: int = 3) -> np.ndarray:
    """Return, for each network, log2 of the learning rate at which training starts to fail.

    Octaves are tried one by one from `near`, upwards for networks that train there and downwards for the others, and
    the octave in which training fails is bisected.

    Args:
        trains: of log2 learning rates (networks,), says which networks train.
        near: where the search begins.
        networks: how many.
        rounds: halvings of the last octave; the answer is within 2^-(rounds + 1).

    Raises:
        InputError: a network trains, or fails, at all of the rates within 30 octaves.

    Example:
        >>> edge(lambda x: x < 0.3, -4.0, 2).round(2).tolist()
        [0.31, 0.31]
    """
    up = trains(np.full(networks, near))
    below, above = np.where(up, near, near - 1.0), np.where(up, near + 1.0, near)
    open_ = np.ones(networks, bool)
    for _ in range(MOST):
        good = trains(np.where(up, above, below))
        moves = open_ & (good == up)
        open_ = moves
        if not moves.any():
            break
        step = np.where(moves, np.where(up, 1.0, -1.0), 0.0)
        below, above = below + step, above + step
    if open_.any():
        why = f"{int(open_.sum())} of {networks} networks have no edge within {MOST} octaves of 2^{near:g}"
        raise InputError("claims", why, "train for more steps")
    return bisected(trains, below, above, networks, rounds)
