"""How much a noisy layer contracts information: upper bounds of strong data processing coefficients.

KL(P K || Q K) <= eta KL(P || Q) for every pair of laws P, Q of what enters the layer K; a bound of generalisation that
holds before the layer is multiplied by eta behind it, and by the product of them behind several.
"""

from __future__ import annotations

from math import erf, expm1, isfinite, log, sqrt
from numbers import Integral, Real
from typing import Any

from deeplimits.errors import InputError


def dropout(rate: float, units: int) -> float:
    """Return the coefficient of dropout, eta = 1 - rate**units: nothing is left only where every unit is dropped.

    It is attained by inputs all of whose units are equal.

    Args:
        rate: chance delta that a unit is dropped, 0 to 1.
        units: how many, dropped independently.

    Valid when: what enters has any law; units are set to zero, with or without a constant factor for the others.

    Raises:
        InputError: a rate outside [0, 1], or units that are no positive whole number.

    Source: he-2024-it-generalization (strong data processing of Dropout).

    Example:
        >>> dropout(0.5, 2)
        0.75
    """
    _chance("dropout", rate)
    _count("dropout", "units", units)
    return _one_minus_power(rate, units)


def drop_connect(rate: float, fan_in: int, fan_out: int) -> float:
    """Return a bound of the coefficient of DropConnect, eta <= 1 - rate**(fan_in fan_out).

    The output knows nothing of the input where every weight is dropped; elsewhere it may.

    Args:
        rate: chance delta that a weight is dropped, 0 to 1.
        fan_in: columns of the matrix, whose weights are dropped independently.
        fan_out: its rows.

    Valid when: the masks are fresh for every input, and the layer gives the masked matrix times its input.

    Raises:
        InputError: a rate outside [0, 1], or sizes that are no positive whole numbers.

    Source: derived (the output knows nothing of the input where every weight is dropped).

    Example:
        >>> drop_connect(0.5, 2, 1)
        0.75
    """
    _chance("drop_connect", rate)
    _count("drop_connect", "fan_in", fan_in)
    _count("drop_connect", "fan_out", fan_out)
    return _one_minus_power(rate, int(fan_in) * int(fan_out))


def gaussian_noise(bound: float, units: int, std: float) -> float:
    """Return a bound of the coefficient of added Gaussian noise, eta <= 1 - 2 Q(bound sqrt(units) / std).

    It is the total variation between the noisy outputs of two opposite corners of the cube of activations.

    Args:
        bound: largest modulus A of an activation.
        units: how many, d.
        std: of the noise in every unit.

    Valid when: |activation| <= bound in every unit (tanh: 1).

    Raises:
        InputError: a bound or std that is not a positive finite number, or units that are no positive whole number.

    Source: he-2024-it-generalization (strong data processing of Gaussian noise injection).

    Example:
        >>> round(gaussian_noise(1.0, 1, 2.0), 4)
        0.3829
    """
    _positive("gaussian_noise", "bound", bound)
    _count("gaussian_noise", "units", units)
    _positive("gaussian_noise", "std", std)
    return erf(bound / std * sqrt(units / 2))


def _one_minus_power(rate: float, power: int) -> float:
    return 1.0 if rate == 0 else -expm1(power * log(rate))


def _chance(where: str, rate: Any) -> None:
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 <= float(rate) <= 1:
        raise InputError(where, f"rate={rate!r} is no chance", "give a number from 0 to 1")


def _count(where: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(where, f"{name}={value!r} is no positive whole number", "give a number of units, such as 64")


def _positive(where: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not (isfinite(value) and float(value) > 0):
        raise InputError(where, f"{name}={value!r} is not a positive finite number", "give one, such as 1.0")
