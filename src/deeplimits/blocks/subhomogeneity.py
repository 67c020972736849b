"""Degrees of subhomogeneity of activations, and the distance in which subhomogeneous maps contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from numbers import Real
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import expit
from torch import Tensor

from deeplimits.blocks import given
from deeplimits.errors import InputError, nearest

Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Activation:
    """An activation phi, its derivative, the limits of u phi'/(phi + shift) at +infinity and of phi at -infinity."""

    function: Callable[[Tensor], Tensor]
    value: Curve
    slope: Curve
    far: float
    lowest: float


ACTIVATIONS = {
    "relu": Activation(torch.relu, lambda u: np.maximum(u, 0.0), lambda u: np.where(u > 0, 1.0, 0.0), 1.0, 0.0),
    "softplus": Activation(torch.nn.functional.softplus, lambda u: np.logaddexp(0.0, u), expit, 1.0, 0.0),
    "sigmoid": Activation(torch.sigmoid, expit, lambda u: expit(u) * expit(-u), 0.0, 0.0),
    "tanh": Activation(torch.tanh, np.tanh, lambda u: 4 * expit(2 * u) * expit(-2 * u), 0.0, -1.0),
}


def activation(where: str, name: str) -> Activation:
    """Return the activation of that name.

    Raises:
        InputError: an unknown name (the nearest are offered).
    """
    if name not in ACTIVATIONS:
        raise InputError(where, f"activation={name!r} is not known", nearest(str(name), ACTIVATIONS))
    return ACTIVATIONS[name]


def degree(name: str, *, shift: float = 0.0, power: float = 1.0, domain: str = "positive") -> float:
    """Return mu = power * sup |u phi'(u)| / (phi(u) + shift), the degree of u -> (phi(u) + shift)^power.

    A map z -> (phi(W z + b) + shift)^power with W >= 0 and b >= 0 has that degree: |J(z)| z <= mu F(z) entry by entry.
    With mu < 1 it has exactly one positive fixed point, whatever the size of W.

    Args:
        name: phi: "relu", "softplus", "sigmoid" or "tanh".
        shift: added to phi.
        power: of the sum; the degree is proportional to it.
        domain: "positive", where u >= 0, or "real".

    Returns:
        The degree, infinite where the ratio is unbounded. The largest ratio is found to 1e-10 by search over a grid.

    Raises:
        InputError: an unknown name or domain, a power that is not positive, or phi + shift not positive there.

    Source: sittoni-tudisco-2024-subhomogeneous-deq (condition); the values: derived.

    Example:
        >>> [round(degree(name), 4) for name in ("relu", "softplus", "sigmoid")]
        [1.0, 1.0, 0.2785]
        >>> [round(degree("tanh", shift=c, domain="real"), 4) for c in (1.05, 1.1, 1.2, 1.5)]
        [1.878, 1.4108, 0.9991, 0.569]
    """
    one = activation("degree", name)
    given.positive("degree", "power", power)
    if domain not in ("positive", "real"):
        raise InputError("degree", f"domain={domain!r} is not known", "use 'positive' (u >= 0) or 'real'")
    least = one.lowest if domain == "real" else float(one.value(np.zeros(())))
    attained = name == "relu" and domain == "real"
    if not isinstance(shift, Real) or not np.isfinite(shift) or least + shift < 0 or (attained and shift == 0):
        why = f"{name} + {shift} is not positive for {'all' if domain == 'real' else 'positive'} u"
        raise InputError("degree", why, f"take a shift above {-least:g}")
    if domain == "real" and least + shift == 0:
        return inf
    return power * _supremum(name, float(shift), domain)


@cache
def _supremum(name: str, shift: float, domain: str) -> float:
    one = ACTIVATIONS[name]
    grid = np.logspace(-8, 3, 4001)
    found = [one.far]
    for sign in (1.0,) if domain == "positive" else (1.0, -1.0):

        def ratio(u: np.ndarray, sign: float = sign) -> np.ndarray:
            return u * one.slope(sign * u) / (one.value(sign * u) + shift)

        ratios = ratio(grid)
        best = int(np.argmax(ratios))
        ends = np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, len(grid) - 1)])
        search: Any = minimize_scalar(lambda log, at=ratio: -at(np.exp(log)), bounds=ends, options={"xatol": 1e-12})
        found += [float(ratios[best]), -float(search.fun)]
    return max(found)


def thompson(x: Tensor, y: Tensor) -> Tensor:
    """Return Thompson's distance max_i |log x_i - log y_i| of positive vectors, over the last axis.

    A map of degree mu brings any two points closer by the factor mu at least; d <= e means that every entry
    agrees within the factor exp(e).

    Raises:
        InputError: an entry that is not positive.

    Source: thompson-1963.

    Example:
        >>> float(thompson(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 2.0])).exp())
        2.0
    """
    for name, z in (("x", x), ("y", y)):
        given.tensor("thompson", name, z)
        if not bool((z > 0).all()):
            index = tuple(int(i) for i in torch.nonzero(z <= 0)[0])
            raise InputError("thompson", f"{name} has {float(z[index])} at {index}", "give positive entries")
    return (x.log() - y.log()).abs().amax(dim=-1)


def measured_degree(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Return max_i sum_j |J_ij| z_j / F_i(z) of a positive map at a point: at most its degree, and so a lower bound.

    Args:
        function: F, from (features,) to (features,).
        z: a positive point, (features,).

    Source: sittoni-tudisco-2024-subhomogeneous-deq.

    Example:
        >>> round(float(measured_degree(torch.sqrt, torch.tensor([1.0, 4.0]))), 6)
        0.5
    """
    given.tensor("measured_degree", "z", z, dimensions=1)
    jacobian = torch.func.jacrev(function)(z)
    return ((jacobian.abs() @ z) / function(z)).max().detach()
