"""Torch modules for very deep, implicit and continuous networks, each usable alone: `dl.blocks.Keel(branch, 64, 1000)`.

Every block states its limit or invariant, which its tests hold, and its source; docs/blocks.md lists them.
"""

from __future__ import annotations

from deeplimits.doors import door

_HOME = {
    "Keel": "keel",
    "skip_gradient": "keel",
    "movement": "keel",
    "HyperConnections": "hyper_connections",
    "doubly_stochastic": "sinkhorn",
    "DeepDelta": "deep_delta",
    "delta": "deep_delta",
    "ManifoldGeometric": "manifold_geometric",
    "Fractal": "fractal",
    "FractalNet": "fractal",
    "Hypercomplex": "hypercomplex",
    "fixed_point": "iteration",
    "steady_state": "steady",
    "Injected": "injected",
    "DeepEquilibrium": "equilibrium",
    "ContinuousDeepEquilibrium": "equilibrium",
    "SkipDeepEquilibrium": "equilibrium",
    "SubhomogeneousDeepEquilibrium": "subhomogeneous",
    "degree": "subhomogeneity",
    "measured_degree": "subhomogeneity",
    "thompson": "subhomogeneity",
    "NeuralODE": "neural_ode",
    "Cell": "closed_form",
    "CfCCell": "closed_form",
    "LTCCell": "closed_form",
    "TimedSequence": "closed_form",
    "liquid": "closed_form",
    "liquid_approximation": "closed_form",
}
"""{name: module of this package that holds it}, imported when it is asked for."""

__all__ = sorted(_HOME)
__getattr__, __dir__ = door(__name__, _HOME)
