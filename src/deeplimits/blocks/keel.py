"""Keel: post-LayerNorm whose skip is multiplied by the depth, so that gradients pass a thousand layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Literal

from torch import Tensor, nn

from deeplimits.errors import InputError

Alpha = Literal["L", "sqrtL"] | float


class Keel(nn.Module):
    """A sub-layer whose skip outweighs its branch before the norm.

    x' = LN(alpha x + F(LN(x))), with alpha = L, sqrt(L) or a constant; alpha = 1 is Post-LN with a normed branch.
    (..., width) to (..., width). With alpha = L, x' = x + (1/L) P F + O(1/L^2): the scaling of a neural ODE.

    Args:
        branch: F, any module that keeps (..., width): attention or a perceptron.
        width: features.
        layers: L, all sub-layers of the network: twice the blocks of a transformer.
        alpha: "L", "sqrtL", or a number above 0.

    Valid when: at iid initialization the signal hardly moves, see `movement`; training moves it. What the source does
    with the first layer could not be read: here it is a sub-layer like the others.

    Raises:
        InputError: an alpha that is none of these, or fewer than one layer.

    Source: chen-wei-2026-keel; the law of the skip: derived, see `skip_gradient`.

    Example:
        >>> import torch
        >>> block = Keel(nn.Linear(64, 64), width=64, layers=1000)
        >>> x = torch.nn.functional.layer_norm(torch.randn(8, 64), (64,))
        >>> bool((block(x) - x).abs().max() < 0.01), block.alpha
        (True, 1000.0)
    """

    def __init__(self, branch: nn.Module, width: int, layers: int, alpha: Alpha = "L"):
        super().__init__()
        self.alpha = skip_weight(layers, alpha)
        self.before, self.branch, self.after = nn.LayerNorm(width), branch, nn.LayerNorm(width)

    @classmethod
    def stack(cls, branches: Sequence[nn.Module], width: int, alpha: Alpha = "L") -> nn.Sequential:
        """Return one block a branch, in order, with L their number."""
        return nn.Sequential(*(cls(branch, width, len(branches), alpha) for branch in branches))

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.alpha * x + self.branch(self.before(x)))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}"


def skip_weight(layers: int, alpha: Alpha) -> float:
    """Return the number that "L", "sqrtL" or a constant stands for.

    Raises:
        InputError: anything else, or fewer than one layer.

    Example:
        >>> skip_weight(64, "L"), skip_weight(64, "sqrtL"), skip_weight(64, 1.0)
        (64.0, 8.0, 1.0)
    """
    if not isinstance(layers, int) or layers < 1:
        raise InputError("Keel", f"layers={layers!r}", "give the number of all sub-layers, 1 or more")
    named = {"L": float(layers), "sqrtL": sqrt(layers)}
    if isinstance(alpha, str):
        if alpha not in named:
            raise InputError("Keel", f"alpha={alpha!r}", "use 'L', 'sqrtL' or a number above 0")
        return named[alpha]
    if not (isfinite(alpha) and alpha > 0):
        raise InputError("Keel", f"alpha={alpha!r}", "use 'L', 'sqrtL' or a number above 0")
    return float(alpha)


def skip_gradient(layers: int, alpha: Alpha = "L", branch_variance: float = 1.0) -> float:
    """Return the norm of the gradient that the skips alone carry from the last layer to the first, relative.

    (1 + s_F^2 / alpha^2)^(-L/2): each norm divides by the root mean square sqrt(alpha^2 + s_F^2) of its input. As L
    grows: 1 for alpha = L, exp(-s_F^2/2) for sqrt(L), and 2^(-L/2), nothing, for alpha = 1. The correlation of the
    last features with the first, at iid initialization, is the same number.

    Args:
        layers: L.
        alpha: as of the block.
        branch_variance: s_F^2, variance of the branch's outputs where the norm's input has variance 1.

    Valid when: branches are iid and independent of the features, and the width is large. It says nothing of gradients
    through branches: those of ReLU perceptrons keep even Post-LN's whole gradient at order 1.

    Source: derived.

    Example:
        >>> [round(skip_gradient(256, alpha), 3) for alpha in ("L", "sqrtL")], skip_gradient(256, 1.0) < 1e-38
        ([0.998, 0.607], True)
    """
    return (1 + branch_variance / skip_weight(layers, alpha) ** 2) ** (-layers / 2)


def movement(layers: int, alpha: Alpha = "L", branch_variance: float = 1.0) -> float:
    """Return the mean square of x_L - x_0 over all features, at iid initialization and in the limit of width.

    2 (1 - correlation), which is s_F^2 / L + O(1/L^2) for alpha = L: an infinitely deep network starts as the identity.

    Args:
        layers: L.
        alpha: as of the block.
        branch_variance: s_F^2.

    Source: derived; the correlation is `skip_gradient`.

    Example:
        >>> [round(depth * movement(depth), 3) for depth in (32, 128, 512)]
        [0.992, 0.998, 1.0]
    """
    return 2 * (1 - skip_gradient(layers, alpha, branch_variance))
