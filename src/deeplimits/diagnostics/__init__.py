"""Measures on any torch module: how deep networks use their depth, and the rank of what they compute.

`dl.diagnostics.depth_use(model, inputs)` measures everything that one forward pass and the skipping of blocks tell;
docs/depth-use.md shows how to read it.
"""

from __future__ import annotations

from deeplimits.doors import door

_HOME = {
    "depth_use": "ask",
    "depth_score": "record",
    "DepthUse": "record",
    "effective_rank": "rank",
    "integrated_gradients": "gradients",
    "Attribution": "gradients",
    "linear_maps": "maps",
    "LinearMaps": "maps",
    "null_contribution": "null",
    "null_skip": "null",
    "stable_rank": "rank",
}
"""{name: module of this package that holds it}, imported when it is asked for."""

__all__ = sorted(_HOME)
__getattr__, __dir__ = door(__name__, _HOME)
