"""The rate at which a kernel explodes, measured on the one-dimensional recursion."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeplimits.architecture.compose import Repeat
from deeplimits.architecture.layer import Layer
from deeplimits.limits.kernel import diagonal
from deeplimits.limits.kernel.lowering import Lowering, kernel

_DEPTHS = (64, 128, 256)


def trace(block: Layer, state: Lowering, depth: int) -> diagonal.Diagonal:
    """Return the diagonal after `depth` blocks, started where the tape stands, at the state's probes."""
    start = diagonal.run(state.tape(), np.asarray(state.probe, dtype=float))
    trial = state.fork()
    trial.depth = depth
    kernel(Repeat(block), trial)
    return diagonal.run(trial.tape(), start.k, start.theta)


def explosion(block: Layer, state: Lowering, cause: Any) -> str:
    """Return, in words, why there is no limit and how fast the kernel grows."""
    q = [float(np.median(trace(block, state, depth).k)) for depth in _DEPTHS]
    growth = cause.growth
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        logs = np.log(q)
        per_layer = (logs[2] - logs[1]) / (_DEPTHS[2] ** growth - _DEPTHS[1] ** growth)
        earlier = (logs[1] - logs[0]) / (_DEPTHS[1] ** growth - _DEPTHS[0] ** growth)
        power = (logs[2] - logs[1]) / np.log(2)
        steady = abs(per_layer - earlier) <= 0.25 * abs(earlier)
    head = f"no limit at infinite depth: {cause.why}; "
    mend = "; scale the branches by DEPTH**-0.5 to get a flow"
    if not np.isfinite(logs).all():
        return head + f"the kernel leaves the range of float64 before depth {_DEPTHS[2]}" + mend
    if steady:
        variable = "L" if growth == 1 else f"L^{growth:g}"
        return (
            head
            + f"the kernel explodes like exp({per_layer:.4g} {variable}) (measured at L={_DEPTHS[1]} and {_DEPTHS[2]})"
            + mend
        )
    return head + f"the kernel grows like L^{power:.3g} (measured at L={_DEPTHS[1]} and {_DEPTHS[2]})" + mend
