"""What powers of the depth, in branches and learning rates, do to an infinitely deep residual network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from deeplimits.errors import DescriptionError
from deeplimits.transfer.rule import family

_TOLERANCE = 1e-12


@dataclass(frozen=True)
class DepthClass:
    """A classified pair of powers: branches times L^-alpha, learning rates of blocks times L^-gamma.

    Attributes:
        alpha: of the branches.
        gamma: of the learning rates.
        family: of the optimizer.
        initial: the hidden state gets L^initial from the blocks at the start, 1/2 - alpha.
        layer: a step changes what one block gives, before the factor of its branch, by L^layer: -gamma (SGD:
            -gamma - alpha, for its gradients carry the branch's factor).
        learned: a step of all blocks changes the hidden state by L^learned, 1 - alpha + layer.
        stable: hidden states and what they change by stay bounded: alpha >= 1/2 and learned <= 0.
        faithful: stable, and so does what single blocks give: layer <= 0.
        feature_learning: stable, and the blocks change the hidden state by order 1: learned = 0.
        lazy_layers: stable, and every single block changes by less and less: layer < 0.
        variation: the sum of |h_l - h_{l-1}|^2 over the blocks goes as L^variation, the larger of 1 - 2 alpha (the
            start) and 2 learned - 1.
        diversity: the exponent d of |h_{s + e} - h_s| ~ e^d in the layer time s of an infinitely deep network: 1/2
            where the variation stays (every block brings features of its own), 1 where it vanishes (a smooth curve);
            None where it is not stable.
        redundant: stable, and blocks nearby have the same features: diversity 1.
    """

    alpha: float
    gamma: float
    family: str
    initial: float
    layer: float
    learned: float
    stable: bool
    faithful: bool
    feature_learning: bool
    lazy_layers: bool
    variation: float
    diversity: float | None
    redundant: bool

    def __str__(self) -> str:
        yes = {True: "", False: "not "}
        said = [f"{yes[self.stable]}stable"]
        if self.stable:
            said += [f"{yes[self.faithful]}faithful", f"{yes[self.feature_learning]}feature learning"]
            said += [f"{yes[self.redundant]}redundant"]
        powers = f"branches L^{0 - self.alpha:g}, learning rates L^{0 - self.gamma:g}"
        return f"{powers} ({self.family}): {', '.join(said)}"

    def measure(self, depths: Sequence[int] = (8, 16, 32, 64), **settings: Any) -> Any:
        """Train small networks of several depths and return their exponents, as `depth_measured.measure` does.

        Args:
            depths: of the networks.
            settings: width, seeds, steps, lr, activation.
        """
        from deeplimits.transfer.exponents.depth_measured import measure

        return measure(self, depths, **settings)


def depth_class(alpha: float, gamma: float, optimizer: str = "adamw") -> DepthClass:
    """Classify h_l = h_{l-1} + L^-alpha W_l phi(h_{l-1}), its W_l trained with learning rates that fall as L^-gamma.

    Width goes to infinity first, in muP. At the start the L independent branches add up to L^(1/2 - alpha). A step of
    an optimizer with normalised steps changes W_l phi(h) by L^-gamma, with SGD, whose gradient has the branch's factor,
    by L^-(gamma + alpha); these changes point the same way in all blocks, and add up to L^(1 - alpha) times that. The
    noise of the start moves h by sqrt(e) L^(1/2 - alpha) over a share e of the blocks, what is learned by e: where
    alpha > 1/2 only the second is left, and half the blocks, each twice as strong, would do.

    Args:
        alpha: power of the branches.
        gamma: power of the learning rates, of blocks only.
        optimizer: name or family.

    Valid when: one-layer blocks (deeper ones have no perfect limit); readout, input and their training aside.

    Raises:
        DescriptionError: not numbers, or an optimizer of no known family.

    Source: yang-2023-tp6-depth-mup; conditions by family: derived.

    Example:
        >>> print(depth_class(0.5, 0.5))
        branches L^-0.5, learning rates L^-0.5 (entrywise): stable, faithful, feature learning, not redundant
        >>> depth_class(1.0, 0.0).redundant, depth_class(0.5, 0.0).stable, depth_class(0.5, 0.0, "sgd").feature_learning
        (True, False, True)
    """
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        if not isinstance(value, int | float) or not isfinite(value):
            raise DescriptionError("depth_class", f"{name}={value!r}", "give a power of the depth, a number")
    kind = family(optimizer)
    layer = -gamma - (alpha if kind == "sgd" else 0.0)
    learned = 1 - alpha + layer
    stable = alpha >= 0.5 - _TOLERANCE and learned <= _TOLERANCE
    rough = abs(alpha - 0.5) <= _TOLERANCE
    return DepthClass(
        alpha=alpha,
        gamma=gamma,
        family=kind,
        initial=0.5 - alpha,
        layer=layer,
        learned=learned,
        stable=stable,
        faithful=stable and layer <= _TOLERANCE,
        feature_learning=stable and abs(learned) <= _TOLERANCE,
        lazy_layers=stable and layer < -_TOLERANCE,
        variation=max(1 - 2 * alpha, 2 * learned - 1),
        diversity=(0.5 if rough else 1.0) if stable else None,
        redundant=stable and not rough,
    )
