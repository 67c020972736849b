"""The kernels of a block given by its increment: Gaussian expectations of whatever the user wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deeplimits.architecture.increment import Increment, checked, increment, increment_of
from deeplimits.architecture.layer import Layer
from deeplimits.architecture.question import Question
from deeplimits.errors import DescriptionError
from deeplimits.limits.kernel.lowering import Lowering, kernel
from deeplimits.limits.kernel.tape import Add, Affine, Copy, Dual

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-11
_FEW = 32
_CLOSE, _RATIO = 1e-4, 1e-4
_ANGLES = (0.0, 0.4, 1.5, 2.6, np.pi)


@dataclass(frozen=True)
class Block:
    """What an activation's Gaussian family is to it, for a block: C(k, q1, q2) and dC/dk by quadrature.

    Kinks at zero are resolved exactly, others converge slowly: `error` says how well. `learned` reads the increment's
    `learned` in place of its covariance.
    """

    layer: Layer
    learned: bool = False
    code: ClassVar[int] = 8

    @cached_property
    def covariance(self) -> Callable[..., Any]:
        """The user's function, its result checked."""
        found = increment_of(self.layer)
        chosen = found.learned if self.learned else found.covariance
        assert chosen is not None
        return lambda u, v, mean: checked(self.layer, chosen(u, v, mean), (len(u), 1))

    def diagonal(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return C and dC/dk of identical inputs at variances q >= 0, of any shape."""
        import torch

        given = torch.from_numpy(np.array(q, dtype=np.float64).ravel())
        value, slope = self._evaluate(torch.zeros_like(given), given, given)
        return value.numpy().reshape(np.shape(q)), slope.numpy().reshape(np.shape(q))

    def pair(self, k: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (C, dC/dk), broadcast, in float64.

        Raises:
            DescriptionError: gradients are wanted.
        """
        import torch

        if any(part.requires_grad for part in (k, q1, q2)):
            why = "kernels through a block given by its increment have no gradients"
            raise DescriptionError(type(self.layer).__name__, why, "use differences of kernels, or write it with parts")
        k, q1, q2 = torch.broadcast_tensors(k, q1, q2)
        s = q1.sqrt() * q2.sqrt()
        flat = (part.reshape(-1).cpu() for part in (_angle(s - k, s + k), q1, q2))
        value, slope = (part.reshape(k.shape).to(k.device) for part in self._evaluate(*flat))
        return value, slope

    def near(
        self, gap: np.ndarray, span: np.ndarray, q1: np.ndarray, q2: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sqrt(Q1 Q2) - C, sqrt(Q1 Q2) + C, dC/dk).

        Of nearly coincident inputs the first is the integral of dC/dk over the gap, with its own relative accuracy
        however small; else it is accurate to rounding of the diagonal.
        """
        import torch

        shape = np.broadcast_shapes(*(np.shape(part) for part in (gap, span, q1, q2)))
        full = (np.broadcast_to(np.asarray(part, dtype=np.float64), shape).ravel() for part in (gap, span, q1, q2))
        down, up, one, two = (torch.from_numpy(part.copy()) for part in full)
        nodes, weights = _gauss()
        close = down < _CLOSE * up
        step = down[close, None] * nodes**2
        inner = _angle(step, (down + up)[close, None] - step).flatten()
        first, second = (part[close].repeat_interleave(len(nodes)) for part in (one, two))
        zero, low, high, share = torch.zeros_like(one), *_stretched(one[close], two[close])
        none = torch.zeros_like(low)
        value, slope = self._evaluate(
            torch.cat([_angle(down, up), zero, zero, none, none, none, inner]),
            torch.cat([one, one, two, low, high, low, first]),
            torch.cat([two, one, two, low, high, high, second]),
        )
        count, few = len(one), len(low)
        found, left, right = value[: 3 * count].reshape(3, count)
        small, large, together = value[3 * count : 3 * count + 3 * few].reshape(3, few)
        scale = (left * right).sqrt()
        below = (scale - found).clamp(min=0)
        apart = share * ((small * large).sqrt() - together).clamp(min=0)
        inside = slope[3 * (count + few) :].reshape(few, len(nodes)) * 2 * nodes * weights
        below[close] = apart + down[close] * inside.sum(1)
        results = (below, (2 * scale - below).clamp(min=0), slope[:count])
        return tuple(part.numpy().reshape(shape) for part in results)  # type: ignore[return-value]

    def error(self, q: np.ndarray | float) -> float:
        """Return an estimate of the largest error of C and dC/dk relative to their diagonals, at variances up to q."""
        return _settled(self, _rung(float(np.max(q, initial=0.0))))[1]

    def _evaluate(self, angle: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return C and dC/dk, (P,) each; pairs that occur more than once are evaluated once."""
        import torch

        triples = torch.stack([angle, torch.minimum(q1, q2), torch.maximum(q1, q2)])
        pairs, back = torch.unique(triples, dim=1, return_inverse=True)
        given = (self, pairs.numpy().tobytes(), Question.edition)
        try:
            value, slope = (_quadrature if pairs.shape[1] <= _FEW else _quadrature.__wrapped__)(*given)
        except TypeError:  # something in the description has no hash
            value, slope = _quadrature.__wrapped__(*given)
        return value[back], slope[back]

    def __str__(self) -> str:
        return f"the increment of {type(self.layer).__name__}"


def _stretched(q1: torch.Tensor, q2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return variances around the same mean, at a ratio not too near 1, and the factor their misalignment is too large.

    sqrt(Q1 Q2) - C of collinear inputs grows like the square of the logarithm of q2/q1: read off where it is not lost
    to rounding, and scaled down.
    """
    ratio = ((q2 - q1) / q1).log1p()
    wide = ratio.abs().clamp(min=_RATIO)
    mean, half = q1.sqrt() * q2.sqrt(), (wide / 2).exp()
    return mean / half, mean * half, (ratio / wide) ** 2


@lru_cache(maxsize=1)
def _gauss() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the Gauss-Legendre nodes and weights on [0, 1] that integrate dC/dk over a gap, in its square root."""
    import torch

    x, w = np.polynomial.legendre.leggauss(4)
    return torch.from_numpy((x + 1) / 2), torch.from_numpy(w / 2)


@lru_cache(maxsize=4096)
def _quadrature(block: Block, triples: bytes, edition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return C and dC/dk of triples (angle, q1, q2): few at a time are kept, for a flow asks for diagonals again."""
    import torch

    from deeplimits.numerics.gaussian.polar import LEVELS, expectation

    angle, q1, q2 = torch.from_numpy(np.frombuffer(triples).reshape(3, -1).copy())
    level = LEVELS[_settled(block, _rung(float(q2.max()) if len(q2) else 0.0))[0]]
    return expectation(block.covariance, angle, q1, q2, level)


def _angle(gap: torch.Tensor, span: torch.Tensor) -> torch.Tensor:
    from deeplimits.numerics.gaussian.polar import angle_of

    return angle_of(gap, span)


def _rung(q: float) -> float:
    """Return the next power of 2**(1/4), at least 2**-20."""
    return 2.0 ** (np.ceil(4 * np.log2(max(q, 2.0**-20))) / 4) if np.isfinite(q) else q


def _settled(block: Block, q: float) -> tuple[int, float]:
    try:
        return _search(block, q, Question.edition)
    except TypeError:  # something in the description has no hash
        return _search.__wrapped__(block, q, Question.edition)


@lru_cache(maxsize=256)
def _search(block: Block, q: float, edition: int) -> tuple[int, float]:
    """Return the number of the coarsest level that agrees with the next one, and what is left between them."""
    import torch

    from deeplimits.numerics.gaussian.polar import LEVELS, expectation

    angle = torch.tensor(_ANGLES, dtype=torch.float64)
    variance = torch.full_like(angle, q)
    before, left = None, np.inf
    for number, level in enumerate(LEVELS):
        now = torch.stack(expectation(block.covariance, angle, variance, variance, level))
        if number == 0:
            _symmetric(block, angle, variance)
        if before is not None:
            size = now.abs().amax(1).clamp(min=1e-300)
            left = float(((now - before).abs().amax(1) / size).max())
            if left <= TOLERANCE:
                return number - 1, left
        before = now
    return len(LEVELS) - 1, left


def _symmetric(block: Block, angle: torch.Tensor, q: torch.Tensor) -> None:
    from deeplimits.numerics.gaussian.polar import LEVELS, expectation

    swapped = lambda u, v, mean: block.covariance(v, u, mean)
    one, other = (
        expectation(covariance, angle, q, q / 2, LEVELS[0], slope=False)[0]
        for covariance in (block.covariance, swapped)
    )
    if not bool(((one - other).abs() <= 1e-12 * one.abs().max()).all()):
        why = f"its covariance is not symmetric: C(u, v) = {float(one[2]):.6g} where C(v, u) = {float(other[2]):.6g}"
        fix = "write it so that exchanging u and v changes nothing, e.g. the cross terms both ways round"
        raise DescriptionError(f"increment of {type(block.layer).__name__}", why, fix)


@kernel.through(
    increment,
    source="derived (fresh weights make terms independent; Price's theorem); hayou-yang-2023-commute, thm 1",
    valid="Gaussian input; kinks at zero exact, elsewhere with a stated error",
)
def block(layer: Layer, state: Lowering) -> None:
    """K' = C(K), Theta' = learned(K) + dC/dk Theta, for the increment's covariance C."""
    name = type(layer).__name__
    if state.standard:
        why = "the standard parametrization needs each layer's number of inputs, which an increment does not tell"
        raise DescriptionError(name, why, "use parametrization='ntk'")
    if not state.gaussian:
        raise DescriptionError(
            name, f"its input, {state.holds}, is not Gaussian in the limit", "put a Dense layer before it"
        )
    given = increment_of(layer)
    _write(layer, given, state)
    state.gaussian, state.carried = given.gaussian, False
    state.centred, state.holds = True, f"the output of {name}, not Gaussian given its input"


def _write(layer: Layer, given: Increment, state: Lowering) -> None:
    here = state.register
    if given.learned is None:
        state.add(Dual(here, Block(layer)))
        state.add(Affine(here, 1.0, 0.0, 1.0, 0.0))
        return
    with state.branch() as own:
        state.add(Copy(own, here))
        state.add(Dual(own, Block(layer, learned=True)))
        state.add(Affine(own, 0.0, 0.0, 1.0, 0.0))
        state.add(Dual(here, Block(layer)))
        state.add(Add(here, own, 1.0))
    state.release([own])
