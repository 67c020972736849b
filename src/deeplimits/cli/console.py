"""Where things are written: results on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import sys
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


def comparison(record: Any) -> None:
    """Write a comparison on stdout: its table, its rates and its verdict, the verdict in colour on a terminal."""
    text = str(record)
    if not sys.stdout.isatty():
        print(text + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    colour = {"commutes": "green", "agrees": "green", "does not commute": "red", "differs": "red"}.get(
        record.verdict.word, "yellow"
    )
    drawn = Text(text)
    drawn.highlight_regex(r"(?m)^VERDICT.*(?:\n  .*)*", f"bold {colour}")
    drawn.highlight_regex(r"(?m)^ *width +depth .*$", "bold")
    drawn.highlight_regex(r"(?m)^[- ]{20,}$", "dim")
    Console(soft_wrap=True, highlight=False).print(drawn, end="\n\n")


def contest(record: Any) -> None:
    """Write a table of estimators on stdout, with what was done and what could not take part."""
    print(f"Estimators on {record.data}")
    table(*record.table())
    print("\n".join(["", f"{record.choice}.", *(f"left out: {note}" for note in record.notes), ""]))
