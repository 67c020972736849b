"""Activations whose infinitely deep classifier is consistent on a sphere of given dimension."""

from __future__ import annotations

from math import factorial, sqrt
from typing import Any

import numpy as np

from deeplimits.architecture.activation import Polynomial
from deeplimits.architecture.size import whole
from deeplimits.errors import InputError

MOST = 128


def optimal_activation(dimension: Any) -> Polynomial:
    """Return an activation whose singular kernel has exponent alpha equal to the dimension of the sphere.

    d = 1: (h_1 + h_7) / sqrt(2); d >= 2: 2**(-d/4) (h_1 + h_3) + sqrt(1 - 2**(1 - d/2)) h_2, with h_k the normalised
    Hermite polynomials; alpha = -4 log(E phi') / log(E phi'^2) = d.

    Args:
        dimension: intrinsic dimension d of the data's sphere S^d, a whole number from 1 to 128; points of R^k scaled
            to norm one lie on S^(k-1), or on a sphere of smaller dimension.

    Valid when: unit inputs with nonnegative coordinates, no biases, depth to infinity; then the classifier converges to
        the Bayes rule with the number of inputs, whatever their law.

    Raises:
        InputError: not a whole number, below 1 or above 128.

    Source: radhakrishnan-2022-wide-deep-optimal.

    Example:
        >>> np.round(optimal_activation(2).coefficients, 4)
        array([ 0.    , -0.1589,  0.    ,  0.2887])
    """
    d = whole("optimal_activation", "dimension", dimension)
    if d > MOST:
        why = f"dimension={d} makes the kernel of all but the nearest inputs smaller than any number of float64"
        raise InputError(
            "optimal_activation", why, f"give the intrinsic dimension, at most {MOST}, or dl.act.Hermite(2)"
        )
    if d == 1:
        weights = {1: sqrt(0.5), 7: sqrt(0.5)}
    else:
        weights = {1: 2 ** (-d / 4), 2: sqrt(1 - 2 ** (1 - d / 2)), 3: 2 ** (-d / 4)}
    hermite = np.zeros(1 + max(weights))
    for k, weight in weights.items():
        hermite[k] = weight / sqrt(factorial(k))
    return Polynomial(tuple(float(c) for c in np.polynomial.hermite_e.herme2poly(hermite)))
