"""Learning rates of lazy training: the largest stable one, and the best heavy ball."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh

from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, nearest
from deeplimits.limits.kernel.ask import kernel
from deeplimits.limits.training.lazy.dynamics import Dynamics, check_momentum, check_number
from deeplimits.limits.training.lazy.inputs import rows_of, trainable
from deeplimits.numerics.arrays import check_memory

KERNELS = {"all": "ntk", "readout": "nngp"}


@dataclass(frozen=True)
class HeavyBall:
    """The rate and the momentum at which the slowest mode is fastest.

    Attributes:
        rate: (2 / (sqrt(lowest) + sqrt(highest)))^2, on the loss (1/2) sum (f - y)^2.
        momentum: ((sqrt(highest) - sqrt(lowest)) / (sqrt(highest) + sqrt(lowest)))^2.
        factor: by which the error falls in a step, in the long run: sqrt(momentum).
    """

    rate: float
    momentum: float

    @property
    def factor(self) -> float:
        """Factor of the error in a step, in the long run."""
        return sqrt(self.momentum)


def max_learning_rate(
    net: Layer,
    X: Any,
    depth: float | None = None,
    momentum: float = 0.0,
    train: str = "all",
    ridge: float = 0.0,
) -> float:
    """Return the learning rate from which on training of infinitely wide networks diverges: 2 (1 + momentum) / top.

    top is the largest eigenvalue of the kernel that moves the outputs, plus the ridge. Rates are those of gradient
    descent on (1/2) sum (f - y)^2 over rows, in the NTK parametrization; for a mean over P rows multiply by P.

    A network of finite width that starts above it need not diverge: its loss grows until the kernel shrinks, and
    training goes on from there. What grows, is the loss of the first steps.

    Args:
        net: the description; it ends in a Dense readout.
        X: training inputs, shape (P, d).
        depth: what DEPTH stands for: a whole number or infinity.
        momentum: of the heavy ball, in [0, 1).
        train: "all" layers or the "readout" alone.
        ridge: of (ridge/2) |weights - weights at the start|^2, added to the loss.

    Valid when: widths go to infinity first; as for `dl.kernel`.

    Raises:
        InputError: data or numbers that cannot be used; inputs at which the kernel vanishes.

    Source: jacot-2018-ntk; lee-2019-wide, section 2; polyak-1964 (momentum).

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> round(max_learning_rate(Mlp("relu"), np.ones((1, 4)), depth=3), 12)
        0.5
    """
    where = "max_learning_rate"
    momentum, ridge = check_momentum(where, momentum), check_number(where, "ridge", ridge, least=0.0)
    top = spectrum(where, net, X, depth, train, lowest=False)[-1]
    if top + ridge <= 0:
        raise InputError(
            where, "the kernel vanishes at these inputs: no rate is too large", "give inputs that are not 0"
        )
    return 2 * (1 + momentum) / (top + ridge)


def heavy_ball(net: Layer, X: Any, depth: float | None = None, train: str = "all", ridge: float = 0.0) -> HeavyBall:
    """Return the rate and the momentum that train infinitely wide networks in the fewest steps, in the long run.

    Args:
        net: the description; it ends in a Dense readout.
        X: training inputs, shape (P, d).
        depth: what DEPTH stands for: a whole number or infinity.
        train: "all" layers or the "readout" alone.
        ridge: of (ridge/2) |weights - weights at the start|^2, added to the loss.

    Valid when: as for `max_learning_rate`; the slowest mode is what counts.

    Raises:
        InputError: data that cannot be used; inputs at which the kernel vanishes.

    Source: polyak-1964.

    Example:
        >>> from deeplimits.architecture.zoo import Mlp
        >>> ball = heavy_ball(Mlp("relu"), np.eye(3), depth=1)
        >>> bool(ball.factor < 1), bool(ball.rate < max_learning_rate(Mlp("relu"), np.eye(3), 1, ball.momentum))
        (True, True)
    """
    where = "heavy_ball"
    ridge = check_number(where, "ridge", ridge, least=0.0)
    values = spectrum(where, net, X, depth, train, lowest=True)
    low, high = (sqrt(max(value, 0.0) + ridge) for value in (values[0], values[-1]))
    if high <= 0:
        raise InputError(where, "the kernel vanishes at these inputs: nothing trains", "give inputs that are not 0")
    return HeavyBall((2 / (low + high)) ** 2, ((high - low) / (high + low)) ** 2)


def spectrum(where: str, net: Any, X: Any, depth: Any, train: Any, lowest: bool) -> list[float]:
    """Return eigenvalues of the kernel that moves the outputs: the largest, or all of them, rising."""
    if train not in KERNELS:
        raise DescriptionError(where, f"train={train!r}", nearest(str(train), KERNELS))
    rows = rows_of(where, "X", X)
    trainable(where, net)
    check_memory(where, 24 * len(rows) ** 2, f"the kernel of {len(rows)} rows", "give fewer rows")
    matrix = kernel(net, rows, depth=depth, get=KERNELS[train])
    part = None if lowest else [len(rows) - 1, len(rows) - 1]
    found = eigvalsh(matrix.T, subset_by_index=part, overwrite_a=True, check_finite=False)
    return np.asarray(found, dtype=np.float64).tolist()


def refuse_unstable(dynamics: Dynamics, top: float) -> None:
    """Refuse a rate at which training diverges.

    Args:
        dynamics: the rule.
        top: the largest eigenvalue.

    Raises:
        InputError: the rate is not below the largest stable one, which is named.
    """
    if dynamics.rate is None or dynamics.rate < (most := dynamics.largest_rate(top)):
        return
    momentum = "" if dynamics.momentum is None else f" with momentum={dynamics.momentum:g}"
    why = f"rate={dynamics.rate:g}{momentum} diverges: the largest eigenvalue of the kernel is {top:.6g}"
    fix = f"give a rate below {most:.6g}, the largest stable one of the loss (1/2) sum (f - y)^2"
    raise InputError(dynamics.where, why, fix)
