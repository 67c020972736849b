"""Fixed points of batches of maps, by plain iteration or by Anderson's mixing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.errors import ConvergenceWarning, InputError

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FixedPoint:
    """The best iterate found, and how good it is.

    Attributes:
        value: z, (batch, ...).
        residual: rms(f(z) - z) / (1 + rms(f(z))) of each sample, (batch,), see `residuals`.
        evaluations: how often the map was evaluated, on the whole batch.
        converged: whether every residual is at most the tolerance.
    """

    value: Tensor
    residual: Tensor
    evaluations: int
    converged: bool

    @property
    def worst(self) -> float:
        """Return the largest residual, 0 for an empty batch."""
        return float(self.residual.max()) if self.residual.numel() else 0.0


def rms(z: Tensor) -> Tensor:
    """Return the root mean square of each sample, (batch, ...) to (batch,)."""
    return z.flatten(1).square().mean(dim=1).sqrt()


def column(values: Tensor, like: Tensor) -> Tensor:
    """Return one value a sample, (batch,), with as many axes as `like`."""
    return values.reshape(-1, *(1,) * (like.dim() - 1))


def most(image: Tensor) -> Tensor:
    """Return how large a sample may count in its own residual, (batch,): a hundred times 1 + rms(f(start))."""
    return 100 * (1 + rms(image))


def residuals(z: Tensor, image: Tensor, largest: Tensor) -> Tensor:
    """Return rms(f(z) - z) / (1 + min(rms(f(z)), largest)) of each sample, infinite where it is not finite.

    Without the bound, a sample that runs away at a constant speed would look still beside its own size.
    """
    size = 1 + torch.minimum(rms(image), largest)
    return torch.nan_to_num(rms(image - z) / size, nan=torch.inf, posinf=torch.inf)


def fixed_point(
    function: Map,
    start: Tensor,
    *,
    method: str = "anderson",
    tolerance: float = 1e-6,
    iterations: int = 200,
    memory: int = 5,
) -> FixedPoint:
    """Solve z = f(z) for each sample of a batch.

    Picard: z <- f(z). Anderson: with g = f(z) - z and the last m changes S of z and C of g,
    z <- f(z) - (S + C) w where w minimises |g - C w|. A sample that has not gained a tenth in 2 m evaluations goes on
    from its best iterate by half steps z <- (z + f(z))/2, which are slow and do not leap between several roots.

    Valid when: the samples of the batch (its first axis) do not depend on one another.

    Args:
        function: f, from (batch, ...) to the same shape.
        start: where to begin, (batch, ...).
        method: "anderson" or "picard".
        tolerance: on each sample's residual rms(f(z) - z) / (1 + rms(f(z))).
        iterations: how many evaluations at most.
        memory: m of Anderson's mixing.

    Returns:
        The best iterate of each sample, converged or not.

    Raises:
        InputError: an unknown method, a tolerance, count or start that cannot be, or a map to another shape.

    Source: anderson-1965 (mixing), walker-ni-2011 (in this form).

    Example:
        >>> found = fixed_point(torch.cos, torch.zeros(1, 1, dtype=torch.float64), tolerance=1e-12)
        >>> round(float(found.value), 9), found.evaluations < 12
        (0.739085133, True)
    """
    settings(method, tolerance, iterations, memory)
    if start.dim() < 2:
        raise InputError("fixed_point", f"start has shape {tuple(start.shape)}", "give (batch, features)")
    z, best = start, start
    lowest = bound = torch.full((len(start),), torch.inf, dtype=start.dtype, device=start.device)
    step = Anderson(memory, lowest) if method == "anderson" else _picard
    for count in range(1, iterations + 1):
        image = function(z)
        if image.shape != z.shape:
            why = f"the map sends shape {tuple(z.shape)} to {tuple(image.shape)}"
            raise InputError("fixed_point", why, "a fixed point needs the same shape on both sides")
        bound = most(image) if count == 1 else bound
        found = residuals(z, image, bound)
        best = torch.where(column(found < lowest, z), z, best)
        lowest = torch.minimum(found, lowest)
        lost = ~torch.isfinite(found)
        if bool((lowest <= tolerance).all()):
            return FixedPoint(best, lowest, count, True)
        if bool((lost | (lowest <= tolerance)).all()):
            return FixedPoint(best, lowest, count, False)
        z = step(z, image, best, lowest)
        z = torch.where(torch.isfinite(z), z, best)
    return FixedPoint(best, lowest, iterations, False)


def settings(method: str, tolerance: float, iterations: int, memory: int) -> None:
    """Refuse settings of `fixed_point` that cannot be."""
    if method not in ("anderson", "picard"):
        raise InputError("fixed_point", f"method={method!r} is not known", "use 'anderson' or 'picard'")
    given.positive("fixed_point", "tolerance", tolerance)
    whole("fixed_point", "iterations", iterations)
    whole("fixed_point", "memory", memory)


def tell(where: str, found: FixedPoint, tolerance: float) -> None:
    """Warn, with the numbers, of a solve that has not converged."""
    if not found.converged:
        off = int((found.residual > tolerance).sum())
        text = (
            f"{where}: {off} of {len(found.residual)} samples did not converge: residual {found.worst:.1e} after "
            f"{found.evaluations} evaluations, {tolerance:.1e} was asked for; the best iterate is kept"
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=3)


class Anderson:
    """Anderson's mixing: one call turns z and f(z) into the next iterate, sample by sample.

    A sample whose lowest residual has not come below nine tenths of its `goal` within 2 m calls is `halved`: it goes on
    from its best iterate by half steps.
    """

    def __init__(self, memory: int, lowest: Tensor):
        self.memory = memory
        self.goal, self.waited = lowest, torch.zeros_like(lowest)
        self.halved = torch.zeros_like(lowest, dtype=torch.bool)
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []
        self.before: tuple[Tensor, Tensor] | None = None

    def __call__(self, z: Tensor, image: Tensor, best: Tensor, lowest: Tensor) -> Tensor:
        """Return the next iterate."""
        gained = lowest < 0.9 * self.goal
        self.goal = torch.where(gained, lowest, self.goal)
        self.waited = torch.where(gained, 0, self.waited + 1)
        late = (self.waited >= 2 * self.memory) & ~self.halved
        following = torch.where(column(self.halved, z), (z + image) / 2, self._mixed(z, image))
        self.halved = self.halved | late
        return torch.where(column(late, z), best, following)

    def _mixed(self, z: Tensor, image: Tensor) -> Tensor:
        point, gap = z.flatten(1), (image - z).flatten(1)
        if self.before is not None:
            self.steps = [*self.steps, point - self.before[0]][-self.memory :]
            self.changes = [*self.changes, gap - self.before[1]][-self.memory :]
        self.before = point, gap
        if not self.steps:
            return image
        steps, changes = torch.stack(self.steps, dim=-1), torch.stack(self.changes, dim=-1)
        weights = _least_squares(changes, gap)
        return (point + gap - ((steps + changes) @ weights)[..., 0]).reshape(z.shape)


def _picard(z: Tensor, image: Tensor, best: Tensor, lowest: Tensor) -> Tensor:
    del z, best, lowest
    return image


def _least_squares(columns: Tensor, target: Tensor) -> Tensor:
    """Return w of least |target - columns w|, (batch, m, 1), by normal equations on columns of length one.

    Nearly parallel columns are damped by one rounding error: that bends the path, and leaves fixed points fixed.
    """
    dtype = columns.dtype
    columns, target = (one.to(torch.promote_types(dtype, torch.float32)) for one in (columns, target))
    info = torch.finfo(columns.dtype)
    lengths = columns.norm(dim=1, keepdim=True).clamp_min(info.tiny)
    unit = columns / lengths
    gram = unit.mT @ unit + 10 * info.eps * torch.eye(unit.shape[-1], dtype=unit.dtype, device=unit.device)
    weights, _ = torch.linalg.solve_ex(gram, unit.mT @ target[..., None])
    return (weights / lengths.mT).to(dtype)
