"""A progress bar on stderr, on a terminal only; what is printed meanwhile goes to stdout, above it."""

from __future__ import annotations

import sys
from typing import Any, Self


class Bar:
    """A bar over a total cost, its time left weighted by what remains; nothing where stderr is no terminal."""

    def __init__(self, total: float, shown: bool = True, description: str = "starting"):
        self.bar: Any = None
        if shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self.task = self.bar.add_task(description, total=total)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self, description: str, cost: float) -> None:
        """Tell that a piece is finished."""
        if self.bar is not None:
            self.bar.update(self.task, advance=cost, description=description)

    def reach(self, cost: float) -> None:
        """Tell how much of the total is finished."""
        if self.bar is not None:
            self.bar.update(self.task, completed=cost)

    def print(self, text: str) -> None:
        """Print on stdout without spoiling the bar."""
        if self.bar is not None:
            self.bar.stop()
        print(text, flush=True)
        if self.bar is not None:
            self.bar.start()
