"""Ctrl-C held back while something is written that must not be cut in half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self


class Interrupts:
    """Holds Ctrl-C back inside the `with` block, except in `open()`; a second one is let through.

    Raises:
        KeyboardInterrupt: at the next `open()`, or at the end, where Ctrl-C was pressed meanwhile.

    Example:
        >>> import signal
        >>> done = []
        >>> try:
        ...     with Interrupts() as interrupts:
        ...         signal.raise_signal(signal.SIGINT)
        ...         done.append("written")
        ...         with interrupts.open():
        ...             done.append("trained")
        ... except KeyboardInterrupt:
        ...     done.append("interrupted")
        >>> done
        ['written', 'interrupted']
    """

    def __init__(self) -> None:
        self.opened = self.pressed = False

    def __enter__(self) -> Self:
        self.main = threading.current_thread() is threading.main_thread()
        self.before = signal.signal(signal.SIGINT, self._press) if self.main else None
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.main:
            signal.signal(signal.SIGINT, self.before)
        if self.pressed and kind is None:
            raise KeyboardInterrupt

    def _press(self, *_: object) -> None:
        if self.opened or self.pressed:
            self.opened = self.pressed = False
            raise KeyboardInterrupt
        self.pressed = True

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let Ctrl-C through inside."""
        self.opened = True
        try:
            if self.pressed:
                self.pressed = False
                raise KeyboardInterrupt
            yield
        finally:
            self.opened = False
