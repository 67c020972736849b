"""What measuring the use of depth found, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deeplimits.diagnostics.null import null_contribution, null_skip
from deeplimits.errors import InputError


@dataclass(frozen=True)
class Sublayer:
    """Relative contribution and cosine of one kind of sub-layer, block by block, with the stream it adds to."""

    name: str
    contribution: tuple[float, ...]
    cosine: tuple[float, ...]


@dataclass(frozen=True)
class Skips:
    """What leaving a block out changes.

    Attributes:
        updates: [s][l], relative change of block l's update when block s is skipped; 0 for l <= s.
        output: [s], change of the model's output: |p - p'| of the softmax, or relative where outputs are no logits.
        over: "max" or "mean" over positions and prompts.
        future: place after which changes are measured, block s being skipped up to it; None where it is skipped
            everywhere.
    """

    updates: tuple[tuple[float, ...], ...]
    output: tuple[float, ...]
    over: str
    future: int | None

    @property
    def next_block(self) -> tuple[float, ...]:
        """Change of block s+1 when block s is skipped; its null is 1/sqrt(s+2)."""
        return tuple(row[place + 1] for place, row in enumerate(self.updates[:-1]))

    @property
    def null(self) -> list[float]:
        """`next_block` of an untrained network, means over positions."""
        return null_skip(len(self.updates))


@dataclass(frozen=True)
class Lens:
    """What each layer would answer: final norm and readout applied to h_l, at l = 0 ... L.

    Attributes:
        divergence: Kullback-Leibler divergence of the layer's answer from the final one, mean, in nats.
        overlap: share of the final answer's `top` likeliest outputs among the layer's own, mean.
        top: how many.
    """

    divergence: tuple[float, ...]
    overlap: tuple[float, ...]
    top: int


@dataclass(frozen=True, repr=False)
class DepthUse:
    """How a network uses its blocks.

    Attributes:
        model: its class.
        names: of the blocks.
        places: positions and prompts that means and maxima are over.
        contribution: |h_{l+1} - h_l| / |h_l|, mean.
        cosine: of h_{l+1} - h_l with h_l, mean: below 0 erases, 0 writes what is new, above 0 amplifies.
        sizes: root mean square of h_0 ... h_L.
        sublayers: the same for the parts that blocks add, where they were found.
        skips: what leaving blocks out changes; None if not asked for.
        lens: what layers would answer; None if not asked for.
    """

    model: str
    names: tuple[str, ...]
    places: int
    contribution: tuple[float, ...]
    cosine: tuple[float, ...]
    sizes: tuple[float, ...]
    sublayers: tuple[Sublayer, ...]
    skips: Skips | None
    lens: Lens | None

    def __repr__(self) -> str:
        ends = f"contributions {self.contribution[0]:.3g} to {self.contribution[-1]:.3g}"
        return f"<DepthUse: {self.model}, {len(self.names)} blocks, {ends} (untrained: {self.matched_null[-1]:.3g})>"

    @property
    def null(self) -> list[float]:
        """1/sqrt(l+1): the contributions of an untrained pre-norm network."""
        return null_contribution(len(self.names))

    @property
    def matched_null(self) -> list[float]:
        """The same with the first block's own contribution, for streams that enter small or large."""
        return null_contribution(len(self.names), self.contribution[0])

    @property
    def score(self) -> float:
        """Mean block weighted by what skipping it does to the output, 0 the first."""
        if self.skips is None:
            raise InputError("depth_use", "no skips were measured", "measure with skips='max' or 'mean'")
        return depth_score(self.skips.output)

    def half(self) -> float:
        """Return the mean contribution of the second half of the blocks over that of the first half.

        The null's own ratio stands in `null_half`.
        """
        return _halves(self.contribution)

    def null_half(self) -> float:
        """Return the same ratio of the matched null."""
        return _halves(self.matched_null)


def _halves(values: Sequence[float]) -> float:
    middle = len(values) // 2
    first, second = values[:middle], values[middle:]
    return (sum(second) / len(second)) / (sum(first) / len(first)) if first else 1.0


def depth_score(effects: Sequence[float]) -> float:
    """Return the mean index weighted by effects: low where what matters happens in early blocks.

    sum_l l e_l / sum_l e_l, l = 0 the first block.

    Args:
        effects: of each block, at least 0: of skipping it on the output, or of its attribution.

    Raises:
        InputError: an effect below 0 or not finite, or none above 0.

    Source: csordas-2025-depth-use.

    Example:
        >>> depth_score([1.0, 1.0, 1.0]), depth_score([0.0, 0.0, 2.0])
        (1.0, 2.0)
    """
    for place, effect in enumerate(effects):
        if not 0 <= effect < float("inf"):
            raise InputError("depth_score", f"effect {effect!r} of block {place}", "give finite effects of at least 0")
    total = sum(effects)
    if not total > 0:
        raise InputError("depth_score", "no block has an effect", "measure on inputs that the model tells apart")
    return sum(place * effect for place, effect in enumerate(effects)) / total
