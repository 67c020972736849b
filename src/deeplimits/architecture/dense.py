"""The dense layer and the laws its weights may follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from deeplimits.architecture.layer import WIDTH, Layer, Share, number
from deeplimits.architecture.size import check_size, is_fixed
from deeplimits.errors import DescriptionError


@dataclass(frozen=True)
class WeightLaw:
    """A law of the weight matrix W (n_out x n_in), normalised to n_in * Var(W_ij) = weight_std**2."""

    def fixed_size(self) -> str | None:
        """Return the name of a size given as a fixed number, which has no infinite-width limit."""
        return None


@dataclass(frozen=True)
class Gaussian(WeightLaw):
    """Independent entries W_ij ~ N(0, weight_std**2 / n_in)."""


@dataclass(frozen=True)
class Orthogonal(WeightLaw):
    """weight_std times a Haar-distributed (semi-)orthogonal matrix.

    Effective variance: weight_std = scale of the orthogonal matrix. Source: naitsaada-2023-pseudo-iid.
    """


@dataclass(frozen=True)
class LowRank(WeightLaw):
    """W = C P with C (n_out x r) fixed with orthonormal columns and P trained, P_ij ~ N(0, v).

    Effective variance: weight_std**2 = r v. Fluctuations fall as 1/sqrt(r). Source: naitsaada-2023-pseudo-iid.
    """

    rank: Any = Share(0.5)

    def __post_init__(self) -> None:
        check_size("LowRank", "rank", self.rank)

    def fixed_size(self) -> str | None:
        return f"rank={self.rank}" if is_fixed(self.rank) else None


@dataclass(frozen=True)
class Sparse(WeightLaw):
    """Each entry is kept with probability p (the density); kept entries have variance v.

    Effective variance: weight_std**2 = n_in p v. Source: naitsaada-2023-pseudo-iid.
    """

    density: Any = 0.1

    def __post_init__(self) -> None:
        check_size("Sparse", "density", self.density)

    def fixed_size(self) -> str | None:
        return f"density={self.density} entries a row" if is_fixed(self.density) else None


@dataclass(frozen=True)
class BlockDiagonal(WeightLaw):
    """Diagonal blocks of m x m Gaussian entries of variance v, rows and columns permuted at random.

    Effective variance: weight_std**2 = m v. Source: naitsaada-2023-pseudo-iid.
    """

    block: Any = Share(0.125)

    def __post_init__(self) -> None:
        check_size("BlockDiagonal", "block", self.block)

    def fixed_size(self) -> str | None:
        return f"block={self.block}" if is_fixed(self.block) else None


@dataclass(frozen=True)
class Dense(Layer):
    """A dense layer y = W x + b with n_in Var(W_ij) = weight_std**2 and b_i ~ N(0, bias_std**2).

    Args:
        features: number of outputs, WIDTH or a multiple of it.
        weight_std: standard deviation of sqrt(n_in) W_ij.
        bias_std: standard deviation of b_i.
        weights: law of the matrix.

    Raises:
        DescriptionError: a negative or non-finite standard deviation, or features that are not a size.

    Example:
        >>> Dense(weight_std=1.5, bias_std=0.1).features
        WIDTH
    """

    features: Any = WIDTH
    weight_std: Any = 1.0
    bias_std: Any = 0.0
    weights: WeightLaw = field(default_factory=Gaussian)

    tunable: ClassVar[tuple[str, ...]] = ("weight_std", "bias_std")

    def __post_init__(self) -> None:
        check_size("Dense", "features", self.features, largest=inf)
        number("Dense", "weight_std", self.weight_std)
        number("Dense", "bias_std", self.bias_std)
        if not isinstance(self.weights, WeightLaw):
            known = "Gaussian(), Orthogonal(), LowRank(...), Sparse(...) or BlockDiagonal(...)"
            raise DescriptionError(
                "Dense", f"weights={self.weights!r} is not a law of weights", f"use {known} of dl.layer"
            )
