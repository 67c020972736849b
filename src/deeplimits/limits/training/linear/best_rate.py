"""Learning rates that are best for linear perceptrons: in the limit of infinite width, and at every width."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan, sqrt
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from deeplimits.architecture.size import whole
from deeplimits.errors import InputError, nearest
from deeplimits.limits.training.linear import several_steps
from deeplimits.limits.training.linear.best_rate_record import BestRates
from deeplimits.limits.training.linear.inputs import check_data
from deeplimits.limits.training.linear.one_step import one_step_rates
from deeplimits.numerics.arrays import check_memory
from deeplimits.numerics.seeds import generator
from deeplimits.progress import Bar

Array = NDArray[np.float64]

RULES = ("mup", "sp", "ntp")
LARGEST, LARGEST_SAMPLED = 1e40, 1e8  # powers of such numbers that are met, and their inverses, fit float64
DEEPEST = 20
BLOCK = 2**17  # numbers of one array of many networks, which then stays in the cache


def best_rate(X: Any, y: Any, hidden: int = 3) -> float:
    """Return the best learning rate of the first step at infinite width under muP.

    rate = (P/L) sum_c y_c' K y_c / sum_c y_c' K^2 y_c, K = X X' / d, for f(x) = V W_L ... W_1 W_0 x with W_0 of
    N(0, 1/d), W_l of N(0, 1/n) and V of N(0, 1/n^2), of which W_1, ..., W_L are trained by gradient descent on
    sum (f - y)^2 / 2P. (On sum (f - y)^2 / 2 it is this over P.) At the start f = 0, and a step moves it by
    rate (L/P) K y; terms of higher order in the rate, and f(0), are of order n^(-1/2).

    Args:
        X: inputs, shape (P, d).
        y: targets, shape (P,) or (P, C).
        hidden: L, the number of trained matrices.

    Raises:
        InputError: data or a number that cannot be; targets that no linear map of the inputs helps with.

    Source: derived; hayou-2025-mup-proof for the limit's existence.

    Example:
        >>> round(best_rate([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0], hidden=2), 12)
        2.0
    """
    x, targets, number = _problem("best_rate", X, y, hidden)
    return float(_limit(x, targets, number))


def best_rate_law(X: Any, y: Any, hidden: int = 3, samples: int = 10000, seed: SupportsIndex = 0) -> Array:
    """Return samples of the best learning rate of the first step at infinite width in the NTK parametrization.

    There f(0) is N(0, K), not 0: the rate is (P/L) r' K r / r' K^2 r with r = y - f(0), a random number. V is of
    N(0, 1/n), and steps of W_l are rate/n times the gradient. Under the standard parametrization, the same without
    that 1/n, the best rate is this over n: it tends to zero.

    Args:
        X: inputs, shape (P, d).
        y: targets, shape (P,) or (P, C).
        hidden: L, the number of trained matrices.
        samples: how many.
        seed: of the samples.

    Raises:
        InputError: data or numbers that cannot be.

    Source: derived.

    Example:
        >>> best_rate_law([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0], hidden=2, samples=100).shape
        (100,)
    """
    where = "best_rate_law"
    x, targets, number = _problem(where, X, y, hidden)
    count = whole(where, "samples", samples)
    random = generator(seed, "best rate", "law")
    initial = x @ random.standard_normal((count, x.shape[1], targets.shape[1]))
    return _limit(x, targets - initial, number)


def best_rates(
    X: Any,
    y: Any,
    *,
    widths: Iterable[int],
    hidden: int = 3,
    rule: str = "mup",
    steps: int = 1,
    networks: int | Iterable[int] = 100,
    seed: SupportsIndex = 0,
) -> BestRates:
    """Return the learning rate with the lowest loss after some steps, in sampled networks of every width.

    Networks, loss and training are those of `best_rate`. After one step the loss is a polynomial of the rate, whose
    minimum is found exactly; only the images of a few vectors under each Gaussian matrix are drawn, by their exact law,
    O(n) numbers a network. After several steps matrices are drawn whole, their updates kept as factors, and the lowest
    loss is searched for, to 1e-3 of the rate, from the limit of one step outwards.

    Args:
        X: inputs, shape (P, d).
        y: targets, shape (P,) or (P, C).
        widths: n, whole numbers.
        hidden: L, the number of trained matrices, at most 20 for one step.
        rule: "mup"; "sp", V of N(0, 1/n); or "ntp", the same with steps of rate/n times the gradient.
        steps: of gradient descent.
        networks: at every width, one number or one a width.
        seed: of all weights.

    Raises:
        InputError: data, an unknown rule or numbers that cannot be.
        MemoryNeeded: weights that do not fit.

    Source: hayou-2025-mup-proof.

    Example:
        >>> X, y = [[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]
        >>> found = best_rates(X, y, widths=(100, 400), hidden=2, networks=40)
        >>> near, _ = found.distance
        >>> bool(near[1] < near[0])
        True
    """
    where = "best_rates"
    x, targets, number = _problem(where, X, y, hidden, LARGEST_SAMPLED)
    if rule not in RULES:
        raise InputError(where, f"there is no rule {rule!r}", nearest(str(rule), RULES))
    steps = whole(where, "steps", steps)
    if steps == 1 and number > DEEPEST:
        why = f"hidden={number}: the roots of the loss, a polynomial of degree {2 * number}, are lost to rounding"
        raise InputError(where, why, f"give hidden <= {DEEPEST}, or steps > 1, which searches")
    sizes = [whole(where, "width", n) for n in _several(where, "widths", widths)]
    given = _several(where, "networks", networks) if np.iterable(networks) else [networks] * len(sizes)
    counts = [whole(where, "networks", count) for count in given]
    if len(counts) != len(sizes) or len(set(sizes)) < len(sizes):
        why = f"widths={sizes} and networks={counts} do not fit"
        raise InputError(where, why, "give every width once, and one number of networks or one a width")
    needed = 32 * max(sizes) * (number + 1) * sum(x.shape)
    if steps > 1:
        needed += 8 * (number + 1) * max(sizes) * (max(sizes) + several_steps.RATES * 4 * steps * targets.shape[1])
    check_memory(where, needed, "one network", "ask for smaller widths")
    limit, found = float(_limit(x, targets, number)), []
    with Bar(sum(_cost(*one, steps) for one in zip(sizes, counts, strict=True)), description=where) as bar:
        for width, count in zip(sizes, counts, strict=True):
            std, unit = (1 / width, limit) if rule == "mup" else (1 / sqrt(width), limit / width)
            random = generator(seed, "best rates", width, steps)
            rates = _sampled(x, targets, number, width, std, steps, count, unit, random)
            found.append(rates * (width if rule == "ntp" else 1))
            bar.advance(f"width {width}", _cost(width, count, steps))
    return BestRates(rule, number, steps, tuple(sizes), tuple(found), _asymptote(rule, steps, limit))


def _sampled(
    x: Array, y: Array, hidden: int, width: int, std: float, steps: int, networks: int, unit: float,
    random: np.random.Generator,
) -> Array:  # fmt: skip
    if steps > 1:
        found = []
        for _ in range(networks):
            weights = several_steps.drawn(width, x.shape[1], hidden, y.shape[1], std, random)
            loss = lambda rates, weights=weights: several_steps.losses(x, y, weights, rates, steps)
            found.append(several_steps.search(loss, unit))
        return np.array(found)
    block = max(1, BLOCK // (width * (min(x.shape) + (hidden + 1) * y.shape[1])))
    counts = [min(block, networks - start) for start in range(0, networks, block)]
    return np.concatenate([one_step_rates(x, y, width, hidden, std, count, unit, random) for count in counts])


def _cost(width: int, networks: int, steps: int) -> float:
    return float(networks) * width ** (1 if steps == 1 else 2)


def _asymptote(rule: str, steps: int, limit: float) -> float:
    """Return what rates tend to: known after one step, or 0; the random limit of "ntp" is no number."""
    if rule == "sp":
        return 0.0
    return limit if rule == "mup" and steps == 1 else nan


def _problem(where: str, X: Any, y: Any, hidden: int, largest: float = LARGEST) -> tuple[Array, Array, int]:
    x, targets, _ = check_data(where, X, y)
    number = whole(where, "hidden", hidden)
    for name, size in (("X", np.abs(x).max()), ("y", np.abs(targets).max())):
        if not 1 / largest < size < largest:
            raise InputError(where, f"{name} reaches {size:g}", "give data that are not zero, in units of order 1")
    if not np.linalg.norm(x.T @ targets) > 1e-12 * np.linalg.norm(x) * np.linalg.norm(targets):
        raise InputError(where, "X'y is zero: no step helps", "give targets that depend on the inputs")
    return x / sqrt(x.shape[1]), targets, number


def _limit(x: Array, residual: Array, hidden: int) -> Array:
    """Return (P/L) r'Kr / r'K^2 r for residuals (..., P, C)."""
    slope = x.T @ residual
    return len(x) / hidden * np.square(slope).sum((-2, -1)) / np.square(x @ slope).sum((-2, -1))


def _several(where: str, name: str, values: Any) -> list[Any]:
    found = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if not found:
        raise InputError(where, f"{name}={values!r} is not a list of numbers", f"give e.g. {name}=(128, 512)")
    return found
