"""Measures on any torch module: use of depth, ranks, neural collapse, and pairs of neurons that run to infinity.

`dl.diagnostics.depth_use(model, inputs)` measures everything that one forward pass and the skipping of blocks tell;
docs/depth-use.md shows how to read it.
"""

from __future__ import annotations

from deeplimits.doors import door

_HOME = {
    "channels": "channel",
    "Channel": "channel_record",
    "Channels": "channel_record",
    "depth_use": "ask",
    "depth_score": "record",
    "DepthUse": "record",
    "effective_rank": "rank",
    "integrated_gradients": "gradients",
    "Attribution": "gradients",
    "linear_maps": "maps",
    "LinearMaps": "maps",
    "neural_collapse": "collapse",
    "neural_collapse_of": "collapse",
    "NeuralCollapse": "collapse_record",
    "null_contribution": "null",
    "null_skip": "null",
    "stable_rank": "rank",
}
"""{name: module of this package that holds it}, imported when it is asked for."""

__all__ = sorted(_HOME)
__getattr__, __dir__ = door(__name__, _HOME)
