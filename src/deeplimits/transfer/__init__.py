"""From the limit to hyperparameters: settings tuned on a small model, carried to a large one.

`deeplimits.transfer` is this package and the function that makes a plan at once: `dl.transfer(build, base=..., ...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """A package that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from deeplimits.transfer.make import transfer

        return transfer(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
