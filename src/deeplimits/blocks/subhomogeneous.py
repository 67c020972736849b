"""Equilibrium layers with one fixed point and a known rate, whatever the size of the weights."""

from __future__ import annotations

from math import ceil, inf, log

import torch
from torch import Tensor, nn
from torch.nn import functional

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.blocks.equilibrium import Report, implicit
from deeplimits.blocks.iteration import FixedPoint, Map, fixed_point, tell
from deeplimits.blocks.subhomogeneity import activation as named
from deeplimits.blocks.subhomogeneity import degree, thompson
from deeplimits.errors import InputError, PrecisionError


class SubhomogeneousDeepEquilibrium(nn.Module):
    """z* = F(z*), F(z) = (phi(W z + b(x)) + shift)^power, with W = |V| >= 0 and b(x) = softplus(B x + c) > 0.

    F has the degree mu of its activation, see `degree`. Where mu < 1 there is exactly one positive fixed point, for
    any V, and plain iteration from any positive start contracts Thompson's distance d = max |log x - log y| by mu a
    step. The iteration stops where (mu d(z_k, z_(k-1)) + 2 eps)/(1 - mu) <= tolerance, a bound on d(z_k, z*) up to
    rounding eps: every entry is then right to that relative error. The backward equation contracts at the same rate,
    in the norm sum_j z*_j |u_j|.

    Args:
        features_in: of x.
        features: of z.
        activation: phi: "relu", "softplus", "sigmoid" or "tanh".
        shift: added to phi.
        power: of the sum: a power below 1/mu makes any activation of degree mu contract.
        weight: V at the start, (features, features); it must be >= 0. By default uniform on [0, 1/features].
        tolerance: relative error of each entry of z*, and of the gradient's residual.

    Valid when: mu < 1. Signs of weights: W is the absolute value, so training stays in the valid set; mixed signs
    would lose the bound (for them a sigmoid with power below 1/|W|_inf suffices: derived). Tolerances below
    2 eps/(1 - mu) cannot be reached, 2.4e-7/(1 - mu) in float32, and a ConvergenceWarning says so.

    Raises:
        InputError: a degree of 1 or more, weights of the wrong shape, sign or with NaN, an x that does not fit.
        PrecisionError: F(z) overflows or vanishes, as where the degree is near 1 and the weights are large.

    Source: sittoni-tudisco-2024-subhomogeneous-deq (existence, uniqueness, rate); the stopping bound and the backward
    rate: derived.

    Example:
        >>> layer = SubhomogeneousDeepEquilibrium(3, 8, activation="relu", power=0.5, weight=torch.full((8, 8), 16.0))
        >>> z = layer(torch.randn(5, 3))
        >>> z.shape, layer.degree, layer.forward_report.converged
        (torch.Size([5, 8]), 0.5, True)
    """

    def __init__(
        self,
        features_in: int,
        features: int,
        *,
        activation: str = "tanh",
        shift: float = 0.0,
        power: float = 0.5,
        weight: Tensor | None = None,
        tolerance: float = 1e-5,
    ):
        super().__init__()
        name = type(self).__name__
        columns, rows = whole(name, "features_in", features_in), whole(name, "features", features)
        self.activation, self.shift, self.power = activation, float(shift), power
        self.phi = named(name, activation).function
        self.degree = degree(activation, shift=shift, power=power)
        if not self.degree < 1:
            why = f"({activation} + {shift:g})^{power:g} has degree {self.degree:.4g}, which is not below 1"
            raise InputError(name, why, f"take a power below {power / self.degree:.4g}")
        self.tolerance = given.positive(name, "tolerance", tolerance, below=1.0)
        self.weight = nn.Parameter(torch.rand(rows, rows) / rows if weight is None else _weight(name, weight, rows))
        self.injection = nn.Linear(columns, rows)
        self.features = rows
        self.forward_report: Report | None = None
        self.backward_report: Report | None = None

    def block(self, z: Tensor, x: Tensor) -> Tensor:
        """Return F(z), (batch, features)."""
        inside = functional.linear(z, self.weight.abs(), functional.softplus(self.injection(x)))
        return (self.phi(inside) + self.shift) ** self.power

    def forward(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """Return z*, (batch, features), of x, (batch, features_in); `start` is any positive z, 1 by default.

        Raises:
            InputError: x or start of another shape, a start that is not positive.
        """
        name = type(self).__name__
        given.tensor(name, "x", x, features=self.injection.in_features, dimensions=2)
        begin = x.new_ones(len(x), self.features) if start is None else start
        given.tensor(name, "start", begin, features=self.features, dimensions=2)
        if len(begin) != len(x) or not bool((begin > 0).all()):
            why = f"start, {tuple(begin.shape)}, is as small as {float(begin.min()):.3g}" if len(begin) else "no start"
            raise InputError(name, why, f"give positive entries, {(len(x), self.features)}")
        with torch.no_grad():
            found = self._iterate(lambda z: self.block(z, x), begin)
        self.forward_report = Report(found.evaluations, found.worst, found.converged)
        tell(name, found, self.tolerance)
        return implicit(self, found.value, x)

    def _iterate(self, function: Map, z: Tensor) -> FixedPoint:
        """Return where plain iteration ends, with the bound on Thompson's distance to z* as its residual."""
        rounding, count, limit = 2 * torch.finfo(z.dtype).eps, 0, 1
        bound = z.new_full((len(z),), inf)
        while count < limit:
            image = self._within_range(function(z))
            gap = thompson(image, z)
            z, count, bound = image, count + 1, (self.degree * gap + rounding) / (1 - self.degree)
            if bool((bound <= self.tolerance).all()):
                return FixedPoint(z, bound, count, True)
            if bool((self.degree * gap <= rounding).all()):
                break
            if count == 1:
                limit = 2 + steps_needed(self.degree, float(gap.max()), self.tolerance)
        return FixedPoint(z, bound, count, False)

    def _within_range(self, image: Tensor) -> Tensor:
        """Return F(z) if the number format holds it: positive and finite."""
        wrong = ~((image > 0) & torch.isfinite(image))
        if bool(wrong.any()):
            index = tuple(int(i) for i in torch.nonzero(wrong)[0])
            why = f"F(z) has {float(image[index])} at {index}, beyond the range of {image.dtype} or spoilt by a weight"
            raise PrecisionError(type(self).__name__, why, "look for NaN in the weights, scale them, or take float64")
        return image

    def linear(self, transpose: Map, gradient: Tensor) -> FixedPoint:
        """Return u = J^T u + gradient by plain iteration, which contracts by the degree."""
        spread = 1e3 * len(gradient[0]) if len(gradient) else 1.0
        count = 10 + steps_needed(self.degree, spread, self.tolerance)
        return fixed_point(
            lambda u: transpose(u) + gradient, gradient, method="picard", tolerance=self.tolerance, iterations=count
        )

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}, shift={self.shift:g}, power={self.power:g}, degree={self.degree:.4g}"


def steps_needed(mu: float, first: float, tolerance: float) -> int:
    """Return how many steps bring a contraction within the tolerance: first mu^k / (1 - mu) <= tolerance.

    Args:
        mu: contraction factor of a step.
        first: distance of the first step.
        tolerance: asked for.

    Source: definition.

    Example:
        >>> steps_needed(0.5, 1.0, 1e-6)
        21
    """
    if first == 0 or mu == 0:
        return 1
    return max(1, ceil(log(tolerance * (1 - mu) / first) / log(mu)))


def _weight(where: str, weight: Tensor, features: int) -> Tensor:
    given.tensor(where, "weight", weight, features=features, dimensions=2)
    if weight.shape != (features, features):
        raise InputError(where, f"weight has shape {tuple(weight.shape)}", f"give {(features, features)}")
    if bool((weight < 0).any()):
        index = tuple(int(i) for i in torch.nonzero(weight < 0)[0])
        why = f"weight has {float(weight[index]):g} at {index}: signs are mixed"
        raise InputError(where, why, "give weights >= 0: the fixed point is then unique")
    return weight.detach().clone()
