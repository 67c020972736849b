"""Progress of a comparison: a bar, or a function called with every finished place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deeplimits.plane.law_record import LawPlace
from deeplimits.plane.record import Place
from deeplimits.plane.training_record import TrainingPlace
from deeplimits.progress import Bar


class Progress(Bar):
    """A bar (True), a function called with every finished place, or nothing (False)."""

    def __init__(self, shown: bool | Callable[[Any], None], total: float, description: str = "sampling networks"):
        super().__init__(total, shown is True, description)
        self.call = shown if callable(shown) else None

    def finished(self, place: Place | LawPlace | TrainingPlace, cost: float) -> None:
        """Tell that a place is finished."""
        self.advance(f"width {place.width}, depth {place.depth} done", cost)
        if self.call is not None:
            self.call(place)
