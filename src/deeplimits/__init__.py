"""deeplimits: describe a network family once, and stand anywhere on its (width, depth) plane, infinity included."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from deeplimits.doors import door

__version__ = "0.1.0"

_HOME = {
    "Mlp": "architecture.zoo",
    "ResNet": "architecture.zoo",
    "StableResNet": "architecture.zoo",
    "ShapedMlp": "architecture.shaped",
    "increment": "architecture.increment",
    "DEPTH": "architecture.layer",
    "WIDTH": "architecture.layer",
    "kernel": "limits.kernel.ask",
    "Kernel": "limits.kernel.record",
    "criticality": "limits.flow.criticality",
    "Criticality": "limits.flow.criticality",
    "diffusion": "limits.diffusion.ask",
    "Diffusion": "limits.diffusion.record",
    "proportional": "limits.proportional.ask",
    "Proportional": "limits.proportional.record",
    "tokens": "limits.tokens.ask",
    "Tokens": "limits.tokens.record",
    "describe": "limits.flow.describe",
    "build": "finite",
    "sample": "finite",
    "empirical_ntk": "finite",
    "compare": "plane.compare",
    "Comparison": "plane.record",
    "plot": "report",
    "html": "report",
    "gradient_flow": "limits.training.lazy.ask",
    "mean_field": "limits.training.mean_field.ask",
    "coordinate_check": "transfer.evidence.coordinates",
    "lr_transfer": "transfer.evidence.sweep",
    "grow": "transfer.growth.grow",
    "DeepLimitsError": "errors",
}
_ROOMS = ("act", "layer", "learn", "errors", "testing", "training", "transfer", "blocks", "diagnostics")

__all__ = sorted([*_HOME, *_ROOMS])


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    globals()[name] = value = _opened(name)
    return value


_opened, __dir__ = door(__name__, {**_HOME, **dict.fromkeys(_ROOMS, "")})
