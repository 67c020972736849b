"""Everything a comparison on the (width, depth) plane can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deeplimits.plane.record import Comparison
from deeplimits.report.figures import agreement, depth, diagonal, plane, width

Panel = tuple[Callable[..., None], tuple[Any, ...]]


def panels_of(record: Comparison) -> list[Panel]:
    """Drawing functions and their data for everything a comparison can show."""
    every = [
        (diagonal.draw, diagonal.diagonal_data([record])),
        (plane.draw, plane.plane_data(record)),
        (width.draw, width.width_data(record)),
        (depth.draw, depth.depth_data(record)),
        (agreement.draw, agreement.agreement_data(record)),
    ]
    return [(draw, (data,)) for draw, data in every if data is not None]
