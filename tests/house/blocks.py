"""Code blocks of a Markdown file."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a file in order, with the line on which each starts."""
    page = path.read_text()
    return [Block(m[1], m[2], page.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(page)]


def commands(block: Block) -> list[tuple[str, str]]:
    """Return (command, output that the page shows) of a console block; '$ ' starts a command."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [tuple(part.partition("\n")[::2]) for part in parts]
