"""A progress bar on stderr, on a terminal only, its time left weighted by the cost of what remains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from deeplimits.plane.record import Place


class Progress:
    """A bar (True), a function called with every finished place, or nothing (False)."""

    def __init__(self, shown: bool | Callable[[Place], None], total: float):
        self.call = shown if callable(shown) else None
        self.bar: Any = None
        if shown is True and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("sampling networks", total=total)

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self, place: Place, cost: float) -> None:
        """Tell that a place is finished."""
        if self.bar is not None:
            at = f"width {place.width}, depth {place.depth} done"
            self.bar.update(self.task, advance=cost, description=at)
        if self.call is not None:
            self.call(place)
