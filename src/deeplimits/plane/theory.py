"""What theory says along the right edge and at the corner, gathered before anything is sampled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from deeplimits.architecture.compose import body
from deeplimits.architecture.layer import Layer
from deeplimits.errors import DescriptionError, InputError, NoLimit, NoRule, PrecisionError
from deeplimits.limits.proportional.chi_square import log_norm_law
from deeplimits.numerics.fit import Slope, slope
from deeplimits.plane.record import DepthRate

FAR = (8, 16, 32, 64, 128, 256)
ABSENT = (NoRule, NoLimit, DescriptionError, PrecisionError)


@dataclass
class Theory:
    """Predicted kernels {name: {depth: (k, k)}}, depth infinity included, and why one is missing."""

    kernels: dict[str, dict[float, np.ndarray | None]] = field(default_factory=dict)
    corner: str = ""
    notes: list[str] = field(default_factory=list)

    def at(self, name: str, depth: float) -> np.ndarray | None:
        """Return the predicted kernel, None where there is none."""
        return self.kernels.get(name, {}).get(depth)


def predict(net: Layer, inputs: np.ndarray, depths: Iterable[int], get: tuple[str, ...]) -> Theory:
    """Return the right edge at every depth and the corner; a missing prediction leaves its reason in the notes.

    Returns:
        nngp: covariance of the features that enter the readout; ntk: of the network with its readout.
    """
    theory = Theory()
    features = body(net)
    for name in get:
        asked = features if name == "nngp" else net
        found: dict[float, np.ndarray | None] = {}
        for depth in (*sorted(set(depths)), inf):
            found[depth] = _kernel(asked, inputs, depth, name, theory)
            if found[depth] is None and depth < inf:
                break
        theory.kernels[name] = found
    theory.corner = theory.corner or _words(net)
    return theory


def depth_rate(net: Layer, inputs: np.ndarray, name: str, theory: Theory) -> DepthRate:
    """Return |K(L) - K(inf)|_F / |K(inf)|_F at depths 8 to 256 and its exponent: no sample is involved."""
    limit = theory.at(name, inf)
    if limit is None or not np.any(limit):
        return DepthRate(name, [], [], None, "no kernel at infinite depth to approach")
    asked = body(net) if name == "nngp" else net
    gaps = []
    for depth in FAR:
        kernel = _kernel(asked, inputs, depth, name, theory)
        if kernel is None:
            return DepthRate(name, [], [], None, "no kernel at finite depth")
        gaps.append(float(np.linalg.norm(kernel - limit) / np.linalg.norm(limit)))
    fitted = _power(np.array(FAR, dtype=float), np.array(gaps))
    return DepthRate(name, list(FAR), gaps, fitted, _reading(gaps, fitted))


def log_norm(net: Layer, width: int, depth: int) -> tuple[float, float] | None:
    """Return mean and variance over networks of log(q/q_edge) where they are known exactly, else None."""
    try:
        law = log_norm_law(net, width, depth)
    except (NoRule, DescriptionError, InputError):
        return None
    return law.mean - law.edge, law.variance


def _power(depths: np.ndarray, gaps: np.ndarray) -> Slope | None:
    seen = gaps > 1e-11
    far = seen & (depths >= 32)
    chosen = far if far.sum() >= 3 else seen
    return slope(depths[chosen], gaps[chosen]) if chosen.sum() >= 3 else None


def _reading(gaps: list[float], fitted: Slope | None) -> str:
    if max(gaps) <= 1e-11:
        return "the kernel is the same at every depth"
    if fitted is None:
        return "faster than any power of depth that double precision can show"
    interval = f"L^{fitted.value:.3f}, 99 % interval [{fitted.low:.3f}, {fitted.high:.3f}]"
    if fitted.high - fitted.low > 0.5:
        return f"not one power of depth ({interval})"
    return f"falls as {interval}" if fitted.high < 0 else f"does not fall ({interval})"


def _kernel(net: Layer, inputs: np.ndarray, depth: float, name: str, theory: Theory) -> np.ndarray | None:
    from deeplimits.limits.kernel.ask import kernel

    try:
        answer = kernel(net, inputs, depth=depth, get=(name,))
    except ABSENT as error:
        theory.notes.append(f"{name} at depth {depth:g}: {error}")
        return None
    if depth == inf:
        theory.corner = answer.describe()
    return np.asarray(getattr(answer, name), dtype=np.float64)


def _words(net: Layer) -> str:
    from deeplimits.limits.flow.describe import describe

    try:
        return str(describe(net, depth=inf))
    except ABSENT as error:
        return str(error)
