"""The proportional question: how one layer moves a covariance at large width, in numbers that add up over a block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from deeplimits.architecture.question import Question
from deeplimits.errors import DescriptionError
from deeplimits.limits.proportional.attention import (
    attention_covariance,
    attention_drift,
    first_order,
    first_order_square,
    second_order,
    visible,
)
from deeplimits.limits.proportional.perceptron import angle_drift, dense_covariance
from deeplimits.numerics.sde import INDEFINITE, factor

proportional = Question(
    "proportional",
    otherwise="use layers near the identity, dl.act.ShapedRelu or Attention('shaped'), or sample with dl.sample",
)


@dataclass(frozen=True)
class Motion:
    """The move of a covariance V in one layer of a network of width n: V' = gain (V + drift(V)/n + noise(V)/sqrt(n)).

    Attributes:
        gain: factor of V.
        dense: variance of the noise L (G + G^T) L^T / sqrt(2), L L^T = V, G independent normals.
        angle: factor of `angle_drift`.
        attention: factor of `attention_drift`.
        first_order: variance of the noise A_1 V + V A_1^T.
        causal: whether tokens see only those before them; None without attention.
        slopes: of an activation that is not shaped by the width, (above, below) zero; None where there is none.

    Example:
        >>> Motion(dense=1.0).then(Motion(dense=1.0)).dense
        2.0
    """

    gain: float = 1.0
    dense: float = 0.0
    angle: float = 0.0
    attention: float = 0.0
    first_order: float = 0.0
    causal: bool | None = None
    slopes: tuple[float, float] | None = None

    def then(self, other: Motion) -> Motion:
        """Return the motion of this layer and another one after it; attention is a cubic function of V.

        Raises:
            DescriptionError: masked and unmasked attention in one block, or two activations that are not shaped.
        """
        if self.causal is not None and other.causal is not None and self.causal != other.causal:
            raise DescriptionError("proportional", "a block mixes causal and unmasked attention", "use one of them")
        if self.slopes is not None and other.slopes is not None:
            why = "a block has two activations that are not shaped by the width"
            raise DescriptionError("proportional", why, "repeat a block of one Dense layer and one activation")
        return Motion(
            self.gain * other.gain,
            self.dense + other.dense,
            self.angle + other.angle,
            self.attention + self.gain**2 * other.attention,
            self.first_order + self.gain**2 * other.first_order,
            self.causal if other.causal is None else other.causal,
            self.slopes or other.slopes,
        )

    def beside_skip(self, skip: float, scale: float) -> Motion:
        """Return the motion of skip * x + scale * branch(x), whose branch ends in fresh Gaussian weights.

        V' = skip^2 V + scale^2 branch(V) + skip scale (C + C^T) / sqrt(n), C = L G M^T with M M^T = branch(V).
        """
        kept, added = skip**2, scale**2 * self.gain
        gain = kept + added
        share = added / gain
        return replace(
            self,
            gain=gain,
            dense=share**2 * self.dense + 2 * kept * added / gain**2,
            angle=share * self.angle,
            attention=share * self.attention,
            first_order=share**2 * self.first_order,
        )

    def drift(self, V: Tensor) -> Tensor:
        """Return the drift of V in time layer/n, divided by the gain; V of shape (..., m, m)."""
        moved = self.angle * angle_drift(V)
        return moved + self.attention * attention_drift(V, self.visible(V)) if self.attention else moved

    def covariance(self, V: Tensor) -> Tensor:
        """Return the covariance of the noise of V, (m, m, m, m), divided by the gain squared; V of shape (m, m)."""
        found = self.dense * dense_covariance(V)
        return found + self.first_order * attention_covariance(V, self.visible(V)) if self.first_order else found

    def visible(self, V: Tensor) -> Tensor:
        """Return which tokens see which, for `attention`."""
        return visible(V.shape[-1], bool(self.causal)).to(V)

    def shapes(self, tokens: int) -> tuple[int, ...]:
        """Return the shape of the normals of one step for one sample."""
        return (2 if self.first_order else 1), tokens, tokens

    def step(self, V: Tensor, length: float, normals: Tensor) -> tuple[Tensor, Tensor]:
        """Return V after a step of the given length, and which samples had to be made positive semi-definite before it.

        The scheme is that of a network's layer: V' = R R^T + length * rest(V), R = M L (I + sqrt(length) a G), with
        M = I + sqrt(length) A_1 + length A_2, so that what noise adds stays positive semi-definite; weak order 1.

        Args:
            V: shape (S, m, m).
            length: of the step.
            normals: shape (S, *shapes(m)).
        """
        root, repaired = _root(V)
        rest = self.angle * angle_drift(V) if self.angle else torch.zeros_like(V)
        left = root
        if self.attention:
            T = self.visible(V)
            tilt = (length * self.first_order) ** 0.5 * first_order(root, normals[:, 1], T)
            left = root + (tilt + length * self.attention * second_order(V, T)) @ root
            rest = rest + (self.attention - self.first_order) * first_order_square(V, T)
        if self.dense:
            spread = 0.5 * length * self.dense
            left = (left + spread**0.5 * left @ normals[:, 0]) / (1 + spread * V.shape[-1]) ** 0.5
        return left @ left.mT + length * rest, repaired


def _root(V: Tensor) -> tuple[Tensor, Tensor]:
    """Return L with L L^T = V, (S, m, m), and which V had a negative part, which L leaves out."""
    root, failed = torch.linalg.cholesky_ex(V)
    lost = failed > 0
    if bool(lost.any()):
        rows = lost.nonzero()[:, 0]
        root[rows] = factor(V[rows])[0]
        diagonal = V[rows].diagonal(dim1=-2, dim2=-1)
        apart = (root[rows].square().sum(-1) - diagonal).abs()
        lost[rows] = (apart > INDEFINITE * diagonal.abs()).any(-1)
    return root, lost
