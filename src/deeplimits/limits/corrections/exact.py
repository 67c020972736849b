"""How the kernel of one input fluctuates, exactly at every width, in networks that scale with their input."""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, log1p
from typing import Any

import numpy as np

from deeplimits.architecture.activation import activation as named
from deeplimits.architecture.size import whole
from deeplimits.errors import DescriptionError, InputError
from deeplimits.limits.kernel.activation import family
from deeplimits.numerics.gaussian.products import Pairs, products

WHERE = "relative_variance"


def relative_variance(activation: Any, widths: Sequence[int]) -> float:
    """Return Var(K) / (E K)^2 of the kernel K = |phi(h)|^2 / n of one input over perceptrons, exactly.

    product over hidden layers l of (1 + (kappa - 1) / n_l), minus 1, kappa = <phi^4> / <phi^2>^2: 5 / n_l for ReLU and
    2 / n_l for the identity. The mean of K, and that of the NTK, are those of infinite width at every width.

    Args:
        activation: of degree one, phi(t x) = t phi(x) for t > 0: identity, ReLU, leaky ReLU, abs.
        widths: of the hidden layers.

    Valid when: Gaussian weights, no biases, features that enter the readout.

    Raises:
        DescriptionError: another activation.
        InputError: no widths, or one that is not a whole number.

    Source: hanin-nica-2019 (products of independent factors); derived (the factor).

    Example:
        >>> [round(128 * relative_variance(name, [128] * 7), 2) for name in ("relu", "identity")]
        [39.38, 14.67]
    """
    phi = family(named(activation))
    if phi.homogeneous != 1:
        why = f"{activation!r} does not scale with its input"
        raise DescriptionError(
            WHERE, why, "use identity, relu, leaky_relu or abs; for others dl.kernel(corrections=True)"
        )
    if isinstance(widths, str) or not isinstance(widths, Sequence | np.ndarray) or not len(widths):
        raise InputError(WHERE, f"widths={widths!r}", "give the width of every hidden layer, e.g. [128] * 8")
    one = Pairs(np.ones(1), np.array([0]), np.array([0]), np.zeros(1))
    given = products(phi, one)
    excess = float((given.of((4, 0)) / given.of((2, 0)) ** 2)[0]) - 1
    return expm1(sum(log1p(excess / whole(WHERE, "widths", width)) for width in widths))
