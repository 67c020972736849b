"""Kernels of controlled networks: which solver, how fine, and the matrix of all pairs of paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log2, pi
from typing import Any

import numpy as np
import torch

from deeplimits.errors import AccuracyWarning
from deeplimits.limits.controlled import general, kink, lanes, linear, speed
from deeplimits.limits.controlled.mehler import Mehler
from deeplimits.limits.controlled.table import Table
from deeplimits.numerics.gaussian.expansion import Expansion
from deeplimits.numerics.gaussian.family import Family
from deeplimits.numerics.gaussian.hermite import Smooth
from deeplimits.numerics.gaussian.linear import Linear
from deeplimits.numerics.gaussian.rectified import RectifiedPower
from deeplimits.numerics.gaussian.series import Series
from deeplimits.numerics.gaussian.trigonometric import Bump
from deeplimits.numerics.path import at

ACCURACY, SHARPEST = 1e-3, 1e-7
TOLD = 10.0  # times what was wanted is worth a warning
TRIED, FINEST, POINTS = (2, kink.LANES), 6, 512
CLOSE = 1e-13  # error of a series in place of a closed form
LEFT_OUT = {kink.EULER: 1e-16, kink.SECOND: 1e-11}
"""Share of an activation's Hermite series that a scheme may leave out."""
Paths = Sequence[np.ndarray]
Scheme = tuple[float, float, float]


@dataclass(frozen=True)
class Law:
    """What the solvers need of a network.

    Attributes:
        family: Gaussian expectations of the activation.
        homogeneous: whether layers share their weights.
        start, weight, bias: variances of the initial state, of the weights and of the biases.
        clock: the channel of the paths that holds their times, or None.
    """

    family: Family
    homogeneous: bool
    start: float
    weight: float
    bias: float
    clock: int | None = None

    @property
    def solvable(self) -> bool:
        """Whether the equation is linear, and solved by series."""
        return isinstance(self.family, Linear) or self.weight == 0


def matrix(law: Law, x: Paths, y: Paths | None, depth: float, error: float = inf) -> np.ndarray:
    """Return K of all pairs, shape (N, M).

    Args:
        law: the network.
        x: N paths, shape (points, d) each.
        y: M paths, or None for x against itself.
        depth: number of layers, or infinity.
        error: largest of an entry, absolute, where it is to be less than ACCURACY of the diagonal.
    """
    if not law.homogeneous:
        return _by_speed(law, x, x if y is None else y, depth)[0].numpy()
    dx, dy = (None if paths is None else _steps(law, paths, depth) for paths in (x, y))
    assert dx is not None
    if depth == inf and law.solvable:
        return _identity(law, linear.matrix(law.weight, dx, dy))
    if depth != inf:
        return grid(law, dx, dy, kink.EULER)
    levels = _levels(law, dx, dy, error)
    if isinstance(levels, tuple):
        return _too_large((len(dx), len(dx if dy is None else dy)), levels)
    return _extrapolated(lambda parts: grid(law, cut(dx, parts), cut(dy, parts), kink.SECOND), levels)


def diagonal(law: Law, x: Paths, depth: float, error: float = inf) -> np.ndarray:
    """Return K of each path with itself, shape (N,); arguments as in `matrix`."""
    if not law.homogeneous:
        return _by_speed(law, x, x[:1], depth)[1].numpy()
    dx = _steps(law, x, depth)
    if depth == inf and law.solvable:
        return _identity(law, linear.paired(law.weight, dx, dx))
    if depth != inf:
        return _variances(law, dx, kink.EULER)
    levels = _levels(law, dx, None, error)
    if isinstance(levels, tuple):
        return _too_large((len(dx),), levels[:1])
    return _extrapolated(lambda parts: _variances(law, cut(dx, parts), kink.SECOND), levels)


def _by_speed(law: Law, x: Paths, y: Paths, depth: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    equation = _equation(law, kink.EULER)
    if depth == inf:
        return speed.limit(x, y, equation, law.clock)
    return speed.network(x, y, equation, int(depth), law.clock)


def _steps(law: Law, paths: Paths, depth: float) -> list[np.ndarray]:
    if depth != inf:
        times = np.linspace(0.0, 1.0, int(depth) + 1)
        paths = [at(path, times, law.clock) for path in paths]
    return [np.diff(path, axis=0) for path in paths]


def cut(steps: Any, parts: int) -> Any:
    """Return the same paths with every step cut into equal parts.

    Example:
        >>> cut([np.ones((1, 1))], 2)[0].tolist()
        [[0.5], [0.5]]
    """
    return None if steps is None else [np.repeat(path, parts, axis=0) / parts for path in steps]


def _identity(law: Law, grown: np.ndarray) -> np.ndarray:
    """K = start + (start weight + bias) u / weight, with u of `series` for z = weight <x', y'>."""
    return law.start + (law.start * law.weight + law.bias) * grown


def _kinked(law: Law, scheme: Scheme) -> kink.Equation | None:
    """Return the compiled equation of an activation with one kink, or none."""
    family = law.family
    if isinstance(family, Linear):
        return kink.Equation(law.weight, 0.0, law.bias, law.start, scheme)
    if not isinstance(family, RectifiedPower) or family.power != 1:
        return None
    straight, bent = (family.plus - family.minus) / 2, (family.plus + family.minus) / 2
    return kink.Equation(law.weight * straight**2, law.weight * bent**2 * 2 / pi, law.bias, law.start, scheme)


def grid(law: Law, dx: Paths, dy: Paths | None, scheme: Scheme) -> np.ndarray:
    """Return K of all pairs by one scheme, with one cell for each two steps.

    Args:
        law: the network, homogeneous.
        dx: steps of N paths, shape (n, d) each.
        dy: of M paths, or None for x against itself.
        scheme: `kink.EULER` or `kink.SECOND`.
    """
    return _with_variances(law, dx, dy, scheme)[0]


def _with_variances(law: Law, dx: Paths, dy: Paths | None, scheme: Scheme) -> tuple[np.ndarray, ...]:
    """Return K of all pairs, of each x with itself and of each y with itself."""
    equation = _kinked(law, scheme)
    if equation is None:
        return _general(law, dx, dy, scheme)
    other = dx if dy is None else dy
    own_x = _roots(dx, equation)
    own_y = own_x if dy is None else _roots(dy, equation)
    columns = lanes.groups(list(map(len, other)), kink.LANES)
    packed = [[lanes.pack([held[j] for j in group], kink.LANES) for group in columns] for held in (other, own_y)]
    rows = [[lanes.pack([held[i]] * kink.LANES, kink.LANES) for i in range(len(dx))] for held in (dx, own_x)]

    def run(i: int, group: int) -> np.ndarray:
        return kink.pairs(rows[0][i], packed[0][group], (rows[1][i], packed[1][group]), equation)

    found = lanes.matrix(len(dx), columns, dy is None, run)
    variances = [np.array([roots[-1, 0] ** 2 for roots in own]) for own in (own_x, own_y)]
    if dy is None:
        found[np.diag_indices(len(dx))] = variances[0]
    return found, *variances


def _roots(steps: Paths, equation: kink.Equation) -> list[np.ndarray]:
    """Return the roots of variances along each path and their inverses, shape (points, 2) each."""
    found: list[np.ndarray] = [np.empty(0)] * len(steps)
    for group in lanes.groups(list(map(len, steps)), kink.LANES):
        roots = kink.own(lanes.pack([steps[i] for i in group], kink.LANES), equation)
        for lane, i in enumerate(group):
            found[i] = np.ascontiguousarray(roots[: len(steps[i]) + 1, :, lane])
    return found


def _equation(law: Law, scheme: Scheme) -> general.Equation:
    numbers = (law.family, law.weight, law.bias, law.start, scheme)
    if isinstance(law.family, Expansion):
        return Mehler(*numbers, Table(law.family, LEFT_OUT[scheme]))
    if isinstance(law.family, Smooth | Bump):  # closed forms, but dearer than a series as good
        series = Series(law.family.function, law.family.derivative, ("closed form", law.family))
        return Mehler(*numbers, Table(series, LEFT_OUT[scheme], CLOSE))
    return general.Equation(*numbers)


def _general(law: Law, dx: Paths, dy: Paths | None, scheme: Scheme) -> tuple[np.ndarray, ...]:
    equation = _equation(law, scheme)
    known = equation.grid(dx, dy) if isinstance(equation, Mehler) else None
    if known is not None:
        return known
    x = _padded(dx)
    own_x = general.own(x, equation)
    y, own_y = (x, own_x) if dy is None else (_padded(dy), None)
    own_y = general.own(y, equation) if own_y is None else own_y
    found = general.pairs(x, y, (own_x, own_y), equation).numpy()
    if dy is None:
        found = (found + found.T) / 2
        found[np.diag_indices(len(dx))] = own_x[:, -1].numpy()
    return found, own_x[:, -1].numpy(), own_y[:, -1].numpy()


def _padded(steps: Paths) -> torch.Tensor:
    longest = max(map(len, steps))
    return torch.from_numpy(np.stack([np.pad(path, ((0, longest - len(path)), (0, 0))) for path in steps]))


def _variances(law: Law, dx: Paths, scheme: Scheme) -> np.ndarray:
    equation = _kinked(law, scheme)
    if equation is not None:
        return np.array([roots[-1, 0] ** 2 for roots in _roots(dx, equation)])
    other = _equation(law, scheme)
    known = [other.own(path) for path in dx] if isinstance(other, Mehler) else [None]
    ends = [q[-1] for q in known if q is not None]
    return np.array(ends) if len(ends) == len(dx) else general.own(_padded(dx), other)[:, -1].numpy()


def _extrapolated(solved: Callable[[int], np.ndarray], levels: int) -> np.ndarray:
    """Return the limit of values with steps cut into 1, 2, 4, ... parts: errors are even powers of the cell's size."""
    return _romberg([solved(2**level) for level in range(levels)])


def _romberg(values: list[np.ndarray]) -> np.ndarray:
    power = 1
    while len(values) > 1:
        power *= 4
        values = [(power * fine - coarse) / (power - 1) for coarse, fine in pairwise(values)]
    return values[0]


def _levels(law: Law, dx: Paths, dy: Paths | None, wanted: float = inf) -> int | tuple[int, int]:
    """Return how many levels `_extrapolated` needs, or the place of a value larger than float64 holds.

    From a few of the longest paths, as many as fill a vector.
    """
    (at_x, x), (at_y, y) = _longest_few(dx, TRIED[0]), _longest_few(dx if dy is None else dy, TRIED[1])
    values = [grid(law, x, y, kink.SECOND)]
    finest = max(FINEST, 1 + int(log2(POINTS / max(map(len, [*x, *y])))))
    while True:
        parts = 2 ** len(values)
        found, *variances = _with_variances(law, cut(x, parts), cut(y, parts), kink.SECOND)
        values.append(found)
        if not np.isfinite(found).all():
            i, j = np.argwhere(~np.isfinite(found))[0]
            return int(at_x[i]), int(at_y[j])
        size = np.maximum(
            np.sqrt(variances[0])[:, None] * np.sqrt(variances[1]), linear.TINY
        )  # coarse cells may lose one
        moved = np.abs(_romberg(values) - _romberg(values[:-1]))
        most, sharp = ACCURACY * size, np.maximum(wanted, SHARPEST * size)
        if (moved <= np.minimum(most, sharp)).all():
            return len(values) - 1
        if len(values) == finest:
            if (moved <= np.minimum(most, TOLD * sharp)).all():
                return len(values)
            error = float((moved / size).max())
            text = f"kernel: good to about {error:.1e} of the diagonal with steps cut into {parts}"
            warnings.warn(f"{text}; scale the paths or weight_std down", AccuracyWarning, stacklevel=5)
            return len(values)


def _longest_few(steps: Paths, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    order = np.argsort([-float(np.abs(path).sum()) for path in steps], kind="stable")[:count]
    return order, [steps[i] for i in order]


def _too_large(shape: tuple[int, ...], at: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(shape)
    found[at] = inf
    return found
