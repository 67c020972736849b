"""Where things are written: results on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any


def document(content: Any) -> None:
    """Write one JSON document, and nothing else, on stdout."""
    json.dump(content, sys.stdout, allow_nan=False, indent=None)
    sys.stdout.write("\n")


def say(text: str) -> None:
    """Write a message on stderr."""
    print(text, file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Write a table on stdout: ruled on a terminal, plain columns otherwise."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        drawn = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
        for name in header:
            drawn.add_column(name, justify="right" if _numeric(rows, header.index(name)) else "left")
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    if title:
        print(title)
    print("\n".join(plain(header, rows)))


def plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in plain text, numbers to the right."""
    sizes = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    right = [_numeric(rows, i) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(size) if to_right else cell.ljust(size)
            for cell, size, to_right in zip(row, sizes, right, strict=True)
        ).rstrip()
        for row in [header, *rows]
    ]


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return bool(rows) and all(not row[column] or row[column][0] in "0123456789−-+∞" for row in rows)


class Progress:
    """A bar on stderr, on a terminal only; called with (done, total, message)."""

    def __init__(self, quiet: bool = False):
        self.bar: Any = None
        self.task: Any = None
        self.shown = not quiet and sys.stderr.isatty()
        self.start = time.monotonic()

    def __enter__(self) -> Progress:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, description: str, total: int) -> None:
        """Start a new bar."""
        if self.bar is not None:
            self.task = self.bar.add_task(description, total=total)

    def advance(self, *_: Any) -> None:
        """Count one place more."""
        if self.bar is not None and self.task is not None:
            self.bar.advance(self.task)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start
