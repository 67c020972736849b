"""From the limit to hyperparameters: settings tuned on a small model, carried to a large one.

`deeplimits.transfer` is this package and the function that makes a plan at once: `dl.transfer(build, base=..., ...)`.
`dl.transfer.explain(name)` gives the table of a rule; `Plan.load` reads a plan from a file; `abc` and `depth_class`
classify powers of width and depth; `watch` samples a run of the base, and `SAM` is sharpness-aware minimization as a
plan scales it.
"""

from __future__ import annotations

import sys
from inspect import Parameter, Signature, getdoc, signature
from types import ModuleType
from typing import Any

from deeplimits.doors import door

_HOME = {
    "abc": "exponents.abc_parametrization",
    "explain": "role_table",
    "Plan": "plan",
    "SAM": "steps.sam",
    "watch": "steps.watching",
    "depth_class": "exponents.depth",
}
"""{name: module of this package that holds it}, imported when it is asked for."""

_opened, _ = door(__name__, _HOME)


class _Verb(ModuleType):
    """A package that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from deeplimits.transfer.make import transfer

        return transfer(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        from deeplimits.transfer.make import transfer

        return signature(transfer)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from deeplimits.transfer.make import transfer

        plain = [p.replace(annotation=Parameter.empty) for p in signature(transfer).parameters.values()]
        return f"{vars(self)['__doc__']}\ntransfer{Signature(plain)}\n\n{getdoc(transfer)}"

    def __getattr__(self, name: str) -> Any:
        return _opened(name)


sys.modules[__name__].__class__ = _Verb
