"""One input: how its kernels at width n differ from their limits, layer by layer, to first order in 1/n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deeplimits.limits.corrections.layer import DenseLayer
from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.products import Pairs, products

Array = NDArray[np.float64]
SQUARE, SLOPE_SQUARE = (2, 0), (0, 2)


@dataclass(frozen=True, eq=False)
class SingleState:
    """Preactivations z and their NTK Theta_ij in one layer, for each of N inputs; all arrays (N,).

    Neurons 1 and 2 are different.

    Attributes:
        k: K = lim E z^2.
        h: H = lim E Theta_11.
        k_shift: G1 = n (E z^2 - K).
        h_shift: H1 = n (E Theta_11 - H).
        v: V = n Cov(z_1^2, z_2^2); the excess kurtosis of z is 3 V / (n K^2).
        d: D = n Cov(Theta_11, z_2^2).
        f: F = n E[Theta_12 z_1 z_2].
        a: A = n Cov(Theta_11, Theta_22).
        b: B = n E[Theta_12^2].
        error: largest relative error of the Gaussian expectations so far.
    """

    k: Array
    h: Array
    k_shift: Array
    h_shift: Array
    v: Array
    d: Array
    f: Array
    a: Array
    b: Array
    error: float = 0.0

    @property
    def h_variance(self) -> Array:
        """n Var(Theta_11) = A + 2 B."""
        return self.a + 2 * self.b


def first_layer(layer: DenseLayer, square: Array) -> SingleState:
    """Return the state above the inputs, square = |x|^2/d: exact, but for the sphere an orthogonal layer maps to.

    Example:
        >>> first_layer(DenseLayer(2.0), np.array([1.0])).k
        array([2.])
    """
    k, zero = layer.weight * square + layer.bias, np.zeros_like(square)
    v = -2 * (layer.weight * square) ** 2 if layer.orthogonal else zero
    return SingleState(k, k, zero, zero, v, zero, zero, zero, zero)


def next_layer(family: Family, layer: DenseLayer, state: SingleState) -> SingleState:
    """Return the state one activation and one dense layer further.

    With C the weights' variance, <.> over z ~ N(0, K), ' = d/dK, s = <phi^2>, p = <phi'^2>, c = <phi^2 phi'^2>:

    K' = C s + b, H' = C s + b + C p H, T = C s' + C H p',
    V' = C^2 (<phi^4> - s^2) + (C s')^2 V, G1' = C s' G1 + C s'' V / 2, F' = C^2 H c + (C s')^2 F,
    D' = C^2 [<phi^4> - s^2 + H (c - s p)] + C s' T V + C^2 s' p D, B' = C^2 H^2 <phi'^4> + (C p)^2 B,
    A' = C^2 [<phi^4> - s^2 + 2 H (c - s p) + H^2 (<phi'^4> - p^2)] + T^2 V + 2 C p T D + (C p)^2 A,
    H1' = C (s' G1 + s'' V / 2) + C p H1 + C p' (D + 2 F) + C H (p' G1 + p'' V / 2).

    Orthogonal W: V' - 2 (C s)^2, F' - C^2 H s p, B' - (C H p)^2.

    Source: guillen-2025-feynman-ntk; day-2023-orthogonal-weights (what they compute); derived (the equations).

    Example:
        >>> from deeplimits.numerics.gaussian.rectified import RectifiedPower
        >>> relu, dense = RectifiedPower(1, 1.0, 0.0), DenseLayer(2.0)
        >>> found = next_layer(relu, dense, first_layer(dense, np.array([0.5])))
        >>> [round(float(x[0]), 12) for x in (found.k, found.h, found.v, found.h_shift)]
        [1.0, 2.0, 5.0, 0.0]
    """
    n = np.arange(len(state.k))
    mean = products(family, Pairs(state.k, n, n, 0 * state.k))
    weight, h, v = layer.weight, state.h, state.v
    s, slope, bend = _along(mean.of, SQUARE)
    p, p_slope, p_bend = _along(mean.of, SLOPE_SQUARE)
    fourth, mixed, slope_fourth = mean.of((4, 0)), mean.of((2, 2)), mean.of((0, 4))
    kick = weight * (slope + h * p_slope)
    across, gain = weight * slope, weight * p
    first, second, third = fourth - s**2, mixed - s * p, slope_fourth - p**2
    k_shift = slope * state.k_shift + bend * v / 2
    p_shift = p_slope * state.k_shift + p_bend * v / 2
    square = weight**2
    haar = square * layer.orthogonal
    return SingleState(
        k=weight * s + layer.bias,
        h=weight * s + layer.bias + gain * h,
        k_shift=weight * k_shift,
        h_shift=weight * (k_shift + h * p_shift + p_slope * (state.d + 2 * state.f)) + gain * state.h_shift,
        v=square * first + across**2 * v - 2 * haar * s**2,
        d=square * (first + h * second) + across * kick * v + across * gain * state.d,
        f=square * h * mixed + across**2 * state.f - haar * h * s * p,
        a=square * (first + 2 * h * second + h**2 * third) + kick**2 * v + 2 * gain * kick * state.d
        + gain**2 * state.a,
        b=square * h**2 * slope_fourth + gain**2 * state.b - haar * (h * p) ** 2,
        error=max(state.error, mean.error()),
    )  # fmt: skip


def single(family: Family, layers: Sequence[DenseLayer], square: Array) -> list[SingleState]:
    """Return the states of all layers, the readout's last.

    Args:
        family: the activation.
        layers: the dense layers, first to last; between two of them stands the activation.
        square: |x|^2/d of each input, shape (N,), positive.

    Example:
        >>> from deeplimits.numerics.gaussian.linear import Linear
        >>> states = single(Linear(), [DenseLayer(1.0)] * 5, np.ones(1))
        >>> [float(state.v[0].round(12)) for state in states]
        [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    states = [first_layer(layers[0], square)]
    for layer in layers[1:]:
        states.append(next_layer(family, layer, states[-1]))
    return states


def _along(of: Callable[..., Array], powers: tuple[int, int]) -> tuple[Array, Array, Array]:
    """Return <f> and its first two derivatives in K: <f>, <f''> / 2, <f''''> / 4."""
    return of(powers), of(powers, a=2) / 2, of(powers, a=4) / 4
