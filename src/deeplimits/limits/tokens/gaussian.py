"""Gaussian tokens: the drift that each kind of attention gives them, exactly, and how their variance moves."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from deeplimits.errors import InputError, NoLimit, nearest
from deeplimits.limits.tokens.inputs import Array, check_times, positive

KERNELS = ("sinkhorn", "distance", "dot")


def gaussian_slope(std: float, epsilon: float, kernel: str = "sinkhorn") -> float:
    """Return k of the drift (T x - x)/epsilon = k x that attention gives infinitely many tokens from N(0, std^2 I).

    With s = std: (c/s^2 - 1)/epsilon, c = sqrt(s^4 + epsilon^2/4) - epsilon/2, if doubly stochastic; -1/(s^2 + epsilon)
    for softmax of -|x - y|^2 / 2 epsilon; (s^2/epsilon - 1)/epsilon for softmax of <x, y> / epsilon.

    As epsilon falls to 0 they tend to -1/(2 s^2), half of grad log rho; to -1/s^2, all of it; and to infinity.

    Args:
        std: standard deviation s.
        epsilon: width of the kernel; 0 for the limit.
        kernel: "sinkhorn", "distance" or "dot".

    Raises:
        InputError: numbers that are not positive; another kernel.
        NoLimit: the limit of "dot", which is infinite.

    Source: derived; sander-2021-sinkformers (the limit).

    Example:
        >>> round(gaussian_slope(1.3, 0.1), 5), round(gaussian_slope(1.3, 0.0), 5)
        (-0.29148, -0.29586)
    """
    where = "gaussian_slope"
    std = positive(where, "std", std)
    if kernel not in KERNELS:
        raise InputError(where, f"there is no kernel {kernel!r}", nearest(str(kernel), KERNELS))
    epsilon = 0.0 if epsilon == 0 and not isinstance(epsilon, bool) else positive(where, "epsilon", epsilon)
    if kernel == "sinkhorn":
        ratio = epsilon / (2 * std**2)
        return (ratio / (sqrt(1 + ratio**2) + 1) - 1) / (2 * std**2)
    if kernel == "distance":
        return -1 / (std**2 + epsilon)
    if epsilon == 0:
        why = "softmax of <x, y> / epsilon pulls like x std^2 / epsilon^2: there is no limit as epsilon falls"
        raise NoLimit(where, why, "make the attention doubly stochastic, or use squared distances")
    return (std**2 / epsilon - 1) / epsilon


def gaussian_variance(std: float, epsilon: float, time: float | Sequence[float], value: float = -1.0) -> Array:
    """Return the variance of infinitely many Gaussian tokens that doubly stochastic attention moves, shape (T,).

    d s^2/dt = 2 value s^2 k(s), k of `gaussian_slope`; for epsilon = 0 it is s^2 - value t, for value -1 that of heat
    diffusion.

    Args:
        std: standard deviation at time 0.
        epsilon: width of the kernel; 0 for the limit.
        time: the last time, or rising times.
        value: v of V = v I.

    Raises:
        InputError: numbers or times that cannot be; variances that reach 0.

    Source: derived.

    Example:
        >>> gaussian_variance(1.0, 0.0, (0.0, 0.5)).tolist()
        [1.0, 1.5]
    """
    where = "gaussian_variance"
    gaussian_slope(std, epsilon)
    times = check_times(where, time, whole=False)
    if isinstance(value, bool) or not isinstance(value, float | int) or not -inf < value < inf:
        raise InputError(where, f"value={value!r} is not a finite number", "give e.g. value=-1.0")
    if epsilon == 0:
        found = std**2 - value * times
        if (found <= 0).any():
            why = f"the variance reaches 0 at time {std**2 / value:g}"
            raise InputError(where, why, "ask for earlier times, or for a positive epsilon")
        return found
    if times[-1] == 0:
        return np.full(1, std**2)
    rate: Any = lambda _, y: [2 * value * gaussian_slope(float(np.exp(y[0] / 2)), epsilon)]
    y = [2 * np.log(std)]
    return np.exp(solve_ivp(rate, (0.0, times[-1]), y, method="LSODA", t_eval=times, rtol=1e-11, atol=1e-11).y[0])
