"""Progress of a comparison: a bar, or a function called with every finished place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deeplimits.plane.law_record import LawPlace
from deeplimits.plane.record import Place
from deeplimits.progress import Bar


class Progress(Bar):
    """A bar (True), a function called with every finished place, or nothing (False)."""

    def __init__(self, shown: bool | Callable[[Any], None], total: float):
        super().__init__(total, shown is True, "sampling networks")
        self.call = shown if callable(shown) else None

    def finished(self, place: Place | LawPlace, cost: float) -> None:
        """Tell that a place is finished."""
        self.advance(f"width {place.width}, depth {place.depth} done", cost)
        if self.call is not None:
            self.call(place)
