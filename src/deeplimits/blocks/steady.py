"""Fixed points as steady states: follow z' = f(z) - z until it stands still."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from deeplimits.architecture.size import whole
from deeplimits.blocks import given
from deeplimits.blocks.iteration import FixedPoint, Map, column, most, residuals, rms
from deeplimits.blocks.runge_kutta import adaptive
from deeplimits.errors import InputError


def steady_state(function: Map, start: Tensor, *, tolerance: float = 1e-6, evaluations: int = 1000) -> FixedPoint:
    """Return where z' = f(z) - z comes to rest.

    A step's error is at most a tenth of f(z) - z and of the tolerance together: only the end of the path is accurate.

    Valid when: the samples of the batch do not depend on one another and the flow has a steady state that attracts
    `start`: the eigenvalues of df/dz have real parts below 1 there.

    Args:
        function: f, from (batch, ...) to the same shape.
        start: z(0), (batch, ...).
        tolerance: on each sample's residual rms(f - z) / (1 + rms f).
        evaluations: of f at most.

    Returns:
        The stillest state of each sample, converged or not.

    Raises:
        InputError: a tolerance, count or start that cannot be, or a map to another shape.

    Source: pal-2022-skip-deq.

    Example:
        >>> found = steady_state(torch.cos, torch.zeros(1, 1, dtype=torch.float64), tolerance=1e-9)
        >>> round(float(found.value), 7), found.converged
        (0.7390851, True)
    """
    given.positive("steady_state", "tolerance", tolerance)
    whole("steady_state", "evaluations", evaluations)
    if start.dim() < 2:
        raise InputError("steady_state", f"start has shape {tuple(start.shape)}", "give (batch, features)")

    def field(time: float, z: Tensor) -> Tensor:
        del time
        image = function(z)
        if image.shape != z.shape:
            why = f"the map sends shape {tuple(z.shape)} to {tuple(image.shape)}"
            raise InputError("steady_state", why, "a fixed point needs the same shape on both sides")
        return image - z

    bound = most(start + field(0.0, start))
    best, lowest = start, bound.new_full(bound.shape, inf)

    def still(z: Tensor, slope: Tensor) -> bool:
        nonlocal best, lowest
        found = residuals(z, slope + z, bound)
        best = torch.where(column(found < lowest, z), z, best)
        lowest = torch.minimum(found, lowest)
        return bool((lowest <= tolerance).all())

    def scale(before: Tensor, after: Tensor, slope: Tensor) -> Tensor:
        del after
        return column(rms(slope) + tolerance * (1 + rms(before)), slope) / 10

    path = adaptive(field, start, 0.0, inf, scale, first=1.0, stop=still, evaluations=evaluations)
    return FixedPoint(best, lowest, path.evaluations + 1, path.finished)
