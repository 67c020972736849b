"""How far every input may move, coordinate by coordinate, before a kernel machine can change its class.

Two-layer ReLU networks without biases have the kernels Theta(x, x') = s |x| |x'| h(u) / d, u the cosine between x and
x', s = (weight_std readout_std)^2 / (2 pi), with h(u) = 2 u (pi - arccos u) + sqrt(1 - u^2) for the NTK and
u (pi - arccos u) + sqrt(1 - u^2) for the NNGP kernel. When no coordinate of x moves by more than delta, |x| stays
within sqrt(d) delta, and x.x' within sqrt(d) delta |x'|_2 (Cauchy-Schwarz), or within delta |x'|_1 (Hoelder: never
more). That bounds u, h and Theta from both sides, for each training row on its own, and so the output.

Source: chen-2021-nn-svm for the bounds by Cauchy-Schwarz; those by Hoelder are derived.
"""

from __future__ import annotations

from functools import cache
from math import acos, isfinite, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.activation import Relu
from deeplimits.architecture.compose import depends_on_depth, expand
from deeplimits.architecture.dense import Dense
from deeplimits.errors import DescriptionError

Array = NDArray[np.float64]
NORMS = ("l1", "l2")
HALVINGS = 60
ENTRIES = 2_000_000  # of one block of rows and training rows


def strength(where: str, net: Any, depth: float | None) -> float:
    """Return s of a two-layer ReLU network without biases.

    Args:
        where: named in errors.
        net: the description.
        depth: what DEPTH stands for.

    Raises:
        DescriptionError: any other network.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> round(strength("here", Mlp("relu"), 1) * pi, 6)
        1.0
    """
    open_depth = depends_on_depth(net)
    known = depth is not None and isfinite(depth)
    layers = expand(net, int(depth or 1)).layers if known or not open_depth else ()  # type: ignore[attr-defined]
    match layers:
        case (Dense() as hidden, Relu(), Dense() as readout):
            if not (float(hidden.bias_std) or float(readout.bias_std)):
                return float(hidden.weight_std * readout.weight_std) ** 2 / (2 * pi)
            why = f"bias_std={float(hidden.bias_std):g} in the hidden layer, {float(readout.bias_std):g} in the readout"
        case ():
            why = f"depth={depth}"
        case _:
            why = "the network is " + " >> ".join(type(layer).__name__ for layer in layers[:6])
            why += f" ({len(layers)} layers)" * (len(layers) > 6)
    fix = "use dl.Mlp('relu') at depth=1; other kernels have no certificate here"
    raise DescriptionError(where, f"{why}, and certificates are of one hidden ReLU layer without biases", fix)


def radii(
    X: Array, rows: Array, weights: Array, strength: float, kind: str = "ntk", norm: str = "l1"
) -> tuple[Array, Array]:
    """Return the outputs f(x) = sum_i w_i Theta(x, x_i), and radii in the largest norm that keep their signs.

    Args:
        X: inputs, shape (M, d).
        rows: training rows x_i, shape (N, d).
        weights: w_i, shape (N,).
        strength: s.
        kind: "ntk" or "nngp".
        norm: of the training rows: "l1" (Hoelder) or "l2" (Cauchy-Schwarz, times sqrt(d)).

    Returns:
        f and the radii delta, shape (M,) each: f(x') has the sign of f(x) whenever max |x' - x| <= delta. 0 where f is.

    Valid when: rounding aside, always; radii are lower bounds, the more cautious the more rows carry weight.

    Source: chen-2021-nn-svm; derived.

    Example:
        >>> f, radius = radii(np.eye(2), np.eye(2), np.array([1.0, -1.0]), 1 / pi)
        >>> f.round(3).tolist(), radius.round(3).tolist()
        ([0.841, -0.841], [0.2, 0.2])
    """
    carried = (weights != 0) & rows.any(axis=1)
    rows, weights = rows[carried], weights[carried]
    size = max(1, ENTRIES // max(len(rows), 1))
    parts = [_radii(X[n : n + size], rows, weights, strength, kind, norm) for n in range(0, len(X), size)]
    outputs, found = (np.concatenate(part) for part in zip(*parts, strict=True))
    return outputs, found


def _radii(X: Array, rows: Array, weights: Array, strength: float, kind: str, norm: str) -> tuple[Array, Array]:
    scale = strength / X.shape[1] * np.linalg.norm(rows, axis=1)
    bounds = _Bounds(X, rows, kind, norm)
    outputs = bounds.between(np.zeros(len(X)))[0] @ (scale * weights)
    signed = np.sign(outputs)[:, None] * (scale * weights)
    low, high = np.zeros(len(X)), 2 * bounds.norms * (outputs != 0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        least, most = bounds.between(middle)
        keeps = np.einsum("mn,mn->m", signed, np.where(signed > 0, least, most)) > 0
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return outputs, low


class _Bounds:
    """Least and largest |x'| h(u') over the ball around each input, for each training row."""

    def __init__(self, X: Array, rows: Array, kind: str, norm: str):
        self.dots = X @ rows.T
        self.norms, self.lengths = np.linalg.norm(X, axis=1), np.linalg.norm(rows, axis=1)
        self.root = X.shape[1] ** 0.5
        self.reach = np.abs(rows).sum(axis=1) if norm == "l1" else self.root * self.lengths
        self.twice, self.lowest = (2.0, _lowest()) if kind == "ntk" else (1.0, (-1.0, 0.0))

    def between(self, radius: Array) -> tuple[Array, Array]:
        """Return both, shape (M, N), at a radius for each input, shape (M,)."""
        short = np.maximum(self.norms - self.root * radius, 0.0)[:, None]
        long = (self.norms + self.root * radius)[:, None]
        below, above = (self.dots + side * radius[:, None] * self.reach for side in (-1, 1))
        left = self._cosine(below, np.where(below >= 0, long, short))
        right = self._cosine(above, np.where(above >= 0, short, long))
        ends = self._height(left), self._height(right)
        place, value = self.lowest
        least = np.where((left <= place) & (place <= right), value, np.minimum(*ends))
        most = np.maximum(*ends)
        return least * np.where(least >= 0, short, long), most * np.where(most >= 0, long, short)

    def _cosine(self, dots: Array, lengths: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = dots / (self.lengths * lengths)
        return np.clip(np.where(np.isnan(found), 1.0, found), -1.0, 1.0)

    def _height(self, cosine: Array) -> Array:
        return self.twice * cosine * (pi - np.arccos(cosine)) + np.sqrt(1 - cosine**2)


@cache
def _lowest() -> tuple[float, float]:
    """Return where h of the NTK is least, and its value there."""
    from scipy.optimize import brentq

    found: Any = brentq(lambda u: 2 * (pi - acos(u)) + u / sqrt(1 - u * u), -0.9, -0.5, xtol=1e-15)
    u = float(found)
    return u, 2 * u * (pi - acos(u)) + sqrt(1 - u * u)
