"""How the norm of a wide ReLU residual network fluctuates."""

from __future__ import annotations

from math import acos, exp, log, pi

import numpy as np

from deeplimits.errors import InputError

NODES = 64


def norm_fluctuation(time: float) -> float:
    """Return V = lim n Var(q_t / E q_t) over networks of width n, q_t = |Y_t|^2/n, of a ReLU residual network.

    V(t) = 2 + 4 (1 - e^(-t/2)) + I(t), I(t) = 16 int_0^X tan x [J_2(x)/(2 pi) - 1/4] (t/2 + 2 log cos x) dx with
    cos X = e^(-t/4) and J_2(x) = 3 sin x cos x + (pi - x)(1 + 2 cos^2 x). The 2 is the read-in's. Each neuron is a
    Brownian motion on the common clock |phi(Y)|^2/n, linearised about its mean.

    Args:
        time: layer time, the sum of the squared branch scales times weight_std^2.

    Valid when: one dense layer a branch, no biases, Gaussian read-in and branch weights, depth and then width to
        infinity or together in any ratio.

    Raises:
        InputError: a negative or non-finite time.

    Source: hayou-yang-2023-commute (the family and its limit); the constant is derived.

    Example:
        >>> round(norm_fluctuation(0.0), 6), round(norm_fluctuation(1.0), 4), round(norm_fluctuation(1.0) ** 0.5, 3)
        (2.0, 4.6753, 2.162)
    """
    time = float(time)
    if not 0.0 <= time < float("inf"):
        fix = "give the sum of the squared branch scales, such as 1.0"
        raise InputError("norm_fluctuation", f"time={time} is not a layer time", fix)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    end = acos(exp(-time / 4))
    x = end * (nodes + 1) / 2
    second = 3 * np.sin(x) * np.cos(x) + (pi - x) * (1 + 2 * np.cos(x) ** 2)
    integrand = np.tan(x) * (second / (2 * pi) - 0.25) * (time / 2 + 2 * np.log(np.cos(x)))
    integral = 16 * float(weights @ integrand) * end / 2
    return 2 + 4 * (1 - exp(-time / 2)) + integral


def relative_spread(time: float) -> float:
    """Return lim sqrt(n) std(q_t) / q_0 of the same networks: e^(t weight_std^2 / 2) sqrt(V).

    Valid when: as for `norm_fluctuation`.

    Source: hayou-yang-2023-commute (the family and its limit); the constant is derived.

    Example:
        >>> round(relative_spread(1.0), 3)
        3.565
    """
    return exp(time / 2 + log(norm_fluctuation(time)) / 2)
