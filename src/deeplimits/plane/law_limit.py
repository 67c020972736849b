"""Samples of a random limit, and of networks, as numbers whose laws can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.layer import Layer
from deeplimits.errors import InputError, NoLimit

Array = NDArray[np.float64]
ACCURACY = 0.02
DIGITS = 12


@dataclass(frozen=True, eq=False)
class Limit:
    """The limit's samples.

    Attributes:
        values: {statistic: (samples,)}.
        angles: where correlations tend to one, what gives depth^2 (1 - c) of networks, their Gram matrices and depth.
        gain: factor of q in each layer, divided out.
        dead, exploded: samples left out.
        text: which limit, in words.
    """

    values: dict[str, Array]
    angles: Callable[[Array, int], Array] | None
    gain: float
    dead: int
    exploded: int
    text: str


def top_edge(net: Layer, inputs: Array, width: int, samples: int, seed: int) -> Limit:
    """Return the law at fixed width and infinite depth.

    Raises:
        NoLimit: there is none.
    """
    from deeplimits.limits.diffusion.ask import diffusion

    found = diffusion(net, inputs, width=width, depth=inf, samples=samples, seed=seed, accuracy=ACCURACY)
    zero = np.flatnonzero((np.diagonal(found.gram, axis1=1, axis2=2) == 0).all(0))
    if len(zero):
        why = f"input {zero[0]} of X has only zeros, and so have its features: log q is minus infinity"
        raise InputError("compare", why, "give inputs that are not zero")
    values, dead = statistics(found.gram)
    return Limit(values, None, 1.0, dead, 0, found.describe())


def diagonal(net: Layer, inputs: Array, ratio: float, samples: int, seed: int) -> Limit:
    """Return the law at infinite width and depth, depth = ratio * width.

    Raises:
        NoLimit: there is none, or it is deterministic.
    """
    from deeplimits.limits.proportional.ask import proportional

    found = proportional(net, inputs, ratio=ratio, samples=samples, seed=seed, times=(0.0, 1.0))
    if found.samples < 2 or not np.ptp(found.path[-1], axis=0).any():
        fix = "compare it on a grid: depths=[...] in place of ratio tells how fast networks concentrate on it"
        raise NoLimit("compare(ratio=)", f"the limit is no random law: {found.describe()}", fix)
    values, dead = statistics(found.path[-1])
    if found.angles is not None:
        values = {name: value for name, value in values.items() if name.startswith("log q")}
        values |= _apart(found.angles[-1])
    return Limit(
        values, None if found.angles is None else found.angles_of, found.gain, dead, found.exploded, found.describe()
    )


def networks(gram: Array, depth: int, limit: Limit) -> tuple[dict[str, Array], int]:
    """Return the limit's statistics of sampled networks, {statistic: (networks,)}, and how many were dead."""
    values, dead = statistics(gram)
    values = {n: v - depth * log(limit.gain) if n.startswith("log q") else v for n, v in values.items()}
    if limit.angles is not None:
        values = {name: value for name, value in values.items() if name.startswith("log q")}
        values |= _apart(limit.angles(gram[_alive(gram)], depth))
    return values, dead


def statistics(gram: Array) -> tuple[dict[str, Array], int]:
    """Return log q of every input and its correlation c with the first, of Gram matrices (S, k, k) of live networks.

    Example:
        >>> values, dead = statistics(np.array([[[1.0, 0.5], [0.5, 1.0]], [[0.0, 0.0], [0.0, 1.0]]]))
        >>> {name: value.tolist() for name, value in values.items()}, dead
        ({'log q[0]': [0.0], 'log q[1]': [0.0], 'c[0,1]': [0.5]}, 1)
    """
    alive = _alive(gram)
    q = np.diagonal(gram, axis1=1, axis2=2)[alive]
    values = {f"log q[{a}]": np.log(q[:, a]) for a in range(q.shape[1])}
    for a in range(1, q.shape[1]):
        values[f"c[0,{a}]"] = np.round(gram[alive, 0, a] / np.sqrt(q[:, 0] * q[:, a]), DIGITS)
    return values, int((~alive).sum())


def _alive(gram: Array) -> NDArray[np.bool_]:
    return np.all(np.diagonal(gram, axis1=1, axis2=2) > 0, axis=1)


def _apart(distance: Array) -> dict[str, Array]:
    """Return the logarithms of L^2 (1 - c) of every input with the first, 1e-12 at least."""
    tiny = 10.0**-DIGITS
    return {f"log L^2(1-c[0,{a}])": np.log(np.maximum(distance[:, 0, a], tiny)) for a in range(1, distance.shape[1])}
