"""Heavy imports that Ctrl-C cannot cut in half."""

from __future__ import annotations

import importlib
import signal
import threading
from typing import Any


def whole(*modules: str) -> None:
    """Import modules with Ctrl-C held back until all are in: one cut short can swallow it.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed meanwhile.
    """
    pressed: list[Any] = []
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *given: pressed.append(given)) if main else None
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
